"""What can be written in a class line and in a file."""
