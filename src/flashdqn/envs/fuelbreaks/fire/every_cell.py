"""All cells of a landscape in several weathers, as scalar kernel code for the CPU: behavior, rays, moves and heat.

A training has thousands of landscapes and weathers. This goes from the layers straight to what is kept of them, and
the little that is needed in between stays in the processor's cache. The numbers are those of behavior.py, tables.py
and observation.py.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.envs.fuelbreaks.fire.beds import BED_RATE, HEAT
from flashdqn.envs.fuelbreaks.fire.cells import BASE, DENSITY, HEIGHT, write_cell
from flashdqn.envs.fuelbreaks.fire.crown import KJ_PER_KG
from flashdqn.envs.fuelbreaks.fire.layout import INFINITE, ONE
from flashdqn.envs.fuelbreaks.fire.rays import (
    CANOPY,
    CRITICAL,
    EAST,
    INTENSITY,
    NORTH,
    RATE,
    SURFACE,
    cell_slowness,
    front_share,
)
from flashdqn.envs.fuelbreaks.fire.tables import SHORTEST


class EveryCell(NamedTuple):
    """A landscape of C cells in W weathers, K directions: what is given, room to work in, and what is found."""

    rows: Scalar
    columns: Scalar
    cell_size: Scalar
    hottest: Scalar  # ln(1 + kW/m) that is 1 in a plane
    layers: Array  # [LAYERS, C] float32
    fuel: Array  # [C] int16
    model: Array  # by the number of a fuel model: its row of fuels
    fuels: Array  # [M, FUEL] float64
    weather: Array  # [W, WEATHER] float64
    beds: Array  # [W, M, BED] float64
    rays: Array  # [K, 2] float64, and so on: `Compass`
    order: Array
    fine: Array
    turn: Array
    passed: Array  # [K, P, 2] int64: rows and columns to the cells that a move passes or touches
    passed_count: Array  # [K] int64: their number
    share: Array  # [K, P] float64: cells of the way in each
    facing: Array  # [4, 2] float64: the directions of the fronts in the planes
    front: Array  # [FRONT] float64
    cell: Array  # [C, CELL] float64
    slow: Array  # [C, K] float64
    times: Array  # [W, C, K] float32
    open: Array  # [W, C] int64
    burnable: Array  # [W, C] bool
    planes: Array  # [W, 4 or more, C] float32


@inner
def write_heat(k: Scalar, at: Scalar, m: Scalar, every: EveryCell) -> None:
    """Write how hot fronts are that face the four directions: `fronts.front_facing` of one cell."""
    cell, layers = every.cell, every.layers
    a, b = cell[at, EAST], cell[at, NORTH]
    crown_height = max(layers[HEIGHT, at] - np.float64(layers[BASE, at]), 0.0)
    for d in range(every.facing.shape[0]):
        east, north = every.facing[d, 0], every.facing[d, 1]
        up = east * a + north * b
        long = math.sqrt(east * east + north * north + up * up)
        east, north, up = east / long, north / long, up / long
        share = front_share(at, SURFACE, east, north, up, cell)
        rate, heat = cell[at, SURFACE + RATE] * share, cell[at, INTENSITY] * share
        if heat >= cell[at, CRITICAL] and heat > 0.0:
            run = cell[at, CANOPY + RATE]
            share = front_share(at, CANOPY, east, north, up, cell)
            full = run * layers[DENSITY, at] * crown_height * every.fuels[m, HEAT] * KJ_PER_KG / 60.0
            above, above_heat = run * share, full * share
            if above > rate:
                heat = heat * (above / rate) + above_heat
            elif above > 0.0:
                heat = heat + above_heat * (rate / above)
        every.planes[k, d, at] = math.log1p(np.float64(np.float32(heat))) / every.hottest


@inner
def write_cell_fire(k: Scalar, at: Scalar, every: EveryCell) -> None:
    """Write what a fire does in one cell: whether it spreads, how fast along each ray, and how hot it is."""
    m = every.model[every.fuel[at]]
    burns = m >= 0 and every.beds[k, m, BED_RATE] > 0.0
    every.burnable[k, at] = burns
    if burns:
        write_cell(at, at, m, every.layers, every.fuels, every.beds[k], every.weather[k], every.cell)
        write_heat(k, at, m, every)
    else:
        every.cell[at, SURFACE + RATE] = 0.0
        for d in range(every.facing.shape[0]):
            every.planes[k, d, at] = np.float32(0.0)
    cell_slowness(at, every.cell, every.rays, every.order, every.fine, every.turn, every.front, every.slow)


@inner
def write_moves(k: Scalar, row: Scalar, column: Scalar, every: EveryCell) -> None:
    """Write the minutes of all moves out of a cell, and which of them are open."""
    at, ways = row * every.columns + column, np.int64(0)
    for direction in range(every.slow.shape[1]):
        minutes = 0.0
        for p in range(every.passed_count[direction]):
            down, right = row + every.passed[direction, p, 0], column + every.passed[direction, p, 1]
            there = down * every.columns + right
            inside = 0 <= down < every.rows and 0 <= right < every.columns
            if not inside or not every.burnable[k, there]:
                minutes = np.inf
                break
            minutes += every.share[direction, p] * every.cell_size * every.slow[there, direction]
        every.times[k, at, direction] = INFINITE
        if minutes < np.inf:
            every.times[k, at, direction] = max(minutes, SHORTEST)
            ways |= ONE << np.int64(direction)
    every.open[k, at] = ways


@inner
def burn_every_cell(k: Scalar, *arrays: Array) -> None:
    """Write all that is kept of a landscape in weather `k`."""
    every = EveryCell(*arrays)
    for at in range(every.fuel.shape[0]):
        write_cell_fire(k, at, every)
    for row in range(every.rows):
        for column in range(every.columns):
            write_moves(k, row, column, every)
