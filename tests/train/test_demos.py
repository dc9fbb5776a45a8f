"""Demonstrations: into the ring through the collector, learned from before the clock, counted apart, resumed
exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import flashdqn
from flashdqn.envs.fuelbreaks import FuelBreaks, FuelBreaksConfig
from flashdqn.envs.fuelbreaks.experts import Betweenness, DomiRank, Expert, Lookahead
from flashdqn.envs.fuelbreaks.experts.domirank import domirank, sigma_bound
from flashdqn.envs.fuelbreaks.experts.graph import speeds
from flashdqn.envs.fuelbreaks.fire.spread import BURN, Spread
from flashdqn.errors import ConfigError

ENV = FuelBreaksConfig(size=8, landscapes=3, held_out=1, weathers=("dry",), budget=5, fires=4, duration=120)
TINY: dict[str, Any] = {
    "device": "cpu",
    "envs": 4,
    "train_ratio": 0.25,
    "progress": False,
    "env": {
        "size": 8,
        "landscapes": 3,
        "held_out": 1,
        "weathers": ["dry"],
        "budget": 5.0,
        "least_budget": 0.0,
    }
    | {"fires": 4, "duration": 120.0},
    "network": {"channels": [4], "hidden": [8], "attention": 1},
    "learn": {"starts": 40, "batch_size": 8},
    "replay": {"capacity": 1000},
    "eval": {"every": 0, "episodes": 4},
    "log": {"tensorboard": False, "every": 100, "checkpoint_every": 100},
    "runtime": {"mode": "eager", "threads": 1},
}
DEMOS = {"source": "lookahead", "episodes": 6, "chance": 0.25, "pretrain_steps": 7}


def test_demonstrations_are_counted_apart_and_resumed_exactly(tmp_path: Path) -> None:
    settings = TINY | {"demos": DEMOS}
    whole = flashdqn.train("fuelbreaks-small", steps=200, out=str(tmp_path / "a"), **settings)
    shown = whole.summary["demonstrations"]
    assert shown["source"] == "lookahead"
    assert shown["episodes"] == 8, "boards end together: the first number of episodes that is enough"
    assert shown["transitions"] == 8 * 5
    assert shown["updates"] == 7
    assert whole.summary["steps"] == 200
    assert whole.summary["updates"] == (200 - 40) // 4
    half = flashdqn.train("fuelbreaks-small", steps=100, out=str(tmp_path / "b"), **settings)
    again = flashdqn.train(resume=half.path, steps=200, progress=False)
    assert again.summary["weights"] == whole.summary["weights"]
    assert again.summary["demonstrations"] == json.loads((half.path / "demos.json").read_text())


def test_chance_can_show_any_task_and_others_say_whom_they_have(tmp_path: Path) -> None:
    tiny = {key: TINY[key] for key in ("device", "envs", "train_ratio", "progress", "learn", "eval", "log")}
    demos = {"source": "random", "episodes": 5}
    run = flashdqn.train("snake", steps=200, out=str(tmp_path), demos=demos, replay={"capacity": 999}, **tiny)
    assert run.summary["demonstrations"]["episodes"] >= 5
    with pytest.raises(ConfigError, match=r"snake has no expert 'lookahead' for demos.source; it has random"):
        flashdqn.train("snake", steps=200, demos=DEMOS, **tiny)


def test_settings_that_make_no_sense_are_refused() -> None:
    for demos, message in (
        ({"source": "random"}, "needs demos.episodes above 0"),
        ({"pretrain_steps": 5}, "need demos.source"),
        ({"source": "random", "episodes": 1, "chance": 2.0}, "demos.chance"),
    ):
        with pytest.raises(ConfigError, match=message):
            flashdqn.train("snake", steps=1, progress=False, demos=demos)
    with pytest.raises(ConfigError, match="no replay to fill"):
        flashdqn.train("snake", algo="pqn", steps=1, progress=False, demos=DEMOS)


def naive_savings(env: FuelBreaks, board: int, ignitions: torch.Tensor) -> list[int]:
    """What each break would save, with every fire burned anew for every cell."""
    fire = Spread(env.scenes.spread, 1, ignitions.shape[0], env.config.duration)
    fire.table.copy_(env.spread.table[board : board + 1])
    fire.ignition.copy_(ignitions[None])

    def burned(extra: int | None) -> int:
        fire.breaks.copy_(env.spread.breaks[board : board + 1])
        if extra is not None:
            fire.breaks[0, extra] = True
        fire.command.fill_(BURN)
        fire.launch()
        return int(fire.burned.sum())

    before = burned(None)
    return [before - burned(c) if env.mask[board, c] else 0 for c in range(env.num_actions)]


def test_lookahead_knows_what_each_break_would_save() -> None:
    env = FuelBreaks(ENV, 2)
    env.step(env.mask.to(torch.uint8).argmax(1))
    judge = Lookahead(env, seed=1, fires=5)
    scores = judge.scores()
    for board in range(2):
        assert scores[board].tolist() == naive_savings(env, board, judge.spread.ignition[board])
    chosen = Expert(env, judge)()
    assert env.mask.gather(1, chosen[:, None]).all()


def test_betweenness_counts_the_cells_behind() -> None:
    env = FuelBreaks(ENV, 2)
    env.step(env.mask.to(torch.uint8).argmax(1))
    judge = Betweenness(env)
    scores, fire = judge.scores(), judge.spread
    for board in range(2):
        expected = [0] * 64
        for ignition in range(64):
            parent = fire.parent[board, ignition].tolist()
            for cell in range(64):
                at = cell  # walk back to where the fire began, and count every cell on the way
                while parent[at] != -1:
                    at -= int(fire.step[parent[at]])
                    if parent[at] != -1:
                        expected[at] += 1
        assert scores[board].tolist() == expected


def test_domirank_is_the_published_formula() -> None:
    """A star: by symmetry Γ of the hub h and of its n leaves l satisfy h = σ n (1 − l), l = σ (1 − h)."""
    n = 5
    star = torch.zeros((n + 1, n + 1), dtype=torch.float64)
    star[0, 1:] = star[1:, 0] = 1.0
    assert sigma_bound(star) == pytest.approx(1 / n**0.5)
    sigma = 0.3
    ranks = domirank(star, sigma)
    leaf = sigma * (1 - sigma * n) / (1 - sigma**2 * n)
    hub = sigma * n * (1 - leaf)
    torch.testing.assert_close(ranks, torch.tensor([hub] + [leaf] * n, dtype=torch.float64))


def test_domirank_ranks_the_graph_of_fire_spread() -> None:
    env = FuelBreaks(ENV, 3)
    scores = DomiRank(env).scores()
    assert scores.shape == (3, 64)
    scene = int(env.spread.table[0])
    assert not scores[0][~env.scenes.burnable[scene]].any(), "nothing dominates where nothing burns"
    env.step(scores.masked_fill(~env.mask, -torch.inf).argmax(1))
    assert not torch.equal(DomiRank(env, adaptive=True).scores(), scores)


def test_the_graph_has_the_moves_that_the_fire_has() -> None:
    env = FuelBreaks(ENV, 1)
    env.step(env.mask.to(torch.uint8).argmax(1))
    scene, breaks = int(env.spread.table[0]), env.spread.breaks[0]
    matrix = speeds(env.scenes.spread, scene, breaks)
    assert not matrix[breaks].any()
    assert not matrix[:, breaks].any()
    open_before = int(speeds(env.scenes.spread, scene).count_nonzero())
    bits = sum(int(number).bit_count() for number in env.scenes.spread.open[scene].tolist())
    assert open_before == bits
    assert int(matrix.count_nonzero()) < bits
