"""Layers made of layers."""
