"""The comparison with the published result: its instances, its statistics, and DPV as one would write it first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from flashdqn.envs.fuelbreaks import FuelBreaks, FuelBreaksConfig
from flashdqn.envs.fuelbreaks.experts.dpv import DownstreamValue

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def program() -> Iterator[ModuleType]:
    sys.path.insert(0, str(FOLDER))
    try:
        yield __import__("fuelbreaks_published")
    finally:
        sys.path.remove(str(FOLDER))


def test_fires_start_within_nine_cells_of_the_middle(program) -> None:
    zone = program.find_zone()
    assert len(zone) == 19 * 19
    assert (zone.min(), zone.max()) == (10 * 40 + 10, 28 * 40 + 28)
    scenes = program.build_zone_scenes(program.make_landscape("heterogeneous"))
    count = int(scenes.counts[0])
    assert 100 < count < 361
    assert set(scenes.places[0, :count].tolist()) <= set(zone.tolist())
    assert scenes.burnable[0, scenes.places[0, :count].long()].all()


def test_percent_better_and_its_interval(program) -> None:
    theirs = np.array([10.0, 20.0, 30.0, 40.0])
    assert program.percent_better(theirs * 0.75, theirs) == (pytest.approx(25.0), pytest.approx(0.0))
    random = np.random.default_rng(0)
    inside = 0
    for _ in range(300):
        theirs = random.gamma(2.0, 10.0, 400)
        mine = theirs * random.uniform(0.4, 1.0, 400)  # 30 % better on average
        mean, half = program.percent_better(mine, theirs)
        inside += abs(mean - 30.0) <= half
    assert 0.90 < inside / 300 < 0.99


def test_downstream_value_is_that_of_walking_down_every_tree(program) -> None:
    scenes = program.build_zone_scenes(program.make_landscape("heterogeneous"))
    config = FuelBreaksConfig(size=40, landscapes=1, held_out=0, fires=1, duration=240.0, budget=80.0)
    env = FuelBreaks(config, 1, scenes=scenes)
    env.begin(torch.zeros(1, dtype=torch.int32), scenes.places[:, :1], 80)
    judge = DownstreamValue(env, 3, 6)
    found = judge.scores()[0].tolist()
    expected = [0] * env.num_actions
    step = judge.spread.step.tolist()
    for fire in range(6):
        arrival, parent = judge.spread.arrival[0, fire], judge.spread.parent[0, fire].tolist()
        for cell in torch.nonzero(arrival.isfinite()).flatten().tolist():
            at = cell
            expected[at] += 1
            while parent[at] != -1:
                at -= step[parent[at]]
                expected[at] += 1
    assert found == expected
    assert set(judge.spread.ignition[0].tolist()) <= set(program.find_zone().tolist())


def test_the_folder_for_cell2fire_has_the_landscape(program, tmp_path) -> None:
    landscape = program.make_landscape("heterogeneous")
    program.write_cell2fire_folder(tmp_path / "hills", landscape, 6)
    fuels = np.loadtxt(tmp_path / "hills" / "fuels.asc", skiprows=6)
    np.testing.assert_array_equal(fuels, landscape.fuel_model)
    elevation = np.loadtxt(tmp_path / "hills" / "elevation.asc", skiprows=6)
    np.testing.assert_allclose(elevation, landscape.elevation, rtol=1e-4)
    assert len((tmp_path / "hills" / "Weather.csv").read_text().split("\n")) == 6 + 2
    assert (tmp_path / "hills" / "Ignitions.csv").read_text().split()[1] == f"1,{19 * 40 + 19 + 1}"


def test_a_missing_fire_of_cell2fire_is_noticed(program, tmp_path) -> None:
    fake = tmp_path / "fake"
    fake.write_text("#!/bin/sh\necho 'Simulation 1 Results:'; echo '  Burnt   12  1 %'\n")
    fake.chmod(0o755)
    found = program.judge_by_cell2fire(fake, tmp_path, np.array([3]), 1)
    assert found.tolist() == [12.0]
    with pytest.raises(SystemExit, match="should have burned 2 fires and burned 1"):
        program.judge_by_cell2fire(fake, tmp_path, np.array([3]), 2)
