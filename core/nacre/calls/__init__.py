"""Nets wired by calls: the handles that layers give when they are called, and the way from there to layers."""
