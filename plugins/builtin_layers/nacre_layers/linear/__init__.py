"""Layers that multiply by what they learn."""
