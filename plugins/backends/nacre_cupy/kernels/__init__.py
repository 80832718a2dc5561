"""The cupy backend's own kernels: CUDA C++ in the .cu files, and beside each the Python that launches it."""
