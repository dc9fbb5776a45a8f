"""Shortest paths on a landscape that is used once, as scalar kernel code for the CPU.

A cell is worked out when a front first comes near it: its ellipses, its rays and its moves. The rest is the queue
of paths.py, and the times of arrival are the same. A cell that equals the one
worked out before it has the same rays. Each function is called in one place: it is compiled into its caller.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.envs.fuelbreaks.fire.cells import work_out_cell
from flashdqn.envs.fuelbreaks.fire.layout import AFTER, BEFORE, DURATION, INFINITE, NOBODY, ONE, SETTLED
from flashdqn.envs.fuelbreaks.fire.paths import add_to_bucket, remove_from_bucket
from flashdqn.envs.fuelbreaks.fire.rays import cell_slowness
from flashdqn.envs.fuelbreaks.fire.tables import SHORTEST

UNKNOWN, BLOCKED = -1, -2  # slots; ways of a cell are unknown too at first
ROWS, COLUMNS, USED, LAST, PARAMS = range(5)


class LazyGround(NamedTuple):
    """A landscape in a weather, and what is known of its cells so far. C cells, K directions; a slot
    is the row of a cell, or of several equal ones, in `cell` and `slow`."""

    layers: Array  # [LAYERS, C] float32
    fuel: Array  # [C] int16
    breaks: Array  # [C] bool
    model: Array  # by the number of a fuel model: its row of fuels
    fuels: Array  # [M, FUEL] float64
    weather: Array  # [WEATHER] float64
    beds: Array  # [M, BED] float64
    scratch: Array  # [SCRATCH, CLASSES] float64
    rays: Array  # [K, 2] float64, and so on: `Compass`
    order: Array
    fine: Array
    turn: Array
    front: Array  # [FRONT] float64
    passed: Array  # [K, P, 2] int64: rows and columns to the cells that a move passes or touches
    passed_count: Array  # [K] int64: their number
    weight: Array  # [K, P] float64: meters in each
    step: Array  # [K] int64
    outside: Array  # [K] float32
    slot: Array  # [C] int32
    cell: Array  # [C, CELL] float64
    slow: Array  # [C, K] float64
    times: Array  # [C, K] float32
    ways: Array  # [C] int64
    ignition: Array  # [F] int64
    arrival: Array  # [F, C] float32
    work: Array  # [1, 2, C] int32
    head: Array  # [1, BUCKETS] int32
    limits: Array  # [LIMITS] float32
    params: Array  # [PARAMS] int64


@inner
def equals_last_cell(at: Scalar, ground: LazyGround) -> Scalar:
    """Whether a cell has the fuel and the layers of the cell that was worked out last."""
    last = ground.params[LAST]
    if last < 0 or ground.fuel[at] != ground.fuel[last]:
        return False
    same = True
    for layer in range(ground.layers.shape[0]):
        same = same and ground.layers[layer, at] == ground.layers[layer, last]
    return same


@inner
def take_slot(at: Scalar, ground: LazyGround) -> Scalar:
    """Work out a cell; return its slot."""
    slot = ground.params[USED]
    if not work_out_cell(
        slot, at, ground.model[ground.fuel[at]], ground.layers, ground.fuels, ground.beds, ground.weather,
        ground.scratch, ground.cell,
    ):  # fmt: skip
        return np.int64(BLOCKED)
    ground.params[USED] += 1
    ground.params[LAST] = at
    cell_slowness(
        slot, ground.cell, ground.rays, ground.order, ground.fine, ground.turn, ground.front, ground.slow
    )
    return slot


@inner
def know_cell(row: Scalar, column: Scalar, ground: LazyGround) -> Scalar:
    """The slot of a cell, which is worked out if it is new; BLOCKED where no fire spreads."""
    if not (0 <= row < ground.params[ROWS] and 0 <= column < ground.params[COLUMNS]):
        return np.int64(BLOCKED)
    at = row * ground.params[COLUMNS] + column
    slot = np.int64(ground.slot[at])
    if slot == UNKNOWN:
        slot = np.int64(BLOCKED)
        if not ground.breaks[at]:
            same = equals_last_cell(at, ground)
            slot = np.int64(ground.slot[ground.params[LAST]]) if same else take_slot(at, ground)
        ground.slot[at] = slot
    return slot


@inner
def know_moves(at: Scalar, ground: LazyGround) -> Scalar:
    """The open directions of a burnable cell as bits, with their minutes in `times`."""
    if ground.ways[at] != UNKNOWN:
        return ground.ways[at]
    row, column = at // ground.params[COLUMNS], at % ground.params[COLUMNS]
    ways = np.int64(0)
    for k in range(ground.step.shape[0]):
        minutes = 0.0
        for p in range(ground.passed_count[k]):
            there = know_cell(row + ground.passed[k, p, 0], column + ground.passed[k, p, 1], ground)
            if there == BLOCKED:
                minutes = np.inf
                break
            minutes += ground.weight[k, p] * ground.slow[there, k]
        if minutes < np.inf:
            ground.times[at, k] = max(minutes, SHORTEST)
            ways |= ONE << np.int64(k)
    ground.ways[at] = ways
    return ways


@inner
def reach_cells(f: Scalar, at: Scalar, ground: Array) -> Scalar:
    """Reach the neighbors of a burning cell where that is sooner and in time; return how many more cells wait."""
    more, here, lit = 0, ground.arrival[f, at], at == ground.ignition[f]
    ways = know_moves(at, ground)
    for k in range(ground.step.shape[0]):
        if (ways >> k) & 1 != 0:
            target, time = at + ground.step[k], ground.times[at, k]
            # Half a cell around the middle of the ignition burns at once.
            time = time * ground.outside[k] if lit else here + time
            earlier = ground.arrival[f, target]
            if time < earlier and time <= ground.limits[DURATION]:
                if earlier == INFINITE or ground.work[0, BEFORE, target] == SETTLED:
                    more += 1
                else:
                    remove_from_bucket(0, target, earlier, ground)
                ground.arrival[f, target] = time
                add_to_bucket(0, target, time, ground)
    return more


@inner
def burn_fire_once(f: Scalar, *arrays: Array) -> None:
    """Burn fire `f`, by buckets as in paths.py."""
    ground = LazyGround(*arrays)
    queue: Array = ground
    start = ground.ignition[f]
    for at in range(ground.arrival.shape[1]):
        ground.arrival[f, at] = INFINITE
    ground.arrival[f, start] = np.float32(0.0)
    add_to_bucket(0, start, np.float32(0.0), queue)
    waiting, bucket = 1, 0
    while waiting > 0:
        at = ground.head[0, bucket]
        if at == NOBODY:
            bucket += 1
            continue
        following = ground.work[0, AFTER, at]
        ground.head[0, bucket] = following
        if following != NOBODY:
            ground.work[0, BEFORE, following] = NOBODY
        ground.work[0, BEFORE, at] = SETTLED
        waiting += reach_cells(f, at, ground) - 1
    if ground.slot[start] == BLOCKED:
        ground.arrival[f, start] = INFINITE
