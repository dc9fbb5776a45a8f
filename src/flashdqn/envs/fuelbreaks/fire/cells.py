"""The behavior of fire in one cell, as scalar kernel code: the same equations as behavior.py, a cell at a time.

`work_out_cell` writes what rays.py reads of a cell. What cannot matter there is left out: the canopy's ellipse
where the hottest surface fire does not set the canopy on fire.
"""

from __future__ import annotations

import math

import numpy as np

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.envs.fuelbreaks.fire.beds import (
    BED_INTENSITY,
    BED_RATE,
    DEPTH,
    FOLIAR,
    KNOWN,
    MOISTURE,
    SLOPE_FACTOR,
    WIND_EAST,
    WIND_FACTOR,
    WIND_LIMIT,
    WIND_NORTH,
    WIND_POWER,
    WIND_SPEED,
    work_out_bed,
)
from flashdqn.envs.fuelbreaks.fire.crown import KM_PER_MILE, LEAST_COVER
from flashdqn.envs.fuelbreaks.fire.rays import (
    CANOPY,
    CRITICAL,
    EAST,
    ECCENTRICITY,
    HEAD_EAST,
    HEAD_NORTH,
    HEAD_UP,
    INTENSITY,
    NORTH,
    RATE,
    SURFACE,
)
from flashdqn.envs.fuelbreaks.fire.surface import FEET_PER_METER, MPH

KM_H = 1.0 / 0.06  # in m/min
WIND_10M_OVER_20FT = 1.15
RADIANS = math.pi / 180.0
# rows of layers
SLOPE, ASPECT, COVER, DENSITY, BASE, HEIGHT, LAYERS = range(7)
LAYER_NAMES = (
    "slope",
    "aspect",
    "canopy_cover",
    "canopy_bulk_density",
    "canopy_base_height",
    "canopy_height",
)


@inner
def adjust_wind(depth: Scalar, height: Scalar, cover: Scalar) -> Scalar:
    """`surface.wind_adjustment`; heights in ft."""
    fill = cover / 3.0
    if fill >= 0.05 and height >= 6.0:
        return 0.555 / (math.sqrt(fill * height) * math.log((20.0 + 0.36 * height) / (0.13 * height)))
    return 1.83 / math.log((20.0 + 0.36 * depth) / (0.13 * depth))


@inner
def eccentricity_of(length_to_width: Scalar) -> Scalar:
    """`surface.ellipse_eccentricity`."""
    return math.sqrt(length_to_width**2 - 1.0) / length_to_width


@inner
def write_heading(
    i: Scalar, shape: Scalar, east: Scalar, north: Scalar, up: Scalar, length: Scalar, cell: Array
) -> None:
    """The direction of an ellipse's head as a unit vector."""
    scale = length if length > 0.0 else 1.0
    cell[i, shape + HEAD_EAST] = east / scale
    cell[i, shape + HEAD_NORTH] = north / scale
    cell[i, shape + HEAD_UP] = up / scale


