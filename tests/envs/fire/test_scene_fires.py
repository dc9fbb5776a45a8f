"""The scenes of a training, worked out by a kernel, against whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.config import parse_weather
from flashdqn.envs.fuelbreaks.fire import DRY, EXTREME, MILD, Weather, fire_behavior, spread_tables
from flashdqn.envs.fuelbreaks.fire.scene_fires import SceneFires
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.generate_stakes import generate_stakes
from flashdqn.envs.fuelbreaks.landscape import LAYERS, Landscape
from flashdqn.envs.fuelbreaks.observation import HOTTEST, intensity_planes, layer_planes, scene_planes
from flashdqn.envs.fuelbreaks.scenes import build_scenes

CPU = torch.device("cpu")
WET = Weather(35.0, 200.0, 0.2, 0.25, 0.3, 1.4, 1.5)  # some fuels do not burn in it
WEATHERS = [MILD, DRY, EXTREME, Weather(0.0), WET]
#: NumPy and the kernel may round a power differently, which float32 shows once in many millions of numbers.
CLOSE = 3e-7


def burn_scenes(landscapes: list[Landscape], weathers: list[Weather]) -> SceneFires:
    fires = SceneFires(len(landscapes), landscapes[0].shape, weathers, HOTTEST)
    for k, landscape in enumerate(landscapes):
        fires.burn(k, landscape)
    return fires


def check_scenes(landscapes: list[Landscape], weathers: list[Weather]) -> SceneFires:
    fires = burn_scenes(landscapes, weathers)
    behaviors = [fire_behavior(land, weather) for land in landscapes for weather in weathers]
    tables = spread_tables(behaviors)
    np.testing.assert_array_equal(fires.burnable, tables.burnable)
    np.testing.assert_array_equal(fires.open, tables.open)
    np.testing.assert_allclose(fires.times, tables.times, rtol=CLOSE)
    heat = np.stack([intensity_planes(behavior) for behavior in behaviors])
    np.testing.assert_allclose(fires.planes[:, :4], heat.reshape(len(heat), 4, -1), rtol=CLOSE, atol=1e-12)
    return fires


@pytest.mark.parametrize("seed", [0, 5, 10])
def test_scenes_are_those_of_whole_arrays(seed: int) -> None:
    """The five landscapes of a seed have all kinds of country, and so all kinds of fire."""
    landscapes = [generate_landscape(seed + k, 24) for k in range(5)]
    fires = check_scenes(landscapes, WEATHERS)
    behaviors = [fire_behavior(land, weather) for land in landscapes for weather in WEATHERS]
    assert {0, 1, 2} <= {int(kind) for behavior in behaviors for kind in np.unique(behavior.crown)}
    assert 0.2 < np.isfinite(fires.times).mean() < 1.0


def test_times_are_equal_to_the_last_bit() -> None:
    landscapes = [generate_landscape(seed, 30) for seed in range(4)]
    tables = spread_tables([fire_behavior(land, weather) for land in landscapes for weather in WEATHERS])
    np.testing.assert_array_equal(burn_scenes(landscapes, WEATHERS).times, tables.times)


def draw_landscape(random: np.random.Generator, shape: tuple[int, int]) -> Landscape:
    """Layers without any relation to each other."""
    fuels = random.choice([1, 4, 10, 91, 98, 102, 122, 145, 165, 181, 188, 204], size=shape)
    canopied = random.random(shape) < 0.7
    layers: dict[str, Any] = {name: np.zeros(shape) for name in LAYERS} | {"fuel_model": fuels}
    layers["slope"] = random.choice([0.0, 3.0, 20.0, 60.0], size=shape)
    layers["aspect"] = random.integers(0, 360, size=shape)
    layers["canopy_cover"] = np.where(canopied, random.random(shape), 0.0)
    layers["canopy_height"] = np.where(canopied, random.uniform(0.5, 30.0, shape), 0.0)
    layers["canopy_base_height"] = np.where(canopied, random.uniform(0.0, 4.0, shape), 0.0)
    layers["canopy_bulk_density"] = np.where(canopied, random.uniform(0.0, 0.4, shape), 0.0)
    return Landscape(**layers, cell_size=float(random.choice([10.0, 30.0, 90.0])))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 9),
    st.integers(1, 9),
    st.floats(0.0, 90.0),
    st.floats(0.0, 360.0),
    st.floats(0.01, 0.4),
)
def test_any_landscape_in_any_weather(
    seed: int, rows: int, columns: int, wind: float, wind_from: float, moisture: float
) -> None:
    random = np.random.default_rng(seed)
    landscapes = [draw_landscape(random, (rows, columns)) for _ in range(2)]
    check_scenes(landscapes, [DRY, Weather(wind, wind_from, dead_1h=moisture)])


def test_built_scenes_hold_every_map_of_their_landscape_and_weather() -> None:
    landscapes = [generate_landscape(seed, size=12) for seed in range(8)]
    stakes = [generate_stakes(seed, land) for seed, land in enumerate(landscapes)]
    weathers = [parse_weather(text) for text in ("dry@90", "extreme@225/60", "mild")]
    scenes = build_scenes(landscapes, weathers, 6, CPU, stakes)
    layers, planes, *_ = scenes.planes.tables(CPU)
    for s in range(len(scenes)):
        land, given = landscapes[s // 3], stakes[s // 3]
        behavior = fire_behavior(land, weathers[s % 3])
        burnable, count = behavior.burnable.reshape(-1), int(scenes.counts[s])
        forbidden = np.zeros(144, bool) if given.forbidden is None else given.forbidden.reshape(-1)
        np.testing.assert_array_equal(scenes.spread.times[s], spread_tables([behavior]).times[0])
        np.testing.assert_array_equal(scenes.burnable[s], burnable)
        np.testing.assert_array_equal(scenes.placeable[s], burnable & ~forbidden)
        np.testing.assert_array_equal(scenes.places[s, :count], given.ignition_cells(burnable))
        np.testing.assert_array_equal(scenes.spread.worth[s], given.worth(land.shape))
        np.testing.assert_array_equal(layers[s // 3], layer_planes(land, given))
        np.testing.assert_allclose(planes[s], scene_planes(behavior, given), rtol=CLOSE, atol=1e-12)
        assert int(scenes.worth[s]) == given.worth(land.shape).sum()
    assert any(given.forbidden is not None for given in stakes)
    assert any(given.ignition is not None for given in stakes)


def test_landscapes_of_two_shapes_are_refused() -> None:
    landscapes = [generate_landscape(9, size=size) for size in (12, 13)]
    with pytest.raises(EnvError, match=r"must have one shape; these have \[\(12, 12\), \(13, 13\)\]"):
        build_scenes(landscapes, [DRY], 1, CPU)
