"""Our tasks as Gymnasium environments: `gymnasium.make("flashdqn/Snake-v0")`. Nothing is imported here,
so `names.py` can register them without PyTorch."""
