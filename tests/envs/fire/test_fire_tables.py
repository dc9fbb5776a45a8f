"""Rays and travel times: exact where there is a formula, and round."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch

from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.envs.fuelbreaks.fire.behavior import FireBehavior, fire_behavior
from flashdqn.envs.fuelbreaks.fire.directions import fire_directions, moves_ended_by_break
from flashdqn.envs.fuelbreaks.fire.fronts import front_facing
from flashdqn.envs.fuelbreaks.fire.rays import ray_slowness
from flashdqn.envs.fuelbreaks.fire.spread import BURN, Spread
from flashdqn.envs.fuelbreaks.fire.tables import spread_tables
from flashdqn.envs.fuelbreaks.fire.weather import Weather
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.landscape import LAYERS, Landscape


def plane(side: int, **layers: float) -> Landscape:
    values = dict.fromkeys(LAYERS, 0.0) | {"fuel_model": 102} | layers
    return Landscape(**{name: np.full((side, side), value) for name, value in values.items()})


CANOPY = {"canopy_cover": 0.7, "canopy_height": 18.0, "canopy_base_height": 0.4, "canopy_bulk_density": 0.15}
CASES = {
    "still": (plane(3), Weather(wind_speed=0.0)),
    "wind": (plane(3), Weather(wind_speed=15.0, wind_from=200.0)),
    "slope": (plane(3, slope=25.0, aspect=70.0), Weather(wind_speed=0.0)),
    "both": (plane(3, slope=25.0, aspect=70.0), Weather(wind_speed=10.0, wind_from=10.0)),
    "crown": (plane(3, fuel_model=10, slope=15.0, aspect=100.0, **CANOPY), Weather(25.0, 250.0, 0.04)),
    "crown at the head": (
        plane(3, fuel_model=165, slope=10.0, aspect=30.0, **CANOPY | {"canopy_base_height": 1.0}),
        Weather(10.0, 250.0, 0.07),
    ),
}


@functools.cache
def front_rates(behavior: FireBehavior) -> np.ndarray:
    return np.array(
        [front_facing(behavior.fronts, azimuth).rate[1, 1] for azimuth in np.arange(0.0, 360.0, 0.2)]
    )


def reaches_by_search(behavior: FireBehavior, azimuths: list[float]) -> np.ndarray:
    """The least of front(n) / (n · ray) over very many n, on the map: the definition."""
    gradient = behavior.fronts.gradient[1, 1]
    compass = np.arange(0.0, 360.0, 0.2)
    rates = front_rates(behavior)
    normals, found = lifted(compass, gradient), []
    for azimuth in azimuths:
        ray = lifted(np.array(azimuth), gradient)
        ahead = normals @ ray > 0.01
        found.append((rates[ahead] / (normals[ahead] @ ray)).min() * np.hypot(ray[0], ray[1]))
    return np.array(found)


def lifted(azimuth: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Unit vectors in the plane of the slope."""
    east, north = np.sin(np.radians(azimuth)), np.cos(np.radians(azimuth))
    vector = np.stack((east, north, east * gradient[0] + north * gradient[1]), axis=-1)
    return vector / np.linalg.norm(vector, axis=-1, keepdims=True)


def nearest(azimuth: float, others: list[float]) -> list[float]:
    """Azimuths to which this one is the nearest of all."""
    fine = np.arange(azimuth - 20.0, azimuth + 20.0, 0.5)
    away = np.abs((fine[:, None] - np.array(others) + 180.0) % 360.0 - 180.0)
    return fine[np.array(others)[away.argmin(1)] == azimuth].tolist()


@pytest.mark.parametrize("name", CASES)
def test_rays_are_the_shape_that_fronts_leave(name: str) -> None:
    behavior = fire_behavior(*CASES[name])
    compass = fire_directions(16)
    ours = 1.0 / ray_slowness([behavior.fronts], compass)[0, 1, 1]
    if name != "crown at the head":
        naive = reaches_by_search(behavior, [direction.azimuth for direction in compass])
        factor = ours / naive
        # All rays are faster by one factor, which makes up for the corners that the polygon lacks.
        np.testing.assert_allclose(factor, factor[0], rtol=2e-3)
        assert 1.0 <= factor[0] < 1.6
    else:
        for k, direction in enumerate(compass):
            sector = reaches_by_search(behavior, nearest(direction.azimuth, [d.azimuth for d in compass]))
            assert ours[k] == pytest.approx(np.sqrt((sector**2).mean()), rel=0.05)
        head = behavior.fronts.surface.intensity[1, 1]
        assert behavior.fronts.critical[1, 1] < head
        assert front_facing(behavior.fronts, behavior.direction[1, 1] + 180.0).crown[1, 1] == 0


