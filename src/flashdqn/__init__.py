"""flashdqn: a DQN-family trainer that is fast from its first step and can say where every microsecond went."""

from flashdqn.agent import Agent, load
from flashdqn.api import make_env, train
from flashdqn.config import Config
from flashdqn.errors import CheckpointError, ConfigError, DivergedError, EnvError, FlashDQNError
from flashdqn.train.session import Run

__version__ = "0.1.0.dev0"

__all__ = [
    "Agent",
    "CheckpointError",
    "Config",
    "ConfigError",
    "DivergedError",
    "EnvError",
    "FlashDQNError",
    "Run",
    "load",
    "make_env",
    "train",
]
