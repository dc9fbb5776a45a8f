"""A residual torso on small boards as three kernels: features, gradient of the boards, gradient of the weights.

By PyTorch, every convolution, normalization and addition reads a batch of boards from device memory and writes it
back, and that takes more time than the products. Here a board stays on its multiprocessor from the observation to
the features. The kernels are in `common.cu` and the three files after it; `kernels.py` compiles and launches them,
`twin.py` does the same in plain PyTorch on any device, `operators.py` makes operators of both, `check.py` compares
them before they are used, and `torso.py` is what `ResNet` calls.
"""
