"""Wildfire fuel breaks: where to remove fuel so that fires burn less, on CPU threads or on CUDA."""

from typing import TYPE_CHECKING

from flashdqn.core.lazy_names import import_later
from flashdqn.envs.fuelbreaks.config import FuelBreaksConfig

if TYPE_CHECKING:
    from flashdqn.envs.fuelbreaks.env import FuelBreaks
else:
    __getattr__ = import_later(__name__, {"FuelBreaks": "flashdqn.envs.fuelbreaks.env"})

__all__ = ["FuelBreaks", "FuelBreaksConfig"]
