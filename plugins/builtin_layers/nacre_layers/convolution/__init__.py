"""Layers that slide filters over images."""
