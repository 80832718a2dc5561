"""The formats of files with records."""
