"""Who offers what, and whose kernel serves."""
