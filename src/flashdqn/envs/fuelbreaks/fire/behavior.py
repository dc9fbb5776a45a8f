"""How a fire would behave in every cell of a landscape: how fast, in which direction, how hot, in crowns or below.

`fire_behavior` is computed once per landscape and weather and then remembered; its arrays are read-only.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashdqn.envs.fuelbreaks.fire.crown import LEAST_COVER, critical_intensity, crown_run
from flashdqn.envs.fuelbreaks.fire.fronts import Ellipse, Fronts, front_facing, head_front
from flashdqn.envs.fuelbreaks.fire.fuels import burnable_fuels
from flashdqn.envs.fuelbreaks.fire.surface import (
    FEET_PER_METER,
    Bed,
    effective_wind,
    ellipse_eccentricity,
    flame_length,
    fuel_bed,
    length_to_width,
    wind_adjustment,
)
from flashdqn.envs.fuelbreaks.fire.weather import Weather
from flashdqn.envs.fuelbreaks.landscape import LAYERS, Landscape, join_landscapes

Field = NDArray[np.float64]

KM_H = 1.0 / 0.06  # in m/min
WIND_10M_OVER_20FT = 1.15

REMEMBERED = 64
_memory: OrderedDict[tuple[str, Weather], FireBehavior] = OrderedDict()


@dataclass(frozen=True, eq=False)
class FireBehavior:
    """What a fire does in each cell, [H, W]; row 0 is the north. All but the last two describe its head."""

    rate: NDArray[np.float32]  # m/min along the slope, in the direction of the fastest spread
    direction: NDArray[np.float32]  # degrees clockwise from north, in which the fire is fastest
    eccentricity: NDArray[np.float32]  # of the fire's ellipse: 0 is a circle
    intensity: NDArray[np.float32]  # kW/m of the fire line
    flame_length: NDArray[np.float32]  # m
    crown: NDArray[np.uint8]  # 0 none, 1 passive, 2 active
    burnable: NDArray[np.bool_]  # whether a fire spreads in a cell in this weather
    fronts: Fronts  # in all directions
    cell_size: float  # m


def fire_behavior(landscape: Landscape, weather: Weather) -> FireBehavior:
    """The behavior of fire in each cell, remembered by content."""
    key = (hash_landscape(landscape), weather)
    if key in _memory:
        _memory.move_to_end(key)
        return _memory[key]
    behavior = _summarize_fronts(_compute_fronts(landscape, weather), landscape.cell_size)
    _freeze_arrays(behavior)
    _memory[key] = behavior
    if len(_memory) > REMEMBERED:
        _memory.popitem(last=False)
    return behavior


def joint_behavior(landscapes: Sequence[Landscape], weather: Weather) -> FireBehavior:
    """The behavior in landscapes of one width that lie below each other, [L · H, W]; not remembered.

    No cell depends on another. So this gives the same numbers as a call for each landscape, and takes a fraction of
    the time where there are many small ones.
    """
    joint = join_landscapes(landscapes)
    return _summarize_fronts(_compute_fronts(joint, weather), joint.cell_size)


def rate_and_intensity_toward(
    behavior: FireBehavior, azimuth: float | NDArray[Any]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Rate (m/min) and fire-line intensity (kW/m) of a front that faces an azimuth (degrees from north)."""
    front = front_facing(behavior.fronts, azimuth)
    return front.rate.astype(np.float32), front.intensity.astype(np.float32)


def hash_landscape(landscape: Landscape) -> str:
    """A hash of all that a landscape holds."""
    digest = hashlib.sha256(repr((landscape.shape, float(landscape.cell_size))).encode())
    for layer in LAYERS:
        digest.update(np.ascontiguousarray(getattr(landscape, layer)).tobytes())
    return digest.hexdigest()


def _summarize_fronts(fronts: Fronts, cell_size: float) -> FireBehavior:
    front = head_front(fronts)
    heading = np.where(front.in_canopy[..., None], fronts.canopy.heading, fronts.surface.heading)
    direction = np.degrees(np.arctan2(heading[..., 0], heading[..., 1])) % 360.0
    narrow = np.where(front.in_canopy, fronts.canopy.eccentricity, fronts.surface.eccentricity)
    return FireBehavior(
        front.rate.astype(np.float32),
        direction.astype(np.float32),
        narrow.astype(np.float32),
        front.intensity.astype(np.float32),
        flame_length(front.intensity).astype(np.float32),
        front.crown,
        fronts.burnable,
        fronts,
        float(cell_size),
    )


