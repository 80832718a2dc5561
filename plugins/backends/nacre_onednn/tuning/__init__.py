"""Finds the fastest of several ways to compute a net, and keeps it in plans."""
