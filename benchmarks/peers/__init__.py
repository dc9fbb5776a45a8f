"""DQN by other people's hands, on our Snake: one program per library, for benchmarks/throughput.py."""
