"""Random maps of what fires threaten, where they start, and where no break may lie, for generated landscapes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flashdqn.envs.fuelbreaks.generate import fractal_noise
from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.stakes import Stakes

#: How many landscapes have each map.
WITH_VALUE, WITH_IGNITION, WITH_FORBIDDEN = 0.5, 0.5, 0.25
#: A number that no other generator of the landscapes uses.
PURPOSE = 0x57A6E5


def generate_stakes(seed: int, landscape: Landscape) -> Stakes:
    """The maps of a seed: villages and scattered houses, uneven ignitions, reserves; each may be missing."""
    rows, columns = landscape.shape
    random = np.random.Generator(np.random.PCG64([seed % 2**64, rows, PURPOSE]))
    has_value, has_ignition, has_forbidden = random.random(3) < (WITH_VALUE, WITH_IGNITION, WITH_FORBIDDEN)
    size = max(rows, columns)
    value = place_villages(random, size)[:rows, :columns] if has_value else None
    ignition = make_ignition_map(random, size)[:rows, :columns] if has_ignition else None
    forbidden = make_reserves(random, size)[:rows, :columns] if has_forbidden else None
    return Stakes(value, ignition, forbidden)


def place_villages(random: np.random.Generator, size: int) -> NDArray[np.float32]:
    """Houses in each cell, in one to five villages; on every other map, every cell also counts 1."""
    row, column = np.mgrid[0:size, 0:size]
    houses = np.zeros((size, size))
    for _ in range(int(random.integers(1, 6))):
        middle, across = random.uniform(0, size, 2)
        radius = random.uniform(0.03, 0.1) * size + 1.0
        near = np.exp(-((row - middle) ** 2 + (column - across) ** 2) / (2 * radius**2))
        houses += random.uniform(5, 40) * near * random.random((size, size))
    background = float(random.random() < 0.5)
    houses = np.round(houses) + background
    if not houses.any():  # tiny villages may have rounded away
        houses[size // 2, size // 2] = 1.0
    return houses.astype(np.float32)


def make_ignition_map(random: np.random.Generator, size: int) -> NDArray[np.float32]:
    """Where fires start: some regions have many times as many as others."""
    contrast = random.uniform(0.5, 2.0)
    return np.exp(contrast * fractal_noise(random, size, max(6.0, 0.4 * size))).astype(np.float32)


def make_reserves(random: np.random.Generator, size: int) -> NDArray[np.bool_]:
    """Patches where no break may lie: 5 to 30 % of the cells."""
    noise = fractal_noise(random, size, max(6.0, 0.4 * size), 0.3)
    reserves: NDArray[np.bool_] = noise > np.quantile(noise, 1 - random.uniform(0.05, 0.3))
    return reserves
