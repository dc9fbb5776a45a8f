"""How fast fire moves along a ray: the growing shape around a burning point, seen from that point.

`Ellipse.front` is the rate of a straight front by the direction that it faces. A point grows into the shape
whose fronts move at these rates, their Wulff shape: its radius along a ray τ is the minimum of front(n) / (n · τ)
over all directions n. For one ellipse that is the ellipse about its focus, R (1 − e) / (1 − e cos ω).
Where the canopy burns, the surface leads fronts in some directions and the canopy in others, and the minimum
is searched for.

Fire that moves along K rays only is too slow between them, most of all in a narrow ellipse. So one factor makes all
rays of an ellipse faster: the polygon of their ends then has the ellipse's area. The shape of both fires together
may be a needle. There each ray gets the mean of its sector: the radius of equal area.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from flashdqn.compute.kernels import Array, Kernel, Scalar, inner
from flashdqn.envs.fuelbreaks.fire.directions import Direction
from flashdqn.envs.fuelbreaks.fire.fronts import Ellipse, Fronts

Field = NDArray[np.float64]

NORMALS = 120  # directions that a front may face, for cells with a canopy
FINE = 5  # rays by which the area of a sector of such a cell's shape is measured
LEAST_FACING = 0.01  # cosine: fronts almost parallel to the ray say nothing about it

SERIAL = 2**62  # the caller computes several landscapes at the same time

# front: rates by direction, then the rate at the edges of the canopy's range, and those two directions
EDGE_RATE, LEFT, RIGHT, FRONT = NORMALS, NORMALS + 1, NORMALS + 3, NORMALS + 5
# shape: an ellipse
RATE, ECCENTRICITY, HEAD_EAST, HEAD_NORTH, HEAD_UP, ELLIPSE = range(6)
# cell: two ellipses, then
SURFACE, CANOPY = 0, ELLIPSE
INTENSITY, CRITICAL, EAST, NORTH, CELL = range(2 * ELLIPSE, 2 * ELLIPSE + 5)


class Compass(NamedTuple):
    """The directions of K rays, as the kernel reads them."""

    rays: Field  # [K, 2] unit vectors (east, north)
    order: NDArray[np.int64]  # [K] around the compass
    fine: Field  # [K · FINE, 2]
    turn: Field  # [NORMALS, 2]: directions that a front may face, in the plane of the slope


@cache
def compass_tables(compass: tuple[Direction, ...]) -> Compass:
    """The tables of a set of directions."""
    azimuths = [direction.azimuth for direction in compass]
    turns = [90.0 - 360.0 * k / NORMALS for k in range(NORMALS)]
    return Compass(
        unit_vectors(azimuths),
        np.argsort(azimuths),
        unit_vectors(_fan_azimuths(azimuths)),
        unit_vectors(turns),
    )


def ray_slowness(every: Sequence[Fronts], compass: Sequence[Direction]) -> Field:
    """Minutes per meter on the map along each direction, [L, H, W, K]; infinite where nothing burns."""
    cell = np.stack([_kernel_inputs(fronts) for fronts in every])  # [L, H, W, CELL]
    flat = torch.from_numpy(cell.reshape(-1, CELL))
    slow = torch.empty(len(flat), len(compass), dtype=torch.float64)
    tables = map(torch.from_numpy, compass_tables(tuple(compass)))
    front = torch.empty(FRONT, dtype=torch.float64)  # of one cell at a time
    Kernel(cell_slowness, parallel_from=SERIAL).bind(len(flat), flat, *tables, front, slow)()
    found: Field = slow.numpy().reshape(*cell.shape[:-1], len(compass))
    return found


@inner
def cell_slowness(
    i: Scalar,
    cell: Array,
    rays: Array,
    order: Array,
    fine: Array,
    turn: Array,
    front: Array,
    slow: Array,
) -> None:
    """Compute all rays of cell `i`."""
    count = rays.shape[0]
    if cell[i, SURFACE + RATE] <= 0.0:
        for k in range(count):
            slow[i, k] = np.inf
        return
    leading = front_rates(i, cell, turn, front)
    if leading == 0 or leading == NORMALS:
        shape = SURFACE if leading == 0 else CANOPY
        write_ellipse_speeds(i, shape, rays, cell, slow)  # rates until the end
        factor = math.sqrt(polygon_area(i, rays, order, slow) / ellipse_area(i, shape, cell))
    else:
        for k in range(count):
            area = 0.0
            for j in range(k * FINE, (k + 1) * FINE):
                area += ray_speed(i, fine[j, 0], fine[j, 1], cell, turn, front) ** 2
            slow[i, k] = math.sqrt(area / FINE)
        factor = 1.0
    for k in range(count):
        slow[i, k] = factor / slow[i, k]


@inner
def polygon_area(i: Scalar, rays: Array, order: Array, reached: Array) -> Scalar:
    """The area of the polygon of all ray ends; `order` goes around the compass."""
    area = 0.0
    for j in range(order.shape[0]):
        a, b = order[j], order[(j + 1) % order.shape[0]]
        sine = rays[a, 1] * rays[b, 0] - rays[a, 0] * rays[b, 1]
        area += 0.5 * reached[i, a] * reached[i, b] * sine
    return area


@inner
def front_rates(i: Scalar, cell: Array, turn: Array, front: Array) -> Scalar:
    """Rates of fronts by the direction that they face, around the compass of the slope's plane.

    Returns in how many directions the canopy leads. If it cannot burn, this is 0 and no rate is written.
    """
    if cell[i, INTENSITY] < cell[i, CRITICAL]:
        return 0
    a, b = cell[i, EAST], cell[i, NORTH]
    long, plane = math.sqrt(1.0 + a * a), math.sqrt(1.0 + a * a + b * b)
    leading = 0
    for j in range(NORMALS):
        # The plane's axes: one lies over the east, the other is perpendicular to it.
        east = turn[j, 0] / long - turn[j, 1] * a * b / (long * plane)
        north = turn[j, 1] * long / plane
        up = a * east + b * north
        share = front_share(i, SURFACE, east, north, up, cell)
        rate = cell[i, SURFACE + RATE] * share
        if cell[i, INTENSITY] * share >= cell[i, CRITICAL]:
            above = cell[i, CANOPY + RATE] * front_share(i, CANOPY, east, north, up, cell)
            if above > rate:
                rate = above
                leading += 1
        front[j] = rate
    store_canopy_edges(i, cell, front)
    return leading


@inner
def store_canopy_edges(i: Scalar, cell: Array, front: Array) -> None:
    """Store the two directions where the canopy stops burning: the rate jumps there, often to its minimum."""
    e, share = cell[i, SURFACE + ECCENTRICITY], cell[i, CRITICAL] / cell[i, INTENSITY]
    front[EDGE_RATE] = np.inf
    # front_share, solved for the cosine to the head.
    cosine = (share * share - (1.0 - e) / (1.0 + e)) / (2.0 * share) * (1.0 + e) / max(e, 1e-9)
    if share <= 0.0 or not -1.0 < cosine < 1.0:
        return
    a, b = cell[i, EAST], cell[i, NORTH]
    axis, plane = math.sqrt(1.0 + a * a), math.sqrt(1.0 + a * a + b * b)
    east, north, up = (
        cell[i, SURFACE + HEAD_EAST],
        cell[i, SURFACE + HEAD_NORTH],
        cell[i, SURFACE + HEAD_UP],
    )
    first = (east + up * a) / axis
    second = (north * axis * axis + up * b - east * a * b) / (axis * plane)
    sine = math.sqrt(1.0 - cosine * cosine)
    front[EDGE_RATE] = cell[i, SURFACE + RATE] * share
    front[LEFT], front[LEFT + 1] = first * cosine - second * sine, second * cosine + first * sine
    front[RIGHT], front[RIGHT + 1] = first * cosine + second * sine, second * cosine - first * sine


@inner
def ray_speed(i: Scalar, east: Scalar, north: Scalar, cell: Array, turn: Array, front: Array) -> Scalar:
    """Meters per minute on the map along a horizontal unit vector, for both fires together."""
    a, b = cell[i, EAST], cell[i, NORTH]
    up = east * a + north * b
    long = math.sqrt(1.0 + up * up)  # meters along the slope per meter on the map
    # The ray in terms of the plane's axes.
    axis, plane = math.sqrt(1.0 + a * a), math.sqrt(1.0 + a * a + b * b)
    first = (east + up * a) / (axis * long)
    second = (north * axis * axis + up * b - east * a * b) / (axis * plane * long)
    least = np.inf
    for j in range(NORMALS):
        facing = turn[j, 0] * first + turn[j, 1] * second
        if facing > LEAST_FACING and front[j] < least * facing:
            least = front[j] / facing
    for edge in (LEFT, RIGHT):
        facing = front[edge] * first + front[edge + 1] * second
        if front[EDGE_RATE] < np.inf and facing > LEAST_FACING:
            least = min(least, front[EDGE_RATE] / facing)
    return least / long


@inner
def front_share(i: Scalar, shape: Scalar, east: Scalar, north: Scalar, up: Scalar, cell: Array) -> Scalar:
    """`Ellipse.front` of cell `i`."""
    e = cell[i, shape + ECCENTRICITY]
    along = e * cosine_to_head(i, shape, east, north, up, cell) / (1.0 + e)
    return along + math.sqrt((1.0 - e) / (1.0 + e) + along * along)


@inner
def write_ellipse_speeds(i: Scalar, shape: Scalar, rays: Array, cell: Array, speed: Array) -> None:
    """Meters per minute on the map along each ray: the radius of an ellipse from its focus."""
    e, a, b = cell[i, shape + ECCENTRICITY], cell[i, EAST], cell[i, NORTH]
    head_east, head_north = cell[i, shape + HEAD_EAST], cell[i, shape + HEAD_NORTH]
    head_up, least = cell[i, shape + HEAD_UP], cell[i, shape + RATE] * (1.0 - e)
    for k in range(rays.shape[0]):
        east, north = rays[k, 0], rays[k, 1]
        up = east * a + north * b
        long = math.sqrt(1.0 + up * up)  # meters along the slope per meter on the map
        speed[i, k] = least / (long - e * (east * head_east + north * head_north + up * head_up))


@inner
def cosine_to_head(i: Scalar, shape: Scalar, east: Scalar, north: Scalar, up: Scalar, cell: Array) -> Scalar:
    """The cosine between a unit vector and the direction in which the head runs."""
    return (
        east * cell[i, shape + HEAD_EAST]
        + north * cell[i, shape + HEAD_NORTH]
        + up * cell[i, shape + HEAD_UP]
    )


@inner
def ellipse_area(i: Scalar, shape: Scalar, cell: Array) -> Scalar:
    """The area of an ellipse per minute², on the map."""
    e = cell[i, shape + ECCENTRICITY]
    half_length = cell[i, shape + RATE] / (1.0 + e)
    area = math.pi * half_length * half_length * math.sqrt(1.0 - e * e)
    return area / math.sqrt(1.0 + cell[i, EAST] ** 2 + cell[i, NORTH] ** 2)


def _kernel_inputs(fronts: Fronts) -> Field:
    """What the kernel needs to know of each cell, [H, W, CELL]."""

    def ellipse(one: Ellipse) -> list[Field]:
        return [one.rate, one.eccentricity, *np.moveaxis(one.heading, -1, 0)]

    columns = [*ellipse(fronts.surface), *ellipse(fronts.canopy)]
    columns += [fronts.surface.intensity, fronts.critical, *np.moveaxis(fronts.gradient, -1, 0)]
    return np.stack(columns, axis=-1)


def _fan_azimuths(azimuths: Sequence[float]) -> list[float]:
    """FINE azimuths for each ray, spread over its sector: halfway to the next ray on both sides."""
    ordered = sorted(azimuths)
    fan = []
    for azimuth in azimuths:
        at = ordered.index(azimuth)
        left = (azimuth - ordered[at - 1]) % 360.0 / 2.0
        right = (ordered[(at + 1) % len(ordered)] - azimuth) % 360.0 / 2.0
        fan += [azimuth - left + (left + right) * (j + 0.5) / FINE for j in range(FINE)]
    return fan


def unit_vectors(azimuths: Sequence[float]) -> Field:
    """Unit vectors (east, north), [N, 2]."""
    angle = np.radians(azimuths)
    return np.stack((np.sin(angle), np.cos(angle)), axis=1)
