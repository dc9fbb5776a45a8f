"""The instances of the public benchmark, read with NumPy alone: docs/fuelbreaks-benchmark.md says what they are."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

INSTANCES = Path(__file__).with_name("instances.npz")
BUDGETS = (0.01, 0.05, 0.10, 0.20)
DURATION = 240.0  # minutes
CELL_SIZE = 30.0  # m

#: The layers, and what one unit of the file is in the unit of the equations (LANDFIRE's units).
UNITS = {
    "elevation": 1.0,  # m
    "slope": 1.0,  # degrees
    "aspect": 1.0,  # degrees clockwise from north, downhill
    "canopy_cover": 0.01,  # percent
    "canopy_height": 0.1,  # m · 10
    "canopy_base_height": 0.1,  # m · 10
    "canopy_bulk_density": 0.01,  # kg/m³ · 100
    "fuel_model": 1.0,
}
#: The columns of `weather`: wind at 10 m in km/h, where it blows from in degrees, moistures as fractions.
WEATHER = (
    "wind_speed",
    "wind_from",
    "dead_1h",
    "dead_10h",
    "dead_100h",
    "live_herbaceous",
    "live_woody",
    "foliar",
)


class Instance(NamedTuple):
    """One landscape in one weather, with the fires that judge."""

    layers: dict[str, np.ndarray]  # [H, W] float32, in the units of the equations
    weather: dict[str, float]
    ignition: np.ndarray  # [F] int64: cells, row · columns + column
    name: str


def read_instances(path: Path = INSTANCES) -> list[Instance]:
    """All instances of the file."""
    with np.load(path) as file:
        data = dict(file)
    return [read_instance(data, i) for i in range(len(data["ignition"]))]


def read_instance(data: dict[str, np.ndarray], i: int) -> Instance:
    """Instance `i`; whole numbers divided in float64, then rounded to float32."""
    layers = {
        name: (data[name][i].astype(np.float64) / round(1 / unit)).astype(np.float32)
        for name, unit in UNITS.items()
    }
    weather = dict(zip(WEATHER, data["weather"][i].tolist(), strict=True))
    return Instance(layers, weather, data["ignition"][i].astype(np.int64), str(data["name"][i]))


def count_breaks(share: float, cells: int) -> int:
    """Breaks of a budget."""
    return round(share * cells)
