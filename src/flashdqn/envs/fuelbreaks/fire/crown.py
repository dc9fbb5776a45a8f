"""The crown fire: whether the canopy burns (Van Wagner 1977), and how fast it spreads (Cruz et al. 2005)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float64]

LEAST_COVER = 0.4  # below, crowns are too far apart
KM_PER_MILE = 1.609344
KJ_PER_KG = 2.3259999996185  # from Btu/lb
NONE, PASSIVE, ACTIVE = 0, 1, 2


class CrownRun(NamedTuple):
    """A fire in the canopy that runs with the wind."""

    kind: NDArray[np.uint8]  # PASSIVE or ACTIVE
    rate: Field  # m/min
    intensity: Field  # kW/m, of the canopy alone
    length_to_width: Field


def critical_intensity(base_height: Field, foliar_moisture: float) -> Field:
    """The lowest intensity of a surface fire at which the canopy burns, kW/m (Van Wagner 1977, eq. 4)."""
    intensity: Field = (0.01 * base_height * (460.0 + 2600.0 * foliar_moisture)) ** 1.5
    return intensity


def crown_run(
    wind: Field, bulk_density: Field, height: Field, base_height: Field, heat: Field, fine_moisture: float
) -> CrownRun:
    """A crown fire by the wind at 10 m in km/h along the slope; densities in kg/m³, heights in m, heat in Btu/lb.

    Active where the rate of Cruz's eq. 1 exceeds Van Wagner's 3.0 / density, else passive, damped as in eq. 3.
    """
    active = 11.02 * wind**0.90 * bulk_density**0.19 * np.exp(-17.0 * fine_moisture)
    # CAC, the criterion for active crowning: the rate over the critical one.
    criterion = active * bulk_density / 3.0
    rate = np.where(criterion > 1.0, active, active * np.exp(-criterion))
    burned_height = np.maximum(height - base_height, 0.0)
    intensity = rate * bulk_density * burned_height * heat * KJ_PER_KG / 60.0
    # Rothermel (1991), eq. 9, by the wind at 20 ft.
    proportions = 1.0 + 0.125 * wind / 1.15 / KM_PER_MILE
    kind = np.where(criterion > 1.0, ACTIVE, PASSIVE).astype(np.uint8)
    return CrownRun(kind, rate, intensity, proportions)
