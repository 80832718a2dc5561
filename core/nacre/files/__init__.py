"""Bytes and tables on disk, whole or not at all."""
