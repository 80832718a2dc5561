"""Side by side with PyTorch, in one run."""
