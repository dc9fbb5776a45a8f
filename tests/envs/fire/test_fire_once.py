"""Fires on a landscape that is used once, against tables of the whole landscape."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from flashdqn.compute.kernels import Kernel
from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.fire import (
    BURN,
    DRY,
    EXTREME,
    MILD,
    Spread,
    Weather,
    fire_behavior,
    spread_tables,
)
from flashdqn.envs.fuelbreaks.fire.beds import BED, SCRATCH, fuel_table, list_weather, work_out_bed
from flashdqn.envs.fuelbreaks.fire.fuels import CLASSES, burnable_fuels
from flashdqn.envs.fuelbreaks.fire.once import burn_once
from flashdqn.envs.fuelbreaks.fire.surface import fuel_bed
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.landscape import LAYERS, Landscape

WEATHERS = (MILD, DRY, EXTREME, Weather(0.0), Weather(35.0, 200.0, 0.2, 0.25, 0.3, 1.4, 1.5))


def burn_with_tables(landscape: Landscape, weather: Weather, ignition, duration, breaks, directions=16):
    spread = Spread(
        spread_tables([fire_behavior(landscape, weather)], count=directions), 1, len(ignition), duration
    )
    spread.ignition.copy_(torch.tensor([ignition]))
    spread.breaks.copy_(torch.from_numpy(breaks.reshape(1, -1)))
    spread.command.fill_(BURN)
    spread.launch()
    return spread.arrival.numpy().reshape(-1, *landscape.shape)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("directions", [16])
def test_times_of_arrival_equal_those_of_tables_to_the_last_bit(seed: int, directions: int) -> None:
    check_one(seed, directions)


@pytest.mark.parametrize("directions", [8, 24, 32])
def test_other_numbers_of_directions(directions: int) -> None:
    check_one(3, directions)


def check_one(seed: int, directions: int) -> None:
    random = np.random.default_rng(seed)
    landscape, weather = generate_landscape(seed, 24 + seed), WEATHERS[seed % 3]
    breaks = random.random(landscape.shape) < 0.08
    ignition = random.integers(0, breaks.size, 3).tolist()
    duration = float(random.choice([60.0, 240.0, 900.0]))
    expected = burn_with_tables(landscape, weather, ignition, duration, breaks, directions)
    found = burn_once(landscape, weather, ignition, duration, breaks, directions)
    np.testing.assert_array_equal(found, expected)
    assert np.isfinite(found).sum() > 3


@pytest.mark.parametrize("weather", WEATHERS)
def test_beds_are_those_of_the_arrays(weather: Weather) -> None:
    table = fuel_table()
    count = len(table.columns)
    beds = torch.zeros(count, BED, dtype=torch.float64)
    scratch = torch.zeros(SCRATCH, CLASSES, dtype=torch.float64)
    numbers = torch.tensor(list_weather(weather), dtype=torch.float64)
    Kernel(work_out_bed).bind(count, torch.from_numpy(table.columns), numbers, scratch, beds)()
    expected = np.stack(fuel_bed(burnable_fuels(), weather), axis=1)
    np.testing.assert_allclose(beds.numpy()[:, : expected.shape[1]], expected, rtol=1e-12, atol=1e-300)


def test_flat_ground_without_wind_burns_round() -> None:
    layers = {name: np.zeros((31, 31)) for name in LAYERS} | {"fuel_model": np.full((31, 31), 1)}
    found = burn_once(Landscape(**layers), Weather(0.0), [15 * 31 + 15], 600.0)[0]
    np.testing.assert_allclose(found, found.T, rtol=1e-2)  # BEHAVE's ellipse of no wind is almost a circle
    assert found[15, 15] == 0.0


def test_a_fire_in_a_break_or_on_water_burns_nothing() -> None:
    layers = {name: np.zeros((6, 6)) for name in LAYERS} | {"fuel_model": np.full((6, 6), 1)}
    layers["fuel_model"][2, 2] = 98
    breaks = np.zeros((6, 6), dtype=bool)
    breaks[4, 4] = True
    found = burn_once(Landscape(**layers), DRY, [14, 28, 0], 600.0, breaks)
    assert not np.isfinite(found[:2]).any()
    assert np.isfinite(found[2]).sum() == 34


def test_threads_do_not_share_a_workspace() -> None:
    lands = [generate_landscape(seed, 30) for seed in range(8)]
    alone = [burn_once(land, DRY, [435], 400.0) for land in lands]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda land: burn_once(land, DRY, [435], 400.0), lands * 4))
    for found, expected in zip(together, alone * 4, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_impossible_fires_are_one_sentence() -> None:
    land = generate_landscape(1, 8)
    for ignition in ([], [-1], [64]):
        with pytest.raises(EnvError, match="starts in a cell from 0 to 63"):
            burn_once(land, DRY, ignition, 60.0)
    for duration in (0.0, math.nan, 1e9):
        with pytest.raises(EnvError, match="at most 10080 minutes"):
            burn_once(land, DRY, [1], duration)
