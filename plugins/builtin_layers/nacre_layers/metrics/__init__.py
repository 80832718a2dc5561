"""Metrics: layers that measure, without a loss."""