def test_without_wind_a_fire_is_a_disc_of_the_right_area() -> None:
    behavior = fire_behavior(plane(61, fuel_model=1), Weather(wind_speed=0.0))
    rate = float(behavior.fronts.surface.rate[0, 0])
    minutes = 20 * 30.0 / rate
    spread = Spread(spread_tables([behavior]), 1, 1, minutes)
    spread.ignition.fill_(30 * 61 + 30)
    spread.command.fill_(BURN)
    spread.launch()
    # Half a cell around the ignition burns at once.
    assert spread.burned.item() == pytest.approx(math.pi * 20.5**2, rel=0.02)


@pytest.mark.parametrize("count", [8, 16, 24, 32])
def test_moves_pass_their_cells_and_lead_back(count: int) -> None:
    compass = fire_directions(count)
    assert len({direction.offset for direction in compass}) == count
    for k, direction in enumerate(compass):
        back = compass[k ^ 1]
        assert back.offset == (-direction.offset[0], -direction.offset[1])
        assert sum(share for _, share in direction.passed) == pytest.approx(1.0)
        cells = {cell for cell, _ in direction.passed} | set(direction.touched)
        there = {(r - direction.offset[0], c - direction.offset[1]) for r, c in cells}
        assert there == {cell for cell, _ in back.passed} | set(back.touched)
    assert len(moves_ended_by_break(count)) == sum(len(d.passed) + len(d.touched) for d in compass)


def test_a_knights_move_takes_the_times_of_the_cells_that_it_passes() -> None:
    fuels = np.full((5, 5), 102)
    fuels[2, 3] = 1
    layers = {name: np.zeros((5, 5)) for name in LAYERS} | {"fuel_model": fuels}
    behavior = fire_behavior(Landscape(**layers), Weather(wind_speed=0.0))
    compass = fire_directions(16)
    k = [direction.offset for direction in compass].index((-1, 2))
    slow = ray_slowness([behavior.fronts], compass)[0, ..., k]
    times = spread_tables([behavior]).times[0].numpy()
    # From the middle (2, 2) over (2, 3), which differs, and (1, 3) to (1, 4).
    expected = 30.0 * math.sqrt(5) / 4 * (slow[2, 2] + slow[2, 3] + slow[1, 3] + slow[1, 4])
    assert times[2 * 5 + 2, k] == pytest.approx(expected, rel=1e-5)


def test_tables_of_many_landscapes_are_those_of_each() -> None:
    # More than fit at once.
    behaviors = [fire_behavior(generate_landscape(seed, 50), Weather()) for seed in range(18)]
    together = spread_tables(behaviors)
    for i in (0, 7, 17):
        alone = spread_tables([behaviors[i]])
        assert torch.equal(together.times[i], alone.times[0])
        assert torch.equal(together.open[i], alone.open[0])
        assert torch.equal(together.burnable[i], torch.from_numpy(behaviors[i].burnable.copy()).flatten())
    assert together.nbytes == 18 * 2500 * (2 * 16 * 4 + 8 + 1 + 4)


def test_nothing_leads_out_of_the_map_or_into_water() -> None:
    behavior = fire_behavior(generate_landscape(3, 20), Weather())
    tables = spread_tables([behavior])
    for cell in range(400):
        for k, direction in enumerate(fire_directions(16)):
            row, column = cell // 20 + direction.offset[0], cell % 20 + direction.offset[1]
            if tables.open[0, cell] >> k & 1:
                assert behavior.burnable[row, column]
                assert behavior.burnable[cell // 20, cell % 20]
                assert 0.01 <= tables.times[0, cell, k] < math.inf
            else:
                assert tables.times[0, cell, k] == math.inf


def test_wrong_inputs_are_refused() -> None:
    small, large = (fire_behavior(generate_landscape(1, size), Weather()) for size in (10, 12))
    with pytest.raises(EnvError, match="must have one shape; these have \\[\\(10, 10\\), \\(12, 12\\)\\]"):
        spread_tables([small, large])
    with pytest.raises(EnvError, match="at least one landscape"):
        spread_tables([])
    with pytest.raises(ConfigError, match="8, 16, 24 or 32 directions; 12 were asked for"):
        spread_tables([small], count=12)
