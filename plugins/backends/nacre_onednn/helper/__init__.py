"""nacre's own kernels in C, and how Python calls them."""
