"""Demonstrations: into the ring through the collector, learned from before the clock, counted apart, resumed
exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import flashdqn
from flashdqn.compute.seeds import purpose_seed
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.errors import ConfigError
from flashdqn.envs import build_env
from flashdqn.envs.fuelbreaks import FuelBreaks, FuelBreaksConfig
from flashdqn.envs.fuelbreaks.experts import Betweenness, DomiRank, Expert, Lookahead
from flashdqn.envs.fuelbreaks.experts.domirank import build_spread_graph, domirank_scores, sigma_bound
from flashdqn.envs.fuelbreaks.fire.spread import BURN, Spread
from flashdqn.envs.tasks import find_task
from flashdqn.runs.records import read_record
from flashdqn.training import demonstrate
from flashdqn.training.assemble import assemble_parts
from flashdqn.training.compile_games import wants_host
from flashdqn.training.engine import Engine
from flashdqn.training.host_demonstrations import plays_on_host
from flashdqn.training.progress import Amount

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
    "learn": {"starts": 40, "batch_size": 8, "lr_over": 200},
    "explore": {"over": 200},
    "replay": {"capacity": 1000, "beta_over": 200},
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
    assert again.summary["demonstrations"] == read_record(half.path / "demos.json")


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
        ({"source": "random", "episodes": 1, "keep": 5}, "an expert to learn from"),
        ({"keep": 5}, "need demos.source"),
        ({"source": "random", "episodes": 1, "share": 1.0}, "demos.share"),
        ({"source": "random", "episodes": 1, "margin": -1.0}, "demos.margin"),
    ):
        with pytest.raises(ConfigError, match=message):
            flashdqn.train("snake", steps=1, progress=False, demos=demos)
    with pytest.raises(ConfigError, match="no replay to fill"):
        flashdqn.train("snake", algo="pqn", steps=1, progress=False, demos=DEMOS)


KEPT = DEMOS | {"keep": 30, "share": 0.5, "margin": 0.5}


@pytest.mark.parametrize("algo", ["double", "rainbow"])
def test_kept_demonstrations_teach_and_are_resumed_exactly(algo: str, tmp_path: Path) -> None:
    settings = TINY | {"demos": KEPT, "algo": algo, "eval": {"every": 100, "episodes": 4}}
    whole = flashdqn.train("fuelbreaks-small", steps=200, out=str(tmp_path / "a"), **settings)
    half = flashdqn.train("fuelbreaks-small", steps=100, out=str(tmp_path / "b"), **settings)
    again = flashdqn.train(resume=half.path, steps=200, progress=False)
    assert again.summary["weights"] == whole.summary["weights"]
    rows = (whole.path / "evaluations.csv").read_text().splitlines()
    assert rows[1].startswith("0,"), "what was learned from the expert alone is judged too"
    plain = TINY | {"demos": DEMOS, "algo": algo}
    other = flashdqn.train("fuelbreaks-small", steps=200, out=str(tmp_path / "c"), **plain)
    assert other.summary["weights"] != whole.summary["weights"]


def test_a_margin_teaches_the_experts_choice(tmp_path: Path) -> None:
    """Nothing but the margin: rewards say nothing about who is right in one state of one game."""
    settings: dict[str, Any] = {
        "device": "cpu",
        "envs": 8,
        "train_ratio": 0.0,
        "progress": False,
        "env": {"min_dcs": 2, "max_dcs": 3, "min_bundles": 1, "max_bundles": 1},
        "network": {"hidden": [64]},
        "learn": {"starts": 100, "batch_size": 64, "lr": 3e-3, "gamma": 0.0},
        "replay": {"capacity": 20_000},
        "eval": {"every": 0, "episodes": 4},
        "log": {"tensorboard": False, "every": 1000, "checkpoint_every": 1000},
        "runtime": {"mode": "eager", "threads": 1},
    }
    demos = {"source": "makes-room", "episodes": 16, "chance": 0.2, "pretrain_steps": 300, "keep": 10_000}
    agreed = {}
    for weight in (0.0, 1.0):
        out = str(tmp_path / str(weight))
        taught = demos | {"share": 0.5, "margin": 0.2, "margin_weight": weight}
        run = flashdqn.train("sfc", steps=200, out=out, demos=taught, **settings)
        agreed[weight] = agreement(run.path, "makes-room")
    assert agreed[1.0] > 0.8
    assert agreed[1.0] > agreed[0.0] + 0.1


def agreement(run: Path, expert: str) -> float:
    """How often an agent does what an expert would do, while the expert plays."""
    agent = flashdqn.load(run, "cpu")
    env = flashdqn.make_env("sfc", 8, "cpu", min_dcs=2, max_dcs=3, min_bundles=1, max_bundles=1)
    obs, choose, same = env.reset(5), find_task("sfc").experts[expert](env, 0), 0.0
    steps = 300
    for _ in range(steps):
        wish = choose().clone()
        same += float((agent.q(obs).masked_fill(~env.mask, -torch.inf).argmax(1) == wish).float().mean())
        obs = env.step(wish).obs
    return same / steps


def test_compiled_updates_learn_from_kept_demonstrations_as_eager_ones_do(tmp_path: Path) -> None:
    values = []
    obs = FuelBreaks(ENV, 3).reset(9)
    for mode in ("eager", "compile"):
        settings = TINY | {"demos": KEPT, "runtime": {"mode": mode, "threads": 1}}
        run = flashdqn.train("fuelbreaks-small", steps=60, out=str(tmp_path / mode), **settings)
        assert run.summary["mode"] == mode
        values.append(flashdqn.load(run.path, "cpu").q(obs))
    torch.testing.assert_close(values[0], values[1], rtol=1e-3, atol=1e-3)


def test_one_flag_turns_off_what_a_preset_shows(tmp_path: Path) -> None:
    config = flashdqn.config.settings.apply_settings(
        flashdqn.presets.base_config("sfc"), {"demos.source": "none"}
    )
    assert config.demos.kept == 0
    assert not config.demos.asked_for


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
    ranks = domirank_scores(star, sigma)
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
    matrix = build_spread_graph(env.scenes.spread, scene, breaks)
    assert not matrix[breaks].any()
    assert not matrix[:, breaks].any()
    open_before = int(build_spread_graph(env.scenes.spread, scene).count_nonzero())
    bits = sum(int(number).bit_count() for number in env.scenes.spread.open[scene].tolist())
    assert open_before == bits
    assert int(matrix.count_nonzero()) < bits


# ---- on the CPU, for a learner on a GPU


@pytest.mark.parametrize("preset", ["fuelbreaks-small", "sfc-shown"])
def test_what_is_played_on_the_host_is_what_the_device_would_have_played(
    preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the device is the CPU too: both draw the same random numbers, so nothing at all may differ."""
    settings: dict[str, Any] = TINY | {"demos": KEPT}
    if preset == "sfc-shown":
        expert = {"demos": KEPT | {"source": "makes-room", "episodes": 2}, "env": {"max_dcs": 3}}
        settings = {k: v for k, v in (TINY | expert).items() if k not in ("network", "progress")}
    settings = {key: value for key, value in settings.items() if key != "progress"}
    config = apply_settings(base_config(preset), settings | {"steps": 100})
    states = []
    for host in (False, True):
        monkeypatch.setattr(demonstrate, "plays_on_host", lambda *_, host=host: host)
        parts = assemble_parts(config, build_env(config.env, config.envs, torch.device("cpu")))
        parts.collector.start(purpose_seed(config.seed, "envs"))
        seen: list[int] = []

        def watch(what: str, of: Amount, seen: list[int] = seen) -> Any:
            return lambda: seen.append(of.done()) is not None

        choices = demonstrate.let_expert_play(config, parts, Engine(config, parts), watch)
        assert choices is not None
        assert 0 < seen[-1] + 1 <= config.demos.episodes + 1
        counts = torch.tensor(
            [parts.counts.transitions, parts.counts.episodes, *parts.counts.totals.tolist()]
        )
        state = {k: x.clone() for k, x in parts.state_dict().items() if not k.startswith("generator.explore")}
        states.append(state | {"choices": choices, "counts": counts, "obs": parts.collector.obs.clone()})
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name


def test_the_host_plays_only_for_gpus_and_only_what_it_can() -> None:
    config = base_config("sfc-shown")
    assert wants_host(config)
    assert not wants_host(base_config("snake"))  # nobody shows anything
    assert not wants_host(apply_settings(config, {"envs": 4096}))
    small = apply_settings(config, {"envs": 4, "replay.capacity": 1000, "demos.keep": 10})
    parts = assemble_parts(small, build_env(small.env, small.envs, torch.device("cpu")))
    assert not plays_on_host(small, parts)
    parts.learner.device = torch.device("cuda", 0)
    assert plays_on_host(small, parts)
    parts.collector.normalizer = object()  # type: ignore[assignment]
    assert not plays_on_host(small, parts), "what it has seen would stay on the host"
