"""Layers that parse the records of a source, and the transformers that do the same within the source."""
