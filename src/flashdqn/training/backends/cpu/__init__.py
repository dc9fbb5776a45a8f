"""Hand-written code for the CPU, compiled by Numba."""
