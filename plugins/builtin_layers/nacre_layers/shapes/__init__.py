"""Layers that move numbers without computing them, or count along an axis."""
