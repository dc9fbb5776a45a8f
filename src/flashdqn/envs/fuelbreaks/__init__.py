"""Wildfire fuel breaks: where to remove fuel so that fires burn less, on CPU threads or on CUDA."""

from flashdqn.envs.fuelbreaks.config import FuelBreaksConfig
from flashdqn.envs.fuelbreaks.env import FuelBreaks

__all__ = ["FuelBreaks", "FuelBreaksConfig"]
