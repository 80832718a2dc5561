"""Losses: layers that measure the error of a net."""
