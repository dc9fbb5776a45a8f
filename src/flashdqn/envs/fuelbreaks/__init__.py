"""Wildfire fuel breaks: where to remove fuel so that fires burn less, on CPU threads or on CUDA."""

from typing import TYPE_CHECKING

from flashdqn.core.lazy_names import import_later

if TYPE_CHECKING:
    from flashdqn.envs.fuelbreaks.config import FuelBreaksConfig
    from flashdqn.envs.fuelbreaks.env import FuelBreaks
else:  # the fire and the experts work without PyTorch's environment and without the command line's packages
    _HOMES = {"FuelBreaks": f"{__name__}.env", "FuelBreaksConfig": f"{__name__}.config"}
    __getattr__ = import_later(__name__, _HOMES)

__all__ = ["FuelBreaks", "FuelBreaksConfig"]
