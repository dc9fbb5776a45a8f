"""Kernels, threads, devices, seeds: how anything is computed. It knows nothing of training."""
