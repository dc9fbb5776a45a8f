"""The fuel bed of one model in one weather, as scalar kernel code: `surface.fuel_bed` for a single model.

A fire on a landscape that is used once needs the beds of a few models. In NumPy the small arrays would take most of
its time.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.envs.fuelbreaks.fire.fuels import (
    CLASSES,
    DEAD_HERBS,
    LIVE_HERBS,
    Fuels,
    burnable_fuels,
)
from flashdqn.envs.fuelbreaks.fire.surface import (
    EFFECTIVE_MINERALS,
    FEET_PER_METER,
    KW_PER_M,
    PARTICLE_DENSITY,
    SIZE_CLASSES,
    TOTAL_MINERALS,
)
from flashdqn.envs.fuelbreaks.fire.weather import Weather

FIRST_LIVE = LIVE_HERBS
MINERAL_DAMPING = 0.174 * EFFECTIVE_MINERALS**-0.19

# the columns of fuels: what a model is
DEPTH, EXTINCTION, HEAT, DYNAMIC, LOAD, RATIO, SIZE_CLASS = 0, 1, 2, 3, 4, 4 + CLASSES, 4 + 2 * CLASSES
FUEL = 4 + 3 * CLASSES
# the columns of beds: `surface.Bed`, and whether the row is worked out
BED_RATE, BED_INTENSITY, WIND_LIMIT, SLOPE_FACTOR, WIND_FACTOR, WIND_POWER, KNOWN, BED = range(8)
# weather
WIND_SPEED, WIND_EAST, WIND_NORTH, FOLIAR, MOISTURE, WEATHER = 0, 1, 2, 3, 4, 4 + CLASSES
# rows of scratch
LOADS, SHARES, SCRATCH = range(3)


class FuelTable(NamedTuple):
    """All burnable models as kernels read them."""

    columns: NDArray[np.float64]  # [M, FUEL]
    model: NDArray[np.int64]  # by number: the row of a model, -1 where it does not burn


@cache
def fuel_table() -> FuelTable:
    """The table of `burnable_fuels`."""
    fuels: Fuels = burnable_fuels()
    size_class = np.digitize(fuels.ratio, SIZE_CLASSES[::-1])
    single = [fuels.depth, fuels.extinction, fuels.heat, fuels.dynamic]
    columns: list[Any] = [np.stack(single, axis=1), fuels.load, fuels.ratio, size_class]
    model = np.full(int(fuels.number.max()) + 1, -1, dtype=np.int64)
    model[fuels.number] = np.arange(len(fuels.number))
    return FuelTable(np.ascontiguousarray(np.concatenate(columns, axis=1), dtype=np.float64), model)


def list_weather(weather: Weather) -> tuple[float, ...]:
    """The columns of `weather`."""
    toward = math.radians(weather.wind_from + 180.0)
    dead = (weather.dead_1h, weather.dead_10h, weather.dead_100h, weather.dead_1h)
    moisture = (*dead, weather.live_herbaceous, weather.live_woody)
    return (weather.wind_speed, math.sin(toward), math.cos(toward), weather.foliar, *moisture)


@inner
def cure_loads(m: Scalar, fuels: Array, weather: Array, scratch: Array) -> None:
    """Loads of a model, with the cured part of live herbs moved to the dead ones (Scott & Burgan 2005)."""
    for j in range(CLASSES):
        scratch[LOADS, j] = fuels[m, LOAD + j]
    if fuels[m, DYNAMIC] != 0.0:
        cured = 1.0 - min(max((weather[MOISTURE + LIVE_HERBS] - 0.3) / 0.9, 0.0), 1.0)
        moved = fuels[m, LOAD + LIVE_HERBS] * cured
        scratch[LOADS, DEAD_HERBS] = moved
        scratch[LOADS, LIVE_HERBS] -= moved


@inner
def share_area(m: Scalar, first: Scalar, end: Scalar, fuels: Array, scratch: Array) -> Scalar:
    """Write f_ij, the classes' shares of the surface of dead or of live fuel; return that surface."""
    total = 0.0
    for j in range(first, end):
        scratch[SHARES, j] = fuels[m, RATIO + j] * scratch[LOADS, j] / PARTICLE_DENSITY
        total += scratch[SHARES, j]
    for j in range(first, end):
        scratch[SHARES, j] /= total if total > 0.0 else 1.0
    return total