@inner
def write_surface_ellipse(
    i: Scalar, at: Scalar, m: Scalar, lift: Scalar, along: Scalar, layers: Array, fuels: Array, beds: Array,
    weather: Array, cell: Array,
) -> None:  # fmt: skip
    """Wind and slope added as vectors of their factors φ, in the plane of the slope."""
    a, b = cell[i, EAST], cell[i, NORTH]
    steep = a * a + b * b
    adjustment = adjust_wind(fuels[m, DEPTH], layers[HEIGHT, at] * FEET_PER_METER, layers[COVER, at])
    midflame = weather[WIND_SPEED] / WIND_10M_OVER_20FT * KM_H * adjustment
    factor, power = beds[m, WIND_FACTOR], beds[m, WIND_POWER]
    phi_wind = factor * (midflame * along) ** power if weather[WIND_SPEED] > 0.0 else 0.0
    phi_slope = beds[m, SLOPE_FACTOR] * steep
    rise = math.sqrt(steep + steep * steep)
    rise = rise if rise > 0.0 else 1.0
    east = phi_wind * (weather[WIND_EAST] / along) + phi_slope * (a / rise)
    north = phi_wind * (weather[WIND_NORTH] / along) + phi_slope * (b / rise)
    up = phi_wind * (lift / along) + phi_slope * (steep / rise)
    phi = math.sqrt(east * east + north * north + up * up)
    if phi > 0.0:
        write_heading(i, SURFACE, east, north, up, phi, cell)
    elif steep > 0.0:
        write_heading(i, SURFACE, a, b, steep, rise, cell)
    else:
        write_heading(i, SURFACE, 0.0, 1.0, 0.0, 1.0, cell)
    wind = (phi / factor) ** (1.0 / power) if phi > 0.0 else 0.0
    if wind > beds[m, WIND_LIMIT]:
        wind = beds[m, WIND_LIMIT]
        phi = factor * wind**power
    mph = wind * MPH
    proportions = min(8.0, 0.936 * math.exp(0.1147 * mph) + 0.461 * math.exp(-0.0692 * mph) - 0.397)
    cell[i, SURFACE + RATE] = beds[m, BED_RATE] * (1.0 + phi)
    cell[i, SURFACE + ECCENTRICITY] = eccentricity_of(proportions)
    cell[i, INTENSITY] = beds[m, BED_INTENSITY] * (1.0 + phi)


@inner
def write_canopy_ellipse(
    i: Scalar, at: Scalar, lift: Scalar, along: Scalar, layers: Array, weather: Array, cell: Array
) -> None:
    """The fire in the canopy runs with the wind; written only where the canopy can take fire."""
    cell[i, CRITICAL] = np.inf
    if layers[COVER, at] <= LEAST_COVER:
        return
    base = layers[BASE, at]
    cell[i, CRITICAL] = (0.01 * base * (460.0 + 2600.0 * weather[FOLIAR])) ** 1.5
    if cell[i, INTENSITY] < cell[i, CRITICAL]:
        return
    wind, density = weather[WIND_SPEED] * along, layers[DENSITY, at]
    active = 11.02 * wind**0.90 * density**0.19 * math.exp(-17.0 * weather[MOISTURE])
    criterion = active * density / 3.0
    cell[i, CANOPY + RATE] = active if criterion > 1.0 else active * math.exp(-criterion)
    cell[i, CANOPY + ECCENTRICITY] = eccentricity_of(1.0 + 0.125 * wind / 1.15 / KM_PER_MILE)
    write_heading(i, CANOPY, weather[WIND_EAST], weather[WIND_NORTH], lift, along, cell)


@inner
def write_cell(
    i: Scalar, at: Scalar, m: Scalar, layers: Array, fuels: Array, beds: Array, weather: Array, cell: Array
) -> None:
    """Write row `i` for the cell `at`, whose fuel is row `m` of fuels and burns."""
    slope = math.tan(layers[SLOPE, at] * RADIANS)
    uphill = (layers[ASPECT, at] + 180.0) * RADIANS
    a, b = slope * math.sin(uphill), slope * math.cos(uphill)
    cell[i, EAST], cell[i, NORTH] = a, b
    lift = weather[WIND_EAST] * a + weather[WIND_NORTH] * b
    along = math.sqrt(weather[WIND_EAST] ** 2 + weather[WIND_NORTH] ** 2 + lift * lift)
    write_surface_ellipse(i, at, m, lift, along, layers, fuels, beds, weather, cell)
    write_canopy_ellipse(i, at, lift, along, layers, weather, cell)


@inner
def work_out_cell(
    i: Scalar, at: Scalar, m: Scalar, layers: Array, fuels: Array, beds: Array, weather: Array, scratch: Array,
    cell: Array,
) -> Scalar:  # fmt: skip
    """Write row `i` for the cell `at`, whose fuel is row `m` of fuels (negative: nothing to burn); return whether
    fire spreads there."""
    cell[i, SURFACE + RATE] = 0.0
    if m < 0:
        return False
    if beds[m, KNOWN] == 0.0:
        work_out_bed(m, fuels, weather, scratch, beds)
    if not beds[m, BED_RATE] > 0.0:
        return False
    write_cell(i, at, m, layers, fuels, beds, weather, cell)
    return True
