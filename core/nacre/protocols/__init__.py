"""What an author of a layer, a kernel or a backend implements."""
