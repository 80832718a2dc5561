"""Layers that move, select or count numbers."""
