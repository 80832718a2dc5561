"""Layers that sum up windows of images."""
