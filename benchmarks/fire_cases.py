"""Random fires for benchmarks/fire.py: landscapes of several kinds, weather, ignition and duration, each
from a seed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from flashdqn.envs.fuelbreaks.fire.behavior import fire_behavior
from flashdqn.envs.fuelbreaks.fire.weather import Weather
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.landscape import Landscape

SIZE, CELL = 50, 30.0
LONGEST = 1440.0  # minutes
LEAST_BURNED, MOST_BURNED = 100, 1000
KINDS = ("flat", "wind", "slope", "wind and slope", "crown", "mixed", "mixed, breaks")

#: Fuels that carry fire by themselves in dry weather: grass, shrubs, litter.
SURFACE_FUELS = (1, 2, 3, 4, 5, 10, 102, 104, 107, 121, 122, 124, 141, 142, 145, 147, 163, 164, 165, 202)
CROWN_FUELS = (2, 10, 122, 145, 162, 164, 165)


@dataclass(frozen=True)
class Case:
    kind: str
    landscape: Landscape
    weather: Weather
    ignition: tuple[int, int]
    duration: float
    breaks: np.ndarray  # [H, W] bool
    target: int  # cells that the reference must burn


def make_case(kind: str, seed: int) -> Case:
    """Case number `seed` of a kind."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    weather = _weather(rng, kind)
    mixed = kind.startswith("mixed")
    landscape = generate_landscape(10_000 + seed, SIZE, CELL) if mixed else _uniform(rng, kind)
    behavior = fire_behavior(landscape, weather)
    burnable = np.argwhere(behavior.burnable)
    middle = burnable[(np.abs(burnable - SIZE / 2) <= SIZE / 6).all(1)]
    choice = middle if len(middle) else burnable
    if len(choice) == 0:
        return make_case(kind, seed + 1_000_000)
    ignition = tuple(int(x) for x in choice[rng.integers(len(choice))])
    breaks = np.zeros((SIZE, SIZE), dtype=bool)
    if kind == "mixed, breaks":
        breaks = _breaks(rng, ignition)
    target = int(rng.integers(LEAST_BURNED, MOST_BURNED))
    return Case(kind, landscape, weather, ignition, LONGEST, breaks, target)


def with_duration(case: Case, arrival: np.ndarray) -> Case:
    """The case, cut when the reference has burned its target of cells; `arrival` covers the whole LONGEST.

    So fires have all sizes, but never only a few cells nor the whole map.
    """
    times = np.sort(arrival[arrival >= 0])
    reached = times[min(case.target, len(times)) - 1]
    return replace(case, duration=round(float(np.clip(reached, 1.0, LONGEST)), 2))


def reference_input(cases: list[Case], repeats: int) -> dict[str, np.ndarray]:
    """What fire_reference.py asks for; a break is fuel model 91."""
    data: dict[str, list[object]] = {}
    for case in cases:
        row = {name: layer for name, layer in case.landscape.layers().items() if name != "elevation"}
        row["fuel_model"] = np.where(case.breaks, 91, case.landscape.fuel_model)
        row |= vars(case.weather) | {"ignition": case.ignition, "duration": case.duration, "cell_size": CELL}
        for name, value in row.items():
            data.setdefault(name, []).append(value)
    return {name: np.array(values) for name, values in data.items()} | {"repeats": np.array(repeats)}


def _weather(rng: np.random.Generator, kind: str) -> Weather:
    wind = 0.0 if kind in ("flat", "slope") else rng.uniform(5.0, 45.0)
    dead = rng.uniform(0.03, 0.09)
    return Weather(
        wind_speed=round(wind, 1),
        wind_from=round(rng.uniform(0.0, 360.0), 1),
        dead_1h=round(dead, 3),
        dead_10h=round(dead + 0.01, 3),
        dead_100h=round(dead + 0.02, 3),
        live_herbaceous=round(rng.uniform(0.3, 1.0), 2),
        live_woody=round(rng.uniform(0.6, 1.2), 2),
        foliar=round(rng.uniform(0.8, 1.1), 2),
    )


def _uniform(rng: np.random.Generator, kind: str) -> Landscape:
    """One fuel on a plane."""
    crown = kind == "crown"
    fuel = int(rng.choice(CROWN_FUELS if crown else SURFACE_FUELS))
    sloped = kind in ("slope", "wind and slope") or (crown and rng.random() < 0.5)
    slope = rng.uniform(5.0, 30.0) if sloped else 0.0
    layer = np.ones((SIZE, SIZE), dtype=np.float32)
    return Landscape(
        elevation=0 * layer,
        slope=slope * layer,
        aspect=rng.uniform(0.0, 360.0) * layer,
        canopy_cover=(rng.uniform(0.45, 0.9) if crown else 0.0) * layer,
        canopy_height=(rng.uniform(10.0, 25.0) if crown else 0.0) * layer,
        canopy_base_height=(rng.uniform(0.2, 1.5) if crown else 0.0) * layer,
        canopy_bulk_density=(rng.uniform(0.05, 0.3) if crown else 0.0) * layer,
        fuel_model=(fuel * layer).astype(np.int16),
        cell_size=CELL,
        name=f"{kind} {fuel}",
    )


def _breaks(rng: np.random.Generator, ignition: tuple[int, int]) -> np.ndarray:
    """A few lines of breaks at some distance from the ignition."""
    breaks = np.zeros((SIZE, SIZE), dtype=bool)
    for _ in range(3):
        angle, away = rng.uniform(0, 2 * math.pi, 2)
        distance = rng.uniform(3.0, 12.0)
        middle = np.array(ignition) + distance * np.array([math.sin(angle), math.cos(angle)])
        for along in np.arange(-8.0, 8.0, 0.25):
            row, column = np.round(middle + along * np.array([math.sin(away), math.cos(away)])).astype(int)
            if 0 <= row < SIZE and 0 <= column < SIZE and (row, column) != ignition:
                breaks[row, column] = True
    return breaks
