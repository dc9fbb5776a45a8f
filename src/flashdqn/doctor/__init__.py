"""`flashdqn doctor`: watch any PyTorch training script, and say why it is slow."""
