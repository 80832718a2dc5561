"""Layers that treat every number alike, or every place along an axis."""
