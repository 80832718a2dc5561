"""What a snapshot holds, and how two of them differ: data, no nets."""
