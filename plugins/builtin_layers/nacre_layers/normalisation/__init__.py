"""Layers that normalise their bottoms."""
