"""Environments in Python, and acting for one at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_maker import Maker, library, stand_in, standard

from flashdqn.doctor.findings.environment import (
    COMPILED,
    detect_python_env,
    detect_rendering,
    detect_single_env,
)
from flashdqn.doctor.findings.rules import diagnose
from flashdqn.doctor.watch.kinds import Phase
from flashdqn.doctor.watch.rows import Frame

STEP_LINE, CELL, OTHER, ACT = 5, 20, 21, 4


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    maker = Maker(tmp_path / "train.py", widths={"1": 1000})
    maker.site("env step", STEP_LINE, 1000)
    return maker


def step(maker: Maker, *frames: Frame) -> int:
    return maker.stack(maker.own(STEP_LINE), stand_in(Phase.ENVIRONMENT), *frames)


def train(maker: Maker, samples: dict[int, float], windows: int = 10) -> None:
    rest = maker.stack(maker.own(6), library("torch/autograd/__init__.py"))
    counts = {"vector_steps": 100.0, "transitions": 100.0, "updates": 10.0}
    maker.train({**samples, rest: 1.0 - sum(samples.values())}, windows, **counts)


def test_an_environment_in_python(maker: Maker) -> None:
    cell = step(maker, maker.own(CELL, "Snake.flood"))
    queue = step(maker, maker.own(CELL, "Snake.flood"), standard("collections/__init__.py"))
    other = step(maker, maker.own(OTHER, "Snake.step"))
    arrays = step(maker, maker.own(OTHER, "Snake.step"), library("numpy/core.py"))
    train(maker, {cell: 0.4, queue: 0.1, other: 0.2, arrays: 0.1})
    (found,) = detect_python_env(maker.evidence())
    assert (found.name, found.line) == ("python-env", CELL)
    assert found.share == pytest.approx(0.7)  # without what numpy does
    assert found.speedup == pytest.approx(1 / (0.3 + 0.7 / COMPILED))
    assert "7,000 µs a transition" in found.evidence[0]
    assert "Snake.flood (50%), Snake.step (20%)" in found.evidence[1]
    assert [f.name for f in diagnose(maker.evidence())] == ["python-env"]


def test_a_game_that_is_drawn(maker: Maker) -> None:
    draws = step(maker, maker.own(OTHER, "Snake.render"), library("PIL/Image.py"))
    sets = step(maker, maker.own(CELL, "Snake.render"))
    cell = step(maker, maker.own(CELL, "Snake.flood"))
    train(maker, {draws: 0.4, sets: 0.1, cell: 0.2})
    (found,) = detect_rendering(maker.evidence())
    assert (found.name, found.line, found.share) == ("rendering", OTHER, pytest.approx(0.5))
    assert [f.name for f in diagnose(maker.evidence())] == ["rendering", "python-env"]
    (other,) = detect_python_env(maker.evidence())
    assert other.share == pytest.approx(0.2), "what draws is not counted twice"


def test_an_environment_that_takes_little_time(maker: Maker) -> None:
    train(maker, {step(maker, maker.own(CELL, "Snake.flood")): 0.14})
    (found,) = detect_python_env(maker.evidence())
    assert found.certainty < 0.95


def test_an_environment_in_arrays(maker: Maker) -> None:
    train(maker, {step(maker, maker.own(CELL, "Snake.flood"), library("numpy/core.py")): 0.8})
    assert not list(detect_python_env(maker.evidence()))


def test_few_looks_at_an_environment(maker: Maker) -> None:
    maker.raw["looks"] = 8
    train(maker, {step(maker, maker.own(CELL, "Snake.flood")): 0.3})
    assert next(detect_python_env(maker.evidence())).certainty < 0.95


def acting(maker: Maker, share: float = 0.6, many: float = 4e-4, width: int = 1) -> None:
    maker.raw["widths"] = {str(width): 1000}
    maker.forward(ACT, 1000, 6.0)
    maker.raw["environments"] = 1
    maker.raw["probes"] = {"acting": {"1": 2e-4, "16": many, "64": 4 * many}}
    train(maker, {maker.call(ACT): share})


def test_acting_for_one_environment(maker: Maker) -> None:
    acting(maker)
    (found,) = detect_single_env(maker.evidence())
    assert (found.name, found.line) == ("single-env-acting", ACT)
    assert found.share == pytest.approx(0.6)
    assert found.speedup == pytest.approx(1 / (0.4 + 0.6 / 8))  # sixteen for the cost of two
    assert "6,000 µs a call, batch 1" in found.evidence[0]
    assert not found.changes_learning
    assert [f.name for f in diagnose(maker.evidence())] == ["single-env-acting"]


def test_acting_that_takes_little_time(maker: Maker) -> None:
    acting(maker, share=0.14)
    assert next(detect_single_env(maker.evidence())).certainty < 0.95


@pytest.mark.parametrize("many", [2.4e-3, 3.2e-3, 6.4e-3])
def test_a_network_that_gains_nothing_from_a_batch(maker: Maker, many: float) -> None:
    acting(maker, many=many)
    (found,) = detect_single_env(maker.evidence())
    assert found.certainty == 0.0
    assert found.speedup >= 1.0


def test_several_environments(maker: Maker) -> None:
    acting(maker, width=16)
    assert not list(detect_single_env(maker.evidence()))


def test_a_few_environments_one_after_the_other(maker: Maker) -> None:
    acting(maker)
    maker.raw["environments"] = 4
    (found,) = detect_single_env(maker.evidence())
    assert (found.name, found.line) == ("few-envs", ACT)
    assert "4 environments one after the other" in found.title
    assert "200 µs for 1, 400 µs for 16, 1,600 µs for 64" in found.evidence[1]
    assert found.speedup == pytest.approx(1 / (0.4 + 0.6 / 8))


def test_a_few_environments_in_one_call(maker: Maker) -> None:
    acting(maker, width=4)
    maker.raw["forwards"][0]["batch"] = 4
    maker.raw["probes"] = {"acting": {"1": 2e-4, "4": 2e-4, "16": 2e-4, "64": 4e-4}}
    (found,) = detect_single_env(maker.evidence())
    assert found.name == "few-envs"
    assert found.speedup == pytest.approx(1 / (0.4 + 0.6 / 8))  # 64 for the cost of two calls of 4


def test_acting_without_a_probe_or_a_network(maker: Maker) -> None:
    acting(maker)
    maker.raw["probes"] = {}
    assert not list(detect_single_env(maker.evidence()))
    acting(maker)
    maker.raw["forwards"] = []
    assert not list(detect_single_env(maker.evidence()))
