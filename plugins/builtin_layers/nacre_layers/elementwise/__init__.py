"""Layers that compute the same for every number, or for every position along an axis."""
