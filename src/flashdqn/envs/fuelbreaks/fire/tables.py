"""Travel times from cell to cell, from which the spread of fire is computed.

A table belongs to one landscape in one weather. It holds, for every cell and direction, the minutes that fire
takes to the middle of the cell that the direction leads to. Each part of the path has the speed of its cell. Bits
say which directions are open: those whose path leads only through burnable cells of the landscape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flashdqn.compute.core_count import cores
from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.fire.behavior import FireBehavior
from flashdqn.envs.fuelbreaks.fire.directions import fire_directions
from flashdqn.envs.fuelbreaks.fire.rays import ray_slowness

DIRECTIONS = 16
#: The shortest move in minutes: long enough for float32 not to lose it when it is added to a time of arrival.
SHORTEST = 0.01
AT_ONCE = 20_000  # cells computed together: more would leave the processor's cache, fewer take more calls


@dataclass(frozen=True)
class SpreadTables:
    """L tables of landscapes with H x W cells and K directions, on one device."""

    shape: tuple[int, int]
    directions: int
    times: Tensor  # [L, H·W, K] float32: minutes of the move out of a cell
    open: Tensor  # [L, H·W] int64: bit k says whether direction k is open
    burnable: Tensor  # [L, H·W] bool: whether fire spreads in a cell
    worth: Tensor  # [L, H·W] int32: what is lost if a cell burns; 1 everywhere counts area
    into: Tensor = field(init=False)  # [L, H·W, K] float32: minutes of the move into a cell

    def __post_init__(self) -> None:
        into = torch.empty_like(self.times)
        on_cpu = self.device.type == "cpu"
        at_once = max(1, AT_ONCE // math.prod(self.shape)) if on_cpu else max(1, len(into))
        for start in range(0, len(into), at_once):
            some = slice(start, start + at_once)
            for k, direction in enumerate(fire_directions(self.directions)):
                down, right = direction.offset
                # Values that wrap around the edge are never read: no direction is open there.
                into[some, :, k] = self.times[some, :, k].roll(down * self.shape[1] + right, dims=1)
        object.__setattr__(self, "into", into)

    @property
    def device(self) -> torch.device:
        """The device of the tables."""
        return self.times.device

    def to(self, device: torch.device | str) -> SpreadTables:
        """The same tables on another device."""
        parts = (self.times, self.open, self.burnable, self.worth)
        return SpreadTables(self.shape, self.directions, *(part.to(device) for part in parts))

    @property
    def nbytes(self) -> int:
        """Memory of the tables in bytes."""
        return 2 * self.times.nbytes + self.open.nbytes + self.burnable.nbytes + self.worth.nbytes


def spread_tables(
    behaviors: Sequence[FireBehavior],
    device: torch.device | str = "cpu",
    count: int = DIRECTIONS,
    worth: NDArray[np.int32] | None = None,
) -> SpreadTables:
    """The tables of landscapes of one shape, with 8, 16, 24 or 32 directions; every cell is worth 1 by default."""
    if not behaviors:
        raise EnvError("Fire needs at least one landscape to spread on; none was given.")
    shapes = {behavior.burnable.shape for behavior in behaviors}
    if len(shapes) != 1:
        raise EnvError(f"All landscapes of a set must have one shape; these have {sorted(shapes)}.")
    rows, columns = shapes.pop()
    times = np.empty((len(behaviors), rows * columns, count), dtype=np.float32)
    opened = np.empty((len(behaviors), rows * columns), dtype=np.int64)
    burnable = np.stack([behavior.burnable for behavior in behaviors])
    at_once = max(1, AT_ONCE // (rows * columns))

    def fill(start: int) -> None:
        some = slice(start, start + at_once)
        times[some], opened[some] = _travel_times(behaviors[some], burnable[some], count)

    fill(0)  # it compiles what the others use
    with ThreadPoolExecutor(cores()) as pool:  # neither NumPy nor the kernel holds Python's lock
        list(pool.map(fill, range(at_once, len(behaviors), at_once)))
    worth = np.ones(opened.shape, dtype=np.int32) if worth is None else worth
    parts = (times, opened, burnable.reshape(opened.shape), worth)
    return SpreadTables((rows, columns), count, *(torch.from_numpy(part).to(device) for part in parts))


def _travel_times(
    behaviors: Sequence[FireBehavior], burnable: NDArray[np.bool_], count: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Minutes [L, H·W, K] and open directions [L, H·W]."""
    compass = fire_directions(count)
    slow = ray_slowness([behavior.fronts for behavior in behaviors], compass)
    size = np.array([behavior.cell_size for behavior in behaviors])[:, None, None]
    times = np.empty(slow.shape, dtype=np.float32)
    opened = np.zeros(burnable.shape, dtype=np.int64)
    for k, direction in enumerate(compass):
        minutes = np.zeros(burnable.shape)
        for offset, share in direction.passed:
            minutes += share * direction.length * size * _shift_layer(slow[..., k], offset, np.inf)
        clear = np.isfinite(minutes)
        for offset in direction.touched:
            clear &= _shift_layer(burnable, offset, False)
        times[..., k] = np.where(clear, np.maximum(minutes, SHORTEST), np.inf)
        opened |= clear.astype(np.int64) << k
    return times.reshape(len(slow), -1, count), opened.reshape(len(slow), -1)


def _shift_layer(layer: NDArray[Any], offset: tuple[int, int], outside: Any) -> NDArray[Any]:
    """Each cell's neighbor at an offset, [..., H, W]; `outside` where that lies beyond the edge."""
    rows, columns = layer.shape[-2:]
    result = np.full_like(layer, outside)
    down, right = offset
    if abs(down) < rows and abs(right) < columns:
        here = (
            ...,
            slice(max(0, -down), rows - max(0, down)),
            slice(max(0, -right), columns - max(0, right)),
        )
        there = (..., slice(max(0, down), rows + min(0, down)), slice(max(0, right), columns + min(0, right)))
        result[here] = layer[there]
    return result
