"""Layers that summarise windows of images."""