@inner
def live_extinction(m: Scalar, fuels: Array, weather: Array, scratch: Array) -> Scalar:
    """The moisture at which live fuel goes out, from the fine dead fuel with it (Rothermel eq. 88, Albini 1976)."""
    dead, live, wet = 0.0, 0.0, 0.0
    for j in range(CLASSES):
        ratio = fuels[m, RATIO + j]
        if ratio > 0.0 and j < FIRST_LIVE:
            fine = scratch[LOADS, j] * math.exp(-138.0 / ratio)
            dead += fine
            wet += fine * weather[MOISTURE + j]
        elif ratio > 0.0:
            live += scratch[LOADS, j] * math.exp(-500.0 / ratio)
    limit = fuels[m, EXTINCTION]
    if dead > 1e-6 and live > 1e-6:
        limit = max(limit, 2.9 * (dead / live) * (1.0 - wet / dead / fuels[m, EXTINCTION]) - 0.226)
    return limit


@inner
def heat_release(
    m: Scalar, first: Scalar, end: Scalar, limit: Scalar, fuels: Array, weather: Array, scratch: Array
) -> Scalar:
    """Net load times heat times the damping by moisture and minerals, of dead or of live fuel, Btu/ft²."""
    net, wetness = 0.0, 0.0
    for j in range(first, end):
        weight = 0.0  # g_ij (Albini 1976)
        for other in range(first, end):
            if fuels[m, SIZE_CLASS + other] == fuels[m, SIZE_CLASS + j]:
                weight += scratch[SHARES, other]
        net += weight * scratch[LOADS, j]
        wetness += scratch[SHARES, j] * weather[MOISTURE + j]
    wetness = min(1.0, wetness / limit)
    if wetness >= 1.0:
        return 0.0
    damping = 1.0 - 2.59 * wetness + 5.11 * wetness**2 - 3.52 * wetness**3
    return net * (1.0 - TOTAL_MINERALS) * fuels[m, HEAT] * damping * MINERAL_DAMPING


@inner
def work_out_bed(m: Scalar, fuels: Array, weather: Array, scratch: Array, beds: Array) -> None:
    """Write row `m` of beds: Rothermel (1972) with the amendments of Albini (1976); symbols as in surface.py."""
    cure_loads(m, fuels, weather, scratch)
    dead = share_area(m, 0, FIRST_LIVE, fuels, scratch)
    live = share_area(m, FIRST_LIVE, CLASSES, fuels, scratch)
    both = dead + live if dead + live > 0.0 else 1.0
    sigma, preignition, load = 0.0, 0.0, 0.0
    for j in range(CLASSES):
        ratio, category = fuels[m, RATIO + j], (dead if j < FIRST_LIVE else live) / both
        load += scratch[LOADS, j]
        if ratio > 0.0:
            sigma += category * scratch[SHARES, j] * ratio
            heating = math.exp(-138.0 / ratio) * (250.0 + 1116.0 * weather[MOISTURE + j])
            preignition += category * scratch[SHARES, j] * heating
    density = load / fuels[m, DEPTH]
    beta = density / PARTICLE_DENSITY
    relative = beta / (3.348 * sigma**-0.8189)
    A = 133.0 * sigma**-0.7913
    greatest = sigma**1.5 / (495.0 + 0.0594 * sigma**1.5)
    reaction = greatest * relative**A * math.exp(A * (1.0 - relative))
    reaction *= heat_release(m, 0, FIRST_LIVE, fuels[m, EXTINCTION], fuels, weather, scratch) + heat_release(
        m, FIRST_LIVE, CLASSES, live_extinction(m, fuels, weather, scratch), fuels, weather, scratch
    )
    flux = math.exp((0.792 + 0.681 * math.sqrt(sigma)) * (beta + 0.1)) / (192.0 + 0.2595 * sigma)
    rate = reaction * flux / (density * preignition)
    power = 0.02526 * sigma**0.54
    E = 0.715 * math.exp(-3.59e-4 * sigma)
    beds[m, BED_RATE] = rate / FEET_PER_METER
    beds[m, BED_INTENSITY] = reaction * rate * (384.0 / sigma) / 60.0 * KW_PER_M
    beds[m, WIND_LIMIT] = 0.9 * reaction / FEET_PER_METER
    beds[m, SLOPE_FACTOR] = 5.275 * beta**-0.3
    beds[m, WIND_FACTOR] = 7.47 * math.exp(-0.133 * sigma**0.55) * relative**-E * FEET_PER_METER**power
    beds[m, WIND_POWER] = power
    beds[m, KNOWN] = 1.0
