"""Layers that only measure."""
