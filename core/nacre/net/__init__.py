"""A net at work, and how people look at it."""
