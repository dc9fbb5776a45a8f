"""Generated landscapes: fractal hills, fuels that follow slope and moisture, a lake, roads, fields.

Everything is drawn from one seed. All sums are plain arithmetic in float64 and the layers are rounded as LANDFIRE
rounds them (whole meters, degrees and percent), so every machine makes the same landscape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.landscape import Landscape, slope_and_aspect

Field = NDArray[np.float64]
Fuel = NDArray[np.int16]

SMALLEST, LARGEST = 4, 2048


@dataclass(frozen=True)
class Country:
    """A kind of country: fuel models from the driest ground to the wettest, and what else there is."""

    fuels: tuple[int, ...]
    relief: tuple[float, float]  # mean slope in degrees, from … to
    water: float  # chance of a lake
    fields: float  # chance of farmland
    roads: tuple[int, int]  # how many, from … to


#: Scott & Burgan's models: GR grass 101-109, GS grass and shrub 121-124, SH shrub 141-149, TU timber with
#: understory 161-165, TL timber litter 181-189.
COUNTRIES = {
    "grassland": Country((101, 102, 104, 121, 122, 182), (2.0, 10.0), 0.4, 0.6, (1, 3)),
    "chaparral": Country((122, 141, 142, 145, 147, 165), (8.0, 22.0), 0.2, 0.2, (0, 2)),
    "mixed": Country((102, 122, 142, 161, 183, 188), (5.0, 18.0), 0.5, 0.4, (1, 3)),
    "conifers": Country((121, 165, 162, 188, 183, 181), (8.0, 20.0), 0.5, 0.1, (0, 2)),
}

#: Canopy by fuel model: cover, height (m), base height (m), bulk density (kg/m³).
CANOPY = {
    122: (0.1, 6.0, 1.0, 0.02),
    161: (0.45, 14.0, 1.2, 0.08),
    162: (0.55, 18.0, 2.0, 0.10),
    165: (0.6, 20.0, 0.7, 0.15),
    181: (0.6, 22.0, 2.5, 0.10),
    182: (0.5, 16.0, 2.5, 0.06),
    183: (0.65, 20.0, 1.8, 0.12),
    188: (0.7, 24.0, 1.2, 0.16),
}


def generate_landscape(seed: int, size: int = 50, cell_size: float = 30.0) -> Landscape:
    """The landscape of a seed: `size` x `size` cells. Another size of the same seed is another landscape."""
    if not SMALLEST <= size <= LARGEST:
        raise EnvError(
            f"A generated landscape has {SMALLEST} to {LARGEST} cells a side; {size} was asked for."
        )
    random = np.random.Generator(np.random.PCG64([seed % 2**64, size]))
    kind = str(random.choice(sorted(COUNTRIES)))
    country = COUNTRIES[kind]
    elevation = make_terrain(random, size, cell_size, country.relief)
    slope, aspect = slope_and_aspect(elevation, cell_size)
    slope, aspect = np.round(slope), np.round(aspect) % 360
    fuel = grow_fuels(random, elevation, slope, aspect, country)
    fuel = place_ground_features(random, elevation, slope, fuel, country)
    return Landscape(
        elevation=elevation.astype(np.float32),
        slope=slope,
        aspect=np.where(slope > 0, aspect, 0.0).astype(np.float32),
        fuel_model=fuel,
        cell_size=cell_size,
        name=f"{kind} {seed}",
        **make_canopy(random, fuel),
    )


def fractal_noise(random: np.random.Generator, size: int, span: float, roughness: float = 0.5) -> Field:
    """Fractal noise [size, size] with mean 0 and standard deviation 1.

    Octaves of smooth noise, from features `span` cells wide down to two; each has `roughness` times the height of
    the one before.
    """
    total, height = np.zeros((size, size)), 1.0
    while span >= 2.0:
        total += height * smooth_noise(random, size, span)
        span, height = span / 2.0, height * roughness
    spread = float(total.std())
    normal: Field = (total - total.mean()) / (spread if spread > 0 else 1.0)
    return normal


def smooth_noise(random: np.random.Generator, size: int, span: float) -> Field:
    """One octave: random heights on a lattice, `span` cells apart with a random shift, joined smoothly."""
    at = (np.arange(size) + random.random() * span) / span
    across = (np.arange(size) + random.random() * span) / span
    lattice = random.standard_normal((int(at[-1]) + 2, int(across[-1]) + 2))
    row, column = at.astype(np.int64), across.astype(np.int64)
    down, right = np.subtract(at, row, dtype=np.float64), np.subtract(across, column, dtype=np.float64)
    a, b = smoother_step(down)[:, None], smoother_step(right)[None, :]
    joined = lattice[:, column] * (1 - b) + lattice[:, column + 1] * b  # [rows of the lattice, size]
    smooth: Field = joined[row] * (1 - a) + joined[row + 1] * a
    return smooth


def smoother_step(share: Field) -> Field:
    """A curve from 0 to 1 with a slope and a curvature of 0 at both ends."""
    return share * share * share * (share * (share * 6.0 - 15.0) + 10.0)


def make_terrain(
    random: np.random.Generator, size: int, cell_size: float, relief: tuple[float, float]
) -> Field:
    """Elevation in whole meters, with a mean slope within `relief`."""
    hills = fractal_noise(random, size, max(8.0, 0.6 * size), roughness=0.42)
    wanted = random.uniform(*relief)
    tangent = np.hypot(*np.gradient(hills, cell_size)).mean()
    base = random.uniform(100.0, 1500.0)
    heights: Field = base + hills * np.tan(np.radians(wanted)) / max(tangent, 1e-9)
    return np.round(heights - min(0.0, float(heights.min())))


def grow_fuels(
    random: np.random.Generator, elevation: Field, slope: NDArray[Any], aspect: NDArray[Any], country: Country
) -> Fuel:
    """Fuels in patches: wetter in low places, on slopes that face north, and at random."""
    size = len(elevation)
    high = (elevation - elevation.mean()) / max(float(elevation.std()), 1.0)
    northward = np.cos(np.radians(aspect.astype(np.float64))) * np.minimum(1.0, slope / 15.0)
    moisture = 0.8 * fractal_noise(random, size, max(6.0, 0.35 * size), 0.55) + 0.5 * northward - 0.4 * high
    shares = np.cumsum(random.dirichlet(np.full(len(country.fuels), 1.5)))[:-1]
    limits = np.quantile(moisture, shares)
    fuel: Fuel = np.asarray(country.fuels, dtype=np.int16)[np.searchsorted(limits, moisture)]
    return fuel


def place_ground_features(
    random: np.random.Generator, elevation: Field, slope: NDArray[Any], fuel: Fuel, country: Country
) -> Fuel:
    """Put farmland, bare rock, a lake and roads on top of what grows."""
    size = len(elevation)
    fuel = fuel.copy()
    if random.random() < country.fields:
        flat = fractal_noise(random, size, max(6.0, 0.3 * size), 0.3) - slope / 8.0
        fuel[flat > np.quantile(flat, 1 - random.uniform(0.02, 0.1))] = 93
    fuel[slope > 42.0] = 99
    if random.random() < country.water:
        low = elevation + 2.0 * fractal_noise(random, size, 6.0)
        fuel[low <= np.quantile(low, random.uniform(0.01, 0.07))] = 98
    for _ in range(int(random.integers(country.roads[0], country.roads[1] + 1))):
        draw_road(random, fuel)
    return fuel


def draw_road(random: np.random.Generator, fuel: Fuel) -> None:
    """Draw a road from one edge to the opposite one, a cell wide, with bends. Some parts lie under trees, where it
    does not stop a fire. Its cells share sides, so fire cannot slip through a corner."""
    size = len(fuel)
    along = fuel if random.random() < 0.5 else fuel.T
    position = random.uniform(0.15, 0.85) * size
    heading = random.uniform(-0.5, 0.5)
    before = int(min(max(position, 0.0), size - 1.0))
    gap_from = int(random.integers(0, size))
    gap = range(gap_from, gap_from + int(random.integers(0, max(1, size // 6) + 1)))
    for step in range(size):
        heading = min(max(heading + random.normal(0.0, 0.15), -0.9), 0.9)
        position = min(max(position + heading, 0.0), size - 1.0)
        now = int(position)
        if step not in gap:
            along[step, min(before, now) : max(before, now) + 1] = 91
        before = now


def make_canopy(random: np.random.Generator, fuel: Fuel) -> dict[str, Any]:
    """The canopy for each fuel, with varying density; zero where there are no trees."""
    size = len(fuel)
    vary = np.clip(1.0 + 0.25 * fractal_noise(random, size, max(6.0, 0.25 * size)), 0.3, 1.6)
    layers = np.zeros((4, size, size))
    for model, values in CANOPY.items():
        layers[:, fuel == model] = np.asarray(values)[:, None]
    cover = np.round(np.clip(layers[0] * vary, 0.0, 0.95), 2)
    height = np.round(layers[1] * np.sqrt(vary), 1)
    base = np.round(np.minimum(layers[2] * vary, height), 1)
    density = np.round(layers[3] * vary, 2)
    return {
        "canopy_cover": cover.astype(np.float32),
        "canopy_height": height.astype(np.float32),
        "canopy_base_height": base.astype(np.float32),
        "canopy_bulk_density": density.astype(np.float32),
    }
