"""The formats of bytes that hold one record."""
