"""The public benchmark: its instances, the plain fire that checks ours, the scorer, and plans that continue."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from flashdqn.envs.fuelbreaks import FuelBreaks, FuelBreaksConfig
from flashdqn.envs.fuelbreaks.experts import Lookahead
from flashdqn.envs.fuelbreaks.fire import BURN, Spread, Weather, fire_behavior, spread_tables
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.landscape import LAYERS, Landscape
from flashdqn.envs.fuelbreaks.scenes import build_scenes

FOLDER = Path(__file__).parents[3] / "benchmarks" / "fuelbreaks_open"
NAMES = ("instances", "plain_fire", "score", "plan_rules")
SOME = (1, 2, 40)


@pytest.fixture(scope="module")
def programs() -> Iterator[dict[str, ModuleType]]:
    """The modules of the benchmark, which lie outside the package."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: __import__(name) for name in NAMES}
    finally:
        sys.path.remove(str(FOLDER))


def test_instances_are_the_generated_landscapes(programs) -> None:
    every = programs["instances"].read_instances()
    assert len(every) == 128
    for i in SOME:
        expected = generate_landscape(770_000 + i, 50)
        for layer in LAYERS:
            np.testing.assert_array_equal(every[i].layers[layer], getattr(expected, layer))
        assert every[i].weather["wind_from"] == 90.0 * (i % 4)
        burns = fire_behavior(expected, Weather(**every[i].weather)).burnable.ravel()
        assert burns[every[i].ignition].all()
        assert burns.sum() >= 500  # breaks on 20 % fit everywhere


def test_the_plain_fire_is_ours_to_the_last_bit(programs) -> None:
    for i in SOME:
        instance = programs["instances"].read_instances()[i]
        plain = programs["plain_fire"].travel_times(instance.layers, instance.weather)
        tables = spread_tables([fire_behavior(Landscape(**instance.layers), Weather(**instance.weather))])
        np.testing.assert_allclose(plain["times"], tables.times[0], rtol=2e-7)
        breaks = np.random.default_rng(i).random(2500) < 0.1
        spread = Spread(tables, 1, 4, 240.0)
        spread.ignition.copy_(torch.from_numpy(instance.ignition[:4]))
        spread.breaks.copy_(torch.from_numpy(breaks))
        spread.command.fill_(BURN)
        spread.launch()
        for f in range(4):
            found = programs["plain_fire"].burn_fire(plain, breaks, int(instance.ignition[f]), 240.0)
            np.testing.assert_array_equal(found, spread.arrival[0, f].numpy())


def test_both_scorers_agree_and_count_what_burns(programs) -> None:
    score, instances = programs["score"], programs["instances"].read_instances()
    few = [instances[3]._replace(ignition=instances[3].ignition[:5])]
    order = np.random.default_rng(0).permutation(2500)[None]
    none = np.full((1, 1), -1)
    given = {name: dict.fromkeys(score.BUDGETS, one) for name, one in (("mine", order), ("nothing", none))}
    found = score.score(given, few, score.burn_by_kernel)
    plain = score.score(given, few, score.burn_plainly)
    kernel = found["mine"]
    for name in given:
        np.testing.assert_array_equal(found[name], plain[name])
    assert found["nothing"][0, 0] > kernel[0, -1]
    assert (np.diff(kernel[0]) <= 0).all()  # more breaks never burn more


def test_a_plan_names_each_cell_once(programs) -> None:
    for order in ([5, 5], [2500]):
        with pytest.raises(SystemExit, match="names each cell once, by a number from 0 to 2499"):
            programs["score"].place_breaks(np.array(order), 0.01, "mine")


def test_plans_of_all_forms_are_read(programs, tmp_path) -> None:
    order = np.arange(1000).reshape(2, 500)
    np.savez(tmp_path / "one.npz", order=order)
    np.savez(tmp_path / "four.npz", **{f"order_{n}": order[:, ::-1] for n in (1, 5, 10, 20)})
    lines = ["0," + ",".join(map(str, range(500))), "1," + ",".join(map(str, range(500, 1000)))]
    (tmp_path / "text.csv").write_text("\n".join(lines))
    read = programs["score"].read_orders
    for share in (0.01, 0.05, 0.1, 0.2):
        np.testing.assert_array_equal(read(tmp_path / "one.npz", 2)[share], order)
        np.testing.assert_array_equal(read(tmp_path / "four.npz", 2)[share], order[:, ::-1])
        np.testing.assert_array_equal(read(tmp_path / "text.csv", 2)[share], order)


def test_a_board_shows_experts_what_the_environment_shows(programs) -> None:
    instance = programs["instances"].read_instances()[7]
    board = programs["plan_rules"].Board(instance)
    board.place(int(board.scenes.places[0, 5]))
    config = FuelBreaksConfig(size=50, landscapes=1, held_out=0, budget=5.0)
    landscape, weather = Landscape(**instance.layers), Weather(**instance.weather)
    env = FuelBreaks(config, 1, scenes=build_scenes([landscape], [weather], 1, torch.device("cpu")))
    env.spread.table.zero_()
    env.spread.breaks.copy_(board.spread.breaks)
    assert torch.equal(Lookahead(board, 3, 4).scores(), Lookahead(env, 3, 4).scores())


def test_planning_continues_where_it_stopped(tmp_path) -> None:
    command = [sys.executable, str(FOLDER / "plan_rules.py"), "--policies", "random", "betweenness-once"]
    command += ["--landscapes", "2", "--out", str(tmp_path)]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "random 1: " in first.stdout
    (tmp_path / "random" / "001.npz").unlink()
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "random 1: " in again.stdout
    assert "random 0: " not in again.stdout
    with np.load(tmp_path / "random" / "001.npz") as plan:
        assert len(set(plan["order"].tolist())) == 500
