"""Several iterations in one call on the CPU: the same training as one by one, bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import tiny_config
from flashdqn.config import Config
from flashdqn.config.settings import apply_settings
from flashdqn.core.errors import BadNumbersError, DivergedError
from flashdqn.envs import build_env
from flashdqn.runs.folder import RunFolder
from flashdqn.runs.tables import read_metrics
from flashdqn.training.assemble import assemble_parts
from flashdqn.training.autotune import prepare_engine
from flashdqn.training.backends.cpu import several
from flashdqn.training.backends.cpu.several import plan_slots
from flashdqn.training.budget import Limits
from flashdqn.training.engine import all_group_sizes, group_size
from flashdqn.training.loop import Loop
from flashdqn.training.progress import Silent
from flashdqn.training.warmup import clone_tensors

PLAIN: dict[str, Any] = {
    "steps": 3000,
    "envs": 8,
    "train_ratio": 0.25,
    "network.hidden": (24, 20),
    "runtime.mode": "native",
    "eval.every": 900,
}


def make_loop(config: Config, folder: Path, with_several: bool) -> Loop:
    config = apply_settings(config, {"out": str(folder)})
    parts = assemble_parts(config, build_env(config.env, config.envs, torch.device("cpu")))
    engine, _ = prepare_engine(config, parts, lambda _: None)
    assert engine._several is not None
    if not with_several:
        engine._several = None
    games = build_env(config.env, config.eval.episodes, torch.device("cpu"))
    loop = Loop(config, parts, RunFolder.create(config, {}), Silent(), games, engine)
    loop.start()
    return loop


def train(config: Config, folder: Path, with_several: bool) -> tuple[dict[str, torch.Tensor], list[Any], int]:
    loop = make_loop(config, folder, with_several)
    launches: list[int] = []
    if (found := loop.engine._several) is not None:
        launch = found.launch

        def note(limits: Limits) -> int:
            launches.append(launch(limits))
            return launches[-1]

        found.launch = note  # type: ignore[method-assign]
    assert loop.run()
    rows = [
        (row.step, row.updates, row.episodes, row.eps, row.lr, row.loss, row.q, row.grad_norm, row.return_)
        for row in read_metrics(loop.folder.path)
    ]
    state = clone_tensors(loop.parts.learner.weights()) | clone_tensors(loop.parts.state_dict())
    names = sorted(path.name for path in loop.folder.checkpoints.iterdir())
    return state, [rows, names, loop.engine.vector_steps], max(launches, default=0)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"runtime.threads": 2},
        {"network.hidden": (24,), "learn.bootstrap": "greedy"},
        {"network.hidden": (24, 20, 18), "runtime.threads": 2},
        {"envs": 21, "train_ratio": 0.37, "learn.target_every": 0, "learn.target_tau": 0.05},
        {"envs": 1, "train_ratio": 1.0, "steps": 800, "eval.every": 300, "log.every": 100},
        {"replay.n_step": 3, "replay.capacity": 500, "learn.lr_end": 1e-5, "learn.lr_over": 2000},
        {"explore.schedule": "exponential", "explore.over": 1500},
        {"explore.schedule": "spread", "train_ratio": 0.02},
        {"episodes": 40, "steps": None},
    ],
    ids=str,
)
def test_the_same_training_bit_by_bit(change: dict[str, Any], tmp_path: Path) -> None:
    config = apply_settings(tiny_config(), PLAIN | change)
    one, told, _ = train(config, tmp_path / "one", with_several=False)
    many, retold, longest = train(config, tmp_path / "many", with_several=True)
    assert longest > 1
    assert one.keys() == many.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, many[name]), name
    assert told == retold


def test_a_stopped_and_resumed_training_is_the_same(tmp_path: Path) -> None:
    config = apply_settings(tiny_config(), PLAIN | {"log.checkpoint_every": 1000})
    whole, *_ = train(config, tmp_path / "whole", with_several=True)
    part = make_loop(apply_settings(config, {"steps": 2000}), tmp_path / "part", with_several=True)
    assert part.run()
    last = sorted(path for path in part.folder.checkpoints.iterdir() if path.is_dir())[-1]
    rest = make_loop(config, tmp_path / "rest", with_several=True)
    rest.resume(last)
    rest._new = False
    assert rest.run()
    for name, tensor in rest.parts.learner.weights().items():
        assert torch.equal(tensor, whole[name]), name


@pytest.mark.parametrize("with_several", [True, False])
@pytest.mark.parametrize("given", ["reward", "weights"])
def test_a_loss_that_is_not_finite_is_the_same_error(with_several: bool, given: str, tmp_path: Path) -> None:
    config = apply_settings(tiny_config(), PLAIN | {"eval.every": 0, "log.checkpoint_every": 0})
    loop = make_loop(config, tmp_path, with_several)
    loop.fill()
    parts = loop.parts
    before = parts.learner.updates
    if given == "reward":
        parts.ring.reward.fill_(float("nan"))
    else:
        parts.learner.flat.values.fill_(float("inf"))
    with pytest.raises(
        BadNumbersError if given == "reward" else DivergedError, match="gradient step"
    ) as caught:
        loop.run()
    assert parts.learner.updates == before == int(parts.learner.adam.steps)
    assert f"gradient step {before}" in str(caught.value)


def test_the_time_is_divided_among_the_phases(tmp_path: Path) -> None:
    config = apply_settings(tiny_config(), PLAIN | {"eval.every": 0, "log.checkpoint_every": 0})
    loop = make_loop(config, tmp_path, True)
    loop.fill()
    loop.parts.phases.read()
    loop.iterate()
    seconds = loop.parts.phases.read()
    assert all(seconds[name] > 0 for name in ("act", "step", "append", "sample", "update"))
    assert loop.engine.vector_steps > 1


@settings(max_examples=50)
@given(most=st.integers(1, 40), power=st.integers(0, 4))
def test_slots_hold_every_division_into_groups(most: int, power: int) -> None:
    largest = 1 << power
    slots = plan_slots(most, largest)
    for due in range(1, most + 1):
        left, groups = due, []
        while left:  # as Engine.learn does it
            groups.append(group_size(min(left, largest)))
            left -= groups[-1]
        assert len(groups) <= len(slots)
        assert all(group <= slot for group, slot in zip(groups, slots, strict=False))
    assert set(slots) <= set(all_group_sizes(largest))


@pytest.mark.parametrize(
    "change",
    [
        {"envs": 64},
        {"replay.priority": 0.5},
        {"network.dueling": True},
        {"network.noisy": True},
        {"learn.head": "categorical"},
        {"train_ratio": 4.0},
        {"train_ratio": 0.123456789},
        {"learn.batch_size": 4096, "network.hidden": (512, 512), "replay.capacity": 10_000},
    ],
    ids=str,
)
def test_what_does_not_fit_is_done_one_by_one(change: dict[str, Any]) -> None:
    config = apply_settings(tiny_config(), PLAIN | change)
    parts = assemble_parts(config, build_env(config.env, config.envs, torch.device("cpu")))
    engine, _ = prepare_engine(config, parts, lambda _: None)
    assert engine.plan.way == "native"
    assert engine._several is None


def test_another_generator_of_random_numbers_is_not_imitated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, "is_same_generator", lambda: False)
    config = apply_settings(tiny_config(), PLAIN)
    parts = assemble_parts(config, build_env(config.env, config.envs, torch.device("cpu")))
    engine, _ = prepare_engine(config, parts, lambda _: None)
    assert engine._several is None
