"""What is to be planned: a landscape, the weather of its fires, what they threaten, and what breaks cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashdqn.envs.fuelbreaks.fire.weather import Weather
from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.stakes import Stakes


@dataclass(frozen=True)
class Scenario:
    """One kind of weather, and its share of the fires."""

    name: str
    weather: Weather
    weight: float  # the weights of a problem sum to 1


@dataclass(frozen=True, eq=False)
class Problem:
    """A landscape, and everything that a plan for it depends on, except its budget."""

    landscape: Landscape
    scenarios: tuple[Scenario, ...]
    stakes: Stakes
    cost: NDArray[np.float32] | None = None  # [H, W]: what a break in a cell costs; None: one unit each
    duration: float = 240.0  # minutes of a fire
    value_unit: str = ""  # what the stakes' value is counted in, such as "houses"
