"""The weather of a fire: wind, and the moisture of the fuel. It is the same everywhere in a landscape."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from flashdqn.core.errors import ConfigError

_LARGEST = {"wind_speed": 150.0, "wind_from": 360.0, "dead_1h": 1.0, "dead_10h": 1.0, "dead_100h": 1.0}
_LARGEST |= {"live_herbaceous": 4.0, "live_woody": 4.0, "foliar": 4.0}


@dataclass(frozen=True)
class Weather:
    """Wind and moistures; a moisture is the weight of water over that of the dry fuel: 0.06 is 6 %."""

    wind_speed: float = 20.0
    """Wind at 10 m above the ground (or the canopy), in km/h."""
    wind_from: float = 270.0
    """Where the wind blows from, in degrees clockwise from north: 270 is a west wind."""
    dead_1h: float = 0.06
    """Dead fuel thinner than 6 mm: grass, needles."""
    dead_10h: float = 0.07
    """Dead fuel of 6 to 25 mm: twigs."""
    dead_100h: float = 0.08
    """Dead fuel of 25 to 76 mm: branches."""
    live_herbaceous: float = 0.60
    """Live grass and herbs: fully cured (as dead) from 0.3 down, fully green from 1.2 up."""
    live_woody: float = 0.90
    """Live shrubs."""
    foliar: float = 1.0
    """The needles and leaves of the canopy."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, largest = getattr(self, field.name), _LARGEST[field.name]
            least = 0.0 if field.name.startswith("wind") else 0.01
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or not least <= value <= largest:
                raise ConfigError(
                    f"The weather's {field.name} must be a number from {least:g} to {largest:g}; it is {value!r}. "
                    "Wind is in km/h and degrees, and a moisture of 6 % is 0.06."
                )


MILD = Weather(10.0, 270.0, 0.10, 0.11, 0.12, 0.90, 1.20, 1.10)
DRY = Weather(20.0, 270.0, 0.06, 0.07, 0.08, 0.60, 0.90, 1.00)
EXTREME = Weather(40.0, 270.0, 0.03, 0.04, 0.05, 0.30, 0.60, 0.90)

#: a cool day, a dry summer day, and a day with a red flag warning
WEATHERS: dict[str, Weather] = {"mild": MILD, "dry": DRY, "extreme": EXTREME}
