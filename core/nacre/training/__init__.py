"""Iterations until it is done."""
