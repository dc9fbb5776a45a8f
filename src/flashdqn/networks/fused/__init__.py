"""Normalization with what stands around it (a bias before, ReLU after) as one operation on a GPU, by Triton."""