def _compute_fronts(landscape: Landscape, weather: Weather) -> Fronts:
    slope = np.tan(np.radians(landscape.slope.astype(np.float64)))
    uphill = np.radians(landscape.aspect.astype(np.float64) + 180.0)
    gradient = np.stack((slope * np.sin(uphill), slope * np.cos(uphill)), axis=-1)

    fuels = burnable_fuels()
    burnable = np.isin(landscape.fuel_model, fuels.number)
    model = np.where(burnable, np.searchsorted(fuels.number, landscape.fuel_model), 0)
    bed = Bed(*(part[model] for part in fuel_bed(fuels, weather)))
    burnable &= bed.rate > 0

    wind = np.broadcast_to(_lift_to_slope(weather.wind_from + 180.0, gradient), (*slope.shape, 3))
    surface = _surface_ellipse(landscape, weather, bed, fuels.depth[model], gradient, wind)
    surface = replace(
        surface,
        rate=np.where(burnable, surface.rate, 0.0),
        intensity=np.where(burnable, surface.intensity, 0.0),
    )
    canopy, kind = _canopy_ellipse(landscape, weather, fuels.heat[model], gradient, wind)
    critical = np.where(
        landscape.canopy_cover.astype(np.float64) > LEAST_COVER,
        critical_intensity(landscape.canopy_base_height.astype(np.float64), weather.foliar),
        np.inf,
    )
    return Fronts(surface, canopy, kind, critical, burnable, gradient)


def _surface_ellipse(
    landscape: Landscape, weather: Weather, bed: Bed, depth: Field, gradient: Field, wind: Field
) -> Ellipse:
    """Wind and slope added as vectors of their factors φ, in the plane of the slope."""
    height, cover = (
        landscape.canopy_height.astype(np.float64),
        landscape.canopy_cover.astype(np.float64),
    )
    adjustment = wind_adjustment(depth, height * FEET_PER_METER, cover)
    midflame = weather.wind_speed / WIND_10M_OVER_20FT * KM_H * adjustment
    along = np.linalg.norm(wind, axis=-1)  # a wind that blows up a slope is longer there than on the map
    phi_wind = bed.wind_factor * (midflame * along) ** bed.wind_power
    uphill = np.concatenate((gradient, (gradient**2).sum(-1, keepdims=True)), axis=-1)
    phi_slope = bed.slope_factor * (gradient**2).sum(-1)
    both = phi_wind[..., None] * _normalize_vectors(wind) + phi_slope[..., None] * _normalize_vectors(uphill)
    phi = np.linalg.norm(both, axis=-1)
    effective, phi_limited = effective_wind(bed, phi)
    return Ellipse(
        bed.rate * (1.0 + phi_limited),
        _fall_back_to_north(_normalize_vectors(both), _normalize_vectors(uphill)),
        ellipse_eccentricity(length_to_width(effective)),
        bed.intensity * (1.0 + phi_limited),
    )


def _canopy_ellipse(
    landscape: Landscape, weather: Weather, heat: Field, gradient: Field, wind: Field
) -> tuple[Ellipse, NDArray[np.uint8]]:
    """The fire in the canopy runs with the wind; without wind it does not move."""
    run = crown_run(
        weather.wind_speed * np.linalg.norm(wind, axis=-1),
        landscape.canopy_bulk_density.astype(np.float64),
        landscape.canopy_height.astype(np.float64),
        landscape.canopy_base_height.astype(np.float64),
        heat,
        weather.dead_1h,
    )
    return Ellipse(
        run.rate, _normalize_vectors(wind), ellipse_eccentricity(run.length_to_width), run.intensity
    ), run.kind


def _lift_to_slope(azimuth: float, gradient: Field) -> Field:
    """A horizontal unit vector lifted into the plane of the slope: longer than 1 where that is steep, [..., 3]."""
    east, north = np.sin(np.radians(azimuth)), np.cos(np.radians(azimuth))
    up = east * gradient[..., 0] + north * gradient[..., 1]
    return np.stack((np.full_like(up, east), np.full_like(up, north), up), axis=-1)


def _normalize_vectors(vector: Field) -> Field:
    """Scale vectors to length 1; zero vectors stay zero."""
    length = np.linalg.norm(vector, axis=-1, keepdims=True)
    unit: Field = vector / np.where(length > 0, length, 1.0)
    return unit


def _fall_back_to_north(vector: Field, second: Field) -> Field:
    """The vector; where it is 0 the second one, and where both are 0 north."""
    vector = np.where(np.any(vector != 0, axis=-1, keepdims=True), vector, second)
    return np.where(np.any(vector != 0, axis=-1, keepdims=True), vector, np.array([0.0, 1.0, 0.0]))


def _freeze_arrays(value: Any) -> None:
    """Make every array of a dataclass read-only, because all callers share it."""
    for field in fields(value):
        part = getattr(value, field.name)
        if isinstance(part, np.ndarray):
            part.setflags(write=False)
        elif is_dataclass(part):
            _freeze_arrays(part)
