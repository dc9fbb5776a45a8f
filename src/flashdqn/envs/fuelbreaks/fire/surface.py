"""The surface fire: Rothermel (1972) with the amendments of Albini (1976), for whole arrays.

Internally everything is in the units of the papers (ft, lb, Btu, minutes), and the names are the papers' symbols.
The fuel bed at rest (no wind, no slope) is computed once per fuel model, then wind and slope per cell.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flashdqn.envs.fuelbreaks.fire.fuels import (
    DEAD,
    DEAD_HERBS,
    LIVE,
    LIVE_HERBS,
    Fuels,
)
from flashdqn.envs.fuelbreaks.fire.weather import Weather

Field = NDArray[np.float64]

# The factors of the usual fire programs, whose foot is 1/3.281 m.
FEET_PER_METER = 3.281
KW_PER_M = 3.46165186  # from Btu/ft/s
MPH = 0.0372840909091  # from m/min

PARTICLE_DENSITY = 32.0  # ρ_p, lb/ft³
TOTAL_MINERALS, EFFECTIVE_MINERALS = 0.0555, 0.010  # S_T, S_e
SIZE_CLASSES = (1200.0, 192.0, 96.0, 48.0, 16.0)  # 1/ft: Albini's bounds


class Bed(NamedTuple):
    """A fuel bed at rest, in this weather, and how it responds to wind and slope. Arrays of one shape."""

    rate: Field  # R₀, m/min
    intensity: Field  # kW/m, of a front that moves at R₀
    wind_limit: Field  # m/min, of the effective wind: 0.9 I_R
    slope_factor: Field  # φ_S / tan² slope
    wind_factor: Field  # φ_W / U^B, for U in m/min
    wind_power: Field  # B


def fuel_bed(fuels: Fuels, weather: Weather) -> Bed:
    """Every fuel model at rest, [M]."""
    load, moisture = _cure_herbs(fuels, weather)
    area = fuels.ratio * load / PARTICLE_DENSITY
    dead, live = area[:, DEAD].sum(1), area[:, LIVE].sum(1)
    share = np.concatenate(
        (area[:, DEAD] / _safe_divisor(dead)[:, None], area[:, LIVE] / _safe_divisor(live)[:, None]), axis=1
    )  # f_ij
    categories = np.stack((dead, live), axis=1) / _safe_divisor(dead + live)[:, None]  # f_i

    sigma = _weight_by_category(share, fuels.ratio, categories)
    bulk_density = load.sum(1) / fuels.depth  # ρ_b
    beta = bulk_density / PARTICLE_DENSITY
    relative = beta / (3.348 * sigma**-0.8189)  # β / β_op
    reaction = _heat_release(fuels, load, share, moisture) * _reaction_velocity(sigma, relative)  # I_R

    flux_ratio = np.exp((0.792 + 0.681 * np.sqrt(sigma)) * (beta + 0.1)) / (192.0 + 0.2595 * sigma)  # ξ
    heating = np.where(fuels.ratio > 0, np.exp(-138.0 / _safe_divisor(fuels.ratio)), 0.0)  # ε
    preignition = heating * (250.0 + 1116.0 * moisture)  # ε Q_ig
    # R₀, ft/min
    rate = reaction * flux_ratio / (bulk_density * _weight_by_category(share, preignition, categories))
    intensity = reaction * rate * (384.0 / sigma) / 60.0  # Byram's, by the residence time of Anderson (1969)

    B = 0.02526 * sigma**0.54
    C = 7.47 * np.exp(-0.133 * sigma**0.55)
    E = 0.715 * np.exp(-3.59e-4 * sigma)
    return Bed(
        rate / FEET_PER_METER,
        intensity * KW_PER_M,
        0.9 * reaction / FEET_PER_METER,
        5.275 * beta**-0.3,
        C * relative**-E * FEET_PER_METER**B,
        B,
    )


def wind_adjustment(depth: Field, canopy_height: Field, canopy_cover: Field) -> Field:
    """The wind at mid-flame over that at 20 ft (Andrews 2012): under a canopy, and in the open; heights in ft."""
    fill = canopy_cover / 3.0
    sheltered = (fill >= 0.05) & (canopy_height >= 6.0)
    height = np.where(sheltered, canopy_height, 6.0)
    under = 0.555 / (np.sqrt(np.where(sheltered, fill, 1.0) * height) * _log_profile(height))
    return np.where(sheltered, under, 1.83 / _log_profile(depth))


def effective_wind(bed: Bed, phi: Field) -> tuple[Field, Field]:
    """The wind (m/min) that alone has the effect φ of wind and slope, and φ; both within the limit."""
    wind = (phi / bed.wind_factor) ** (1.0 / bed.wind_power)
    limited = np.minimum(wind, bed.wind_limit)
    return limited, np.where(wind > limited, bed.wind_factor * limited**bed.wind_power, phi)


def length_to_width(wind: Field) -> Field:
    """Proportions of the surface fire's ellipse (Anderson 1983, as in BEHAVE), from the effective wind in m/min; at
    most 8."""
    mph = wind * MPH
    return np.minimum(8.0, 0.936 * np.exp(0.1147 * mph) + 0.461 * np.exp(-0.0692 * mph) - 0.397)


def ellipse_eccentricity(length_to_width: Field) -> Field:
    """Eccentricity of an ellipse from its proportions (Albini & Chase 1980, eq. 8)."""
    return np.sqrt(length_to_width**2 - 1.0) / length_to_width


def flame_length(intensity: Any) -> Field:
    """Flame length in meters from kW/m (Byram 1959): 0.45 I^0.46 in ft and Btu/ft/s."""
    flame: Field = 0.45 / FEET_PER_METER * (np.asarray(intensity, dtype=np.float64) / KW_PER_M) ** 0.46
    return flame


def _cure_herbs(fuels: Fuels, weather: Weather) -> tuple[Field, Field]:
    """Loads with the cured part of live herbs moved to the dead ones (Scott & Burgan 2005), and moistures."""
    cured = 1.0 - np.clip((weather.live_herbaceous - 0.3) / 0.9, 0.0, 1.0)
    load = fuels.load.copy()
    moved = np.where(fuels.dynamic, fuels.load[:, LIVE_HERBS] * cured, 0.0)
    load[:, DEAD_HERBS] = moved
    load[:, LIVE_HERBS] -= moved
    dead = (weather.dead_1h, weather.dead_10h, weather.dead_100h, weather.dead_1h)
    moisture = np.array((*dead, weather.live_herbaceous, weather.live_woody))
    return load, np.broadcast_to(moisture, load.shape)


def _heat_release(fuels: Fuels, load: Field, share: Field, moisture: Field) -> Field:
    """Net loads times heat times the damping by moisture and minerals, dead and live fuel together, Btu/ft²."""
    mineral_damping = 0.174 * EFFECTIVE_MINERALS**-0.19
    extinction = (fuels.extinction, _live_extinction(fuels, load, moisture))
    size_class = np.digitize(fuels.ratio, SIZE_CLASSES[::-1])
    total = np.zeros(len(fuels.number))
    for part, limit in zip((DEAD, LIVE), extinction, strict=True):
        same = size_class[:, part, None] == size_class[:, None, part]  # [M, class, class]
        weight = (same * share[:, None, part]).sum(2)  # g_ij (Albini 1976)
        net = (weight * load[:, part]).sum(1) * (1.0 - TOTAL_MINERALS)
        wetness = np.minimum(1.0, (share[:, part] * moisture[:, part]).sum(1) / limit)
        damping = 1.0 - 2.59 * wetness + 5.11 * wetness**2 - 3.52 * wetness**3
        total += np.where(wetness < 1.0, net * fuels.heat * damping * mineral_damping, 0.0)
    return total


def _live_extinction(fuels: Fuels, load: Field, moisture: Field) -> Field:
    """The moisture at which live fuel goes out, from the fine dead fuel with it (Rothermel eq. 88, Albini 1976)."""
    ratio = _safe_divisor(fuels.ratio)
    fine = load * np.where(fuels.ratio > 0, 1.0, 0.0)
    dead = (fine * np.exp(-138.0 / ratio))[:, DEAD]
    live = (fine * np.exp(-500.0 / ratio))[:, LIVE].sum(1)
    some = (dead.sum(1) > 1e-6) & (live > 1e-6)
    dead_moisture = (dead * moisture[:, DEAD]).sum(1) / _safe_divisor(dead.sum(1))
    proportion = dead.sum(1) / np.where(some, live, 1.0)
    limit = 2.9 * proportion * (1.0 - dead_moisture / fuels.extinction) - 0.226
    return np.where(some, np.maximum(fuels.extinction, limit), fuels.extinction)


def _reaction_velocity(sigma: Field, relative: Field) -> Field:
    """Γ', 1/min, with Albini's A."""
    A = 133.0 * sigma**-0.7913
    greatest = sigma**1.5 / (495.0 + 0.0594 * sigma**1.5)
    velocity: Field = greatest * relative**A * np.exp(A * (1.0 - relative))
    return velocity


def _weight_by_category(share: Field, value: Field, categories: Field) -> Field:
    """Σ_i f_i Σ_j f_ij x_ij over dead and live fuel."""
    by_class = share * value
    total: Field = categories[:, 0] * by_class[:, DEAD].sum(1) + categories[:, 1] * by_class[:, LIVE].sum(1)
    return total


def _log_profile(height: Field) -> Field:
    """The logarithmic wind profile over an object of a height in ft."""
    profile: Field = np.log((20.0 + 0.36 * height) / (0.13 * height))
    return profile


def _safe_divisor(x: Field) -> Field:
    """A divisor without zeros: 1 where x is 0, because the dividend is 0 there too."""
    return np.where(x > 0, x, 1.0)
