"""Fire behavior per cell, and its spread over a landscape: see docs/fire.md."""

from flashdqn.envs.fuelbreaks.fire.behavior import FireBehavior, fire_behavior, rate_and_intensity_toward
from flashdqn.envs.fuelbreaks.fire.spread import BURN, KEEP, Spread
from flashdqn.envs.fuelbreaks.fire.tables import SpreadTables, spread_tables
from flashdqn.envs.fuelbreaks.fire.weather import DRY, EXTREME, MILD, WEATHERS, Weather

__all__ = [
    "BURN",
    "DRY",
    "EXTREME",
    "KEEP",
    "MILD",
    "WEATHERS",
    "FireBehavior",
    "Spread",
    "SpreadTables",
    "Weather",
    "fire_behavior",
    "rate_and_intensity_toward",
    "spread_tables",
]
