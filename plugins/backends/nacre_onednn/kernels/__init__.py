"""The kernels, one layer or component a file."""
