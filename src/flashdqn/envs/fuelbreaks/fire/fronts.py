"""Fire fronts: how fast and how hot a straight front is, for every direction that it can face.

A fire in uniform fuel is an ellipse that grows from its focus. Each cell has two: one of the surface fire, whose
axis is the sum of wind and slope, and one of the crown fire, whose axis is the wind's; the second counts where the
front is hot enough. Both lie in the plane of the slope, so directions are unit vectors (east, north, up).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ellipse:
    """A growing ellipse per cell, [H, W] float64."""

    rate: Field  # m/min, of its head
    heading: Field  # [H, W, 3] unit vector in the plane of the slope: where the head runs
    eccentricity: Field
    intensity: Field  # kW/m, at the head

    def front(self, direction: Field) -> Field:
        """The rate of a front that faces a direction (unit vectors [..., 3]), as a share of the head's."""
        e = self.eccentricity
        along = e * (self.heading * direction).sum(-1) / (1.0 + e)
        share: Field = along + np.sqrt((1.0 - e) / (1.0 + e) + along**2)
        return share


@dataclass(frozen=True, eq=False)
class Fronts:
    """Both ellipses of each cell, and when the second counts."""

    surface: Ellipse
    canopy: Ellipse
    canopy_kind: NDArray[np.uint8]  # [H, W] what a fire in the canopy would be: 1 passive, 2 active
    critical: Field  # [H, W] kW/m of the surface fire at which the canopy starts to burn; infinite: it cannot
    burnable: NDArray[np.bool_]  # [H, W] whether a surface fire spreads at all
    gradient: Field  # [H, W, 2] rise over run to the east and to the north


@dataclass(frozen=True, eq=False)
class Front:
    """A front in each cell, [H, W]."""

    rate: Field  # m/min along the slope
    intensity: Field  # kW/m
    crown: NDArray[np.uint8]  # 0 none, 1 passive, 2 active
    in_canopy: NDArray[np.bool_]  # whether the canopy leads


def head_front(fronts: Fronts) -> Front:
    """The fastest front: that of the faster ellipse where the canopy burns."""
    full = np.ones_like(fronts.critical)
    return _combine_fronts(fronts, full, full)


def front_facing(fronts: Fronts, azimuth: float | NDArray[Any]) -> Front:
    """The front that faces an azimuth, in degrees clockwise from north."""
    direction = slope_unit_vectors(azimuth, fronts.gradient)
    return _combine_fronts(fronts, fronts.surface.front(direction), fronts.canopy.front(direction))


def _combine_fronts(fronts: Fronts, surface_share: Field, canopy_share: Field) -> Front:
    """Fronts at shares of the heads' rates.

    Where the canopy burns the faster of both leads, and the other's heat is released at the leader's rate too.
    """
    rate = fronts.surface.rate * surface_share
    intensity = fronts.surface.intensity * surface_share
    above = fronts.canopy.rate * canopy_share
    above_intensity = fronts.canopy.intensity * canopy_share
    crowning = fronts.burnable & (intensity >= fronts.critical) & (intensity > 0)
    leads = crowning & (above > rate)
    both = crowning & (above > 0)
    # Heat per area is intensity over rate: it does not depend on the direction.
    slow, fast = np.where(leads, rate, above), np.where(leads, above, rate)
    speed_up = np.where(both, fast / np.where(slow > 0, slow, 1.0), 1.0)
    combined = np.where(leads, intensity * speed_up + above_intensity, intensity + above_intensity * speed_up)
    crown = np.where(crowning, fronts.canopy_kind, 0).astype(np.uint8)
    return Front(np.where(leads, above, rate), np.where(both, combined, intensity), crown, leads)


def slope_unit_vectors(azimuth: float | NDArray[Any], gradient: Field) -> Field:
    """Unit vectors [..., 3] in the plane of the slope that lie over an azimuth."""
    east, north = np.sin(np.radians(azimuth)), np.cos(np.radians(azimuth))
    up = east * gradient[..., 0] + north * gradient[..., 1]
    vector = np.stack(np.broadcast_arrays(east, north, up), axis=-1)
    unit: Field = vector / np.linalg.norm(vector, axis=-1, keepdims=True)
    return unit
