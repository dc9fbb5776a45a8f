"""Hand-written kernels for CUDA, compiled by Triton."""
