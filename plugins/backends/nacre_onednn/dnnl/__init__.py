"""The oneDNN library as Python sees it."""
