"""Layers that say how wrong a net is."""
