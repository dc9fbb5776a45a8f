"""The spread of fire as one would write it first: a graph and heapq. And tables that no landscape has."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable

import numpy as np
import torch

from flashdqn.envs.fuelbreaks.fire.directions import fire_directions
from flashdqn.envs.fuelbreaks.fire.tables import SpreadTables


def random_tables(
    rng: np.random.Generator, rows: int, columns: int, count: int = 1, kinds: int = 16, whole: bool = False
) -> SpreadTables:
    """Travel times at random, with unburnable cells; `whole` minutes make many ties."""
    times = np.full((count, rows * columns, kinds), np.inf, dtype=np.float32)
    opened = np.zeros((count, rows * columns), dtype=np.int64)
    burnable = rng.random((count, rows * columns)) < 0.85
    for table in range(count):
        for cell in range(rows * columns):
            for k, direction in enumerate(fire_directions(kinds)):
                if all(_in(burnable[table], rows, columns, cell, o) for o in way(direction)):
                    minutes = rng.integers(1, 4) if whole else rng.uniform(0.5, 9.0)
                    times[table, cell, k] = minutes * direction.length if not whole else minutes
                    opened[table, cell] |= 1 << k
    worth = rng.integers(0, 5, burnable.shape, dtype=np.int32)
    parts = (torch.from_numpy(part) for part in (times, opened, burnable, worth))
    return SpreadTables((rows, columns), kinds, *parts)


def way(direction):
    """All cells that a move depends on."""
    return {offset for offset, _ in direction.passed} | set(direction.touched)


def burn(
    tables: SpreadTables, table: int, breaks: Iterable[int], ignition: int, duration: float
) -> list[float]:
    """Minutes of arrival by Dijkstra's algorithm, in float32 as the kernels add."""
    rows, columns = tables.shape
    allowed = tables.burnable[table].numpy().copy()
    allowed[list(breaks)] = False
    arrival = [math.inf] * (rows * columns)
    if ignition < 0 or not allowed[ignition]:
        return arrival
    times = tables.times[table].numpy()
    arrival[ignition] = 0.0
    queue = [(np.float32(0.0), ignition)]
    while queue:
        time, cell = heapq.heappop(queue)
        if time > arrival[cell]:
            continue
        for k, direction in enumerate(fire_directions(tables.directions)):
            if not all(_in(allowed, rows, columns, cell, offset) for offset in way(direction)):
                continue
            target = cell + direction.offset[0] * columns + direction.offset[1]
            if cell == ignition:
                later = times[cell, k] * np.float32(1.0 - 0.5 / direction.length)
            else:
                later = np.float32(time) + times[cell, k]
            if later <= np.float32(duration) and later < arrival[target]:
                arrival[target] = later
                heapq.heappush(queue, (later, target))
    return [float(time) for time in arrival]


def _in(allowed: np.ndarray, rows: int, columns: int, cell: int, offset: tuple[int, int]) -> bool:
    row, column = cell // columns + offset[0], cell % columns + offset[1]
    return 0 <= row < rows and 0 <= column < columns and bool(allowed[row * columns + column])
