"""The moves of fire from cell to cell, as kernels that work out a landscape read them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flashdqn.envs.fuelbreaks.fire.directions import fire_directions
from flashdqn.envs.fuelbreaks.fire.rays import Compass, compass_tables


class Moves(NamedTuple):
    """The directions as the kernel reads them."""

    passed: NDArray[np.int64]
    passed_count: NDArray[np.int64]
    share: NDArray[np.float64]  # [K, P]: cells of the way in each; 0 in those that are only touched
    offset: NDArray[np.int64]  # [K, 2]
    outside: NDArray[np.float32]
    compass: Compass


@cache
def list_moves(directions: int) -> Moves:
    """What every move passes and touches."""
    compass = fire_directions(directions)
    ways = [[*one.passed, *((offset, 0.0) for offset in one.touched)] for one in compass]
    count = np.array([len(way) for way in ways])
    passed = np.zeros((directions, count.max(), 2), dtype=np.int64)
    share = np.zeros((directions, count.max()))
    for k, way in enumerate(ways):
        for p, (offset, part) in enumerate(way):
            passed[k, p], share[k, p] = offset, part * compass[k].length
    outside = np.array([direction.outside for direction in compass], dtype=np.float32)
    offsets = np.array([direction.offset for direction in compass])
    return Moves(passed, count, share, offsets, outside, compass_tables(compass))
