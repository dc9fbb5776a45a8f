"""Fire behavior per cell, and its spread over a landscape: see docs/fire.md."""

from typing import TYPE_CHECKING

from flashdqn.core.lazy_names import import_later
from flashdqn.envs.fuelbreaks.fire.weather import DRY, EXTREME, MILD, WEATHERS, Weather

if TYPE_CHECKING:
    from flashdqn.envs.fuelbreaks.fire.behavior import FireBehavior, fire_behavior, rate_and_intensity_toward
    from flashdqn.envs.fuelbreaks.fire.once import burn_once
    from flashdqn.envs.fuelbreaks.fire.spread import BURN, KEEP, Spread
    from flashdqn.envs.fuelbreaks.fire.tables import SpreadTables, spread_tables
else:
    _NAMES = {
        "behavior": ("FireBehavior", "fire_behavior", "rate_and_intensity_toward"),
        "once": ("burn_once",),
        "spread": ("BURN", "KEEP", "Spread"),
        "tables": ("SpreadTables", "spread_tables"),
    }
    __getattr__ = import_later(
        __name__, {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names}
    )

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
    "burn_once",
    "fire_behavior",
    "rate_and_intensity_toward",
    "spread_tables",
]
