"""A net as a file, and back."""
