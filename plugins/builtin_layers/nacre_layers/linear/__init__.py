"""Layers that multiply by learned numbers, or add them."""
