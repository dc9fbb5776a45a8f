"""How the work of a training runs: eager, compiled, or hand-written for CPU and CUDA."""
