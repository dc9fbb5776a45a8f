"""Kernels, threads, devices, seeds: how anything is computed. Nothing here depends on training."""
