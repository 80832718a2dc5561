"""Who offers what, and which kernel is used."""
