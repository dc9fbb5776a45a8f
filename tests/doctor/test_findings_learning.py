"""Updates for each transition, and what they cost beyond their mathematics."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_maker import Maker, library, stand_in
from watching import line_of, write_script

from flashdqn.doctor.examine import find_bottleneck
from flashdqn.doctor.findings.graphs import detect_missing_no_grad
from flashdqn.doctor.findings.learning import (
    detect_many_updates,
    detect_subnormals,
    detect_unfused_optimizer,
)
from flashdqn.doctor.findings.rules import diagnose
from flashdqn.doctor.watch.kinds import Phase

SOURCE = """
    def main():
        for step in range(1000):
            action = network(obs)  # act
            obs = env.step(0)  # step
            for k in range(64):  # updates
                learn()  # learn


    def learn():
        target = target_network(batch)  # target
        loss = network(batch)  # forward
        loss.backward()  # backward
        optimizer.step()  # optimizer
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_script(tmp_path, SOURCE)


@pytest.fixture
def maker(script: Path) -> Maker:
    maker = Maker(script)
    maker.site("env step", line_of(script, "# step"), 100)
    maker.site("backward", line_of(script, "# backward"), 6400)
    maker.site("optimizer", line_of(script, "# optimizer"), 6400, 2.0)
    maker.raw["optimizers"] = [
        {
            "name": "Adam",
            "fused": False,
            "can_fuse": True,
            "tensors": 6,
            "elements": 58,
            "steps": 6400,
            "seconds": 2.0,
        }
    ]
    return maker


def train(
    maker: Maker, script: Path, learning: float, *, width: int, updates: float, windows: int = 10
) -> None:
    """Ten steps a second of `width` environments, with `updates` after each; the rest is the environment."""
    frames = maker.own(line_of(script, "# learn")), maker.own(line_of(script, "# backward"), "learn")
    update = maker.stack(*frames, library("torch/autograd/__init__.py"))
    step = maker.stack(
        maker.own(line_of(script, "# step")), stand_in(Phase.ENVIRONMENT), library("numpy/core.py")
    )
    counts = {"vector_steps": 10.0, "transitions": 10.0 * width, "updates": 10.0 * updates}
    maker.raw["widths"] = {str(width): 100}
    maker.train({update: learning, step: 1.0 - learning}, windows, **counts)


def test_many_updates_for_each_step(maker: Maker, script: Path) -> None:
    train(maker, script, 0.9, width=64, updates=64)
    (found,) = detect_many_updates(maker.evidence())
    assert (found.name, found.line) == ("many-updates", line_of(script, "# updates"))
    assert found.title == "64 updates after every step of 64 environments"
    assert found.share == pytest.approx(0.9)
    assert found.speedup == pytest.approx(1 / (0.1 + 0.9 / 32))  # one update a transition; 1/32 is common
    assert found.changes_learning
    assert "1,406 µs an update" in found.evidence[0]  # 9 of 10 seconds for 6400
    assert [f.name for f in diagnose(maker.evidence())] == ["many-updates"]


def test_an_update_after_every_single_step(maker: Maker, script: Path) -> None:
    train(maker, script, 0.8, width=1, updates=1)
    (found,) = detect_many_updates(maker.evidence())
    assert (found.name, found.line) == ("train-every-step", line_of(script, "# learn"))
    assert found.speedup == pytest.approx(1 / (0.2 + 0.8 / 4))  # 1/4 as in the first DQN
    assert found.changes_learning


def test_transitions_of_evaluations_do_not_hide_it(maker: Maker, script: Path) -> None:
    train(maker, script, 0.8, width=1, updates=0.75)
    assert not list(detect_many_updates(maker.evidence()))
    counts = maker.evidence().record.totals
    maker.site("env step", 1, 100, function="main", elements=3 * counts.transitions // 4)
    maker.site("env step", 2, 100, function="Agent.evaluate_policy", elements=counts.transitions // 4)
    (found,) = detect_many_updates(maker.evidence())
    assert found.name == "train-every-step"
    assert maker.evidence().evaluated == counts.transitions // 4


@pytest.mark.parametrize(
    ("width", "updates"),
    [
        (64, 2),  # the common ratio
        (512, 16),  # many updates, and still the common ratio
        (64, 7),  # not so many
        (1, 0.25),
        (4, 2),
        (1, 0.0),
    ],
)
def test_usual_ratios_are_no_finding(maker: Maker, script: Path, width: int, updates: float) -> None:
    train(maker, script, 0.9, width=width, updates=updates)
    assert not list(detect_many_updates(maker.evidence()))


def test_many_updates_that_take_little_time_are_not_reported(maker: Maker, script: Path) -> None:
    train(maker, script, 0.39, width=64, updates=64)
    (found,) = detect_many_updates(maker.evidence())
    assert found.certainty < 0.95


def test_an_optimizer_in_python(maker: Maker, script: Path) -> None:
    train(maker, script, 0.5, width=64, updates=2)
    maker.raw["probes"] = {"optimizer": {"now": 300e-6, "cured": 100e-6}}
    (found,) = detect_unfused_optimizer(maker.evidence())
    assert (found.name, found.line) == ("unfused-optimizer", line_of(script, "# optimizer"))
    assert found.share == pytest.approx(0.2)  # 2 of 10 seconds
    # By its share, 2/3 of a fifth; by the probe, 6400 times 200 µs of 10 s: the smaller counts.
    assert found.speedup == pytest.approx(1 / (1 - 0.128))
    assert found.example.startswith("optimizer = torch.optim.Adam(")
    assert [f.name for f in diagnose(maker.evidence())] == ["unfused-optimizer"]


@pytest.mark.parametrize("fused", [290e-6, 300e-6, 900e-6])
def test_an_optimizer_that_is_as_good(maker: Maker, script: Path, fused: float) -> None:
    train(maker, script, 0.5, width=64, updates=2)
    maker.raw["probes"] = {"optimizer": {"now": 300e-6, "cured": fused}}
    (found,) = detect_unfused_optimizer(maker.evidence())
    assert found.certainty == 0.0
    assert found.speedup >= 1.0


def test_an_optimizer_without_a_probe_or_a_step(maker: Maker, script: Path) -> None:
    train(maker, script, 0.5, width=64, updates=2)
    assert not list(detect_unfused_optimizer(maker.evidence()))  # fused already: there is no probe
    maker.raw["probes"] = {"optimizer": {"now": 3e-4, "cured": 1e-4}}
    maker.raw["sites"] = []
    assert not list(detect_unfused_optimizer(maker.evidence()))


def subnormal(
    maker: Maker, script: Path, *, count: float = 5000, flushed: float = 0.0, slow: float = 4e-3
) -> list[str]:
    train(maker, script, 0.8, width=64, updates=2)
    maker.raw["subnormals"] = [
        {"time": 1.0, "count": 10, "of": 9000, "flushed": flushed},
        {"time": 6.0, "count": count, "of": 9000, "flushed": flushed},
    ]
    maker.raw["probes"] = {"flush": {"now": slow, "cured": 1e-3}}
    return [f.name for f in diagnose(maker.evidence())]


def test_subnormal_numbers(maker: Maker, script: Path) -> None:
    assert subnormal(maker, script) == ["subnormals"]
    (found,) = detect_subnormals(maker.evidence())
    assert found.line == line_of(script, "# optimizer")
    assert found.share == pytest.approx(0.8 * 0.75)
    assert found.speedup == pytest.approx(1 / (0.2 + 0.8 / 4))
    assert "5,000 of 9,000 values are subnormal, 10 at first." in found.evidence[0]


@pytest.mark.parametrize("change", [{"count": 99}, {"flushed": 1.0}, {"slow": 1.05e-3}, {"slow": 0.5e-3}])
def test_numbers_that_do_no_harm(maker: Maker, script: Path, change: dict[str, float]) -> None:
    assert subnormal(maker, script, **change) == []
    assert all(found.speedup >= 1.0 for found in detect_subnormals(maker.evidence()))


def test_acting_with_a_graph(maker: Maker, script: Path) -> None:
    train(maker, script, 0.5, width=64, updates=2)
    maker.forward(line_of(script, "# act"), 1000, 4.0, graded=1000)
    maker.forward(line_of(script, "# forward"), 10, 0.1, acting=0, learning=10, graded=10)
    maker.raw["probes"] = {"no_grad": {"now": 2e-4, "cured": 1e-4}}
    (found,) = detect_missing_no_grad(maker.evidence())
    assert (found.name, found.line) == ("no-grad-forgotten", line_of(script, "# act"))
    assert found.title.startswith("A network that only acts")
    assert found.share == pytest.approx(0.2)  # half of 4 in 10 seconds
    assert found.speedup == pytest.approx(1.25)
    assert "1,000 of 1,000 results carry a graph" in found.evidence[0]


def test_policy_gradients_keep_their_graphs_on_purpose(maker: Maker, script: Path) -> None:
    train(maker, script, 0.5, width=64, updates=2)
    maker.forward(line_of(script, "# act"), 1000, 4.0, graded=1000)
    maker.raw["probes"] = {"no_grad": {"now": 2e-4, "cured": 1e-4}}
    assert not list(detect_missing_no_grad(maker.evidence()))


def test_targets_with_a_graph_cost_a_backward_pass(maker: Maker, script: Path) -> None:
    train(maker, script, 0.6, width=64, updates=2)  # all of it is backward
    learning = {"acting": 0, "learning": 1000, "graded": 1000}
    maker.forward(line_of(script, "# target"), 1000, 1.0, **learning, trained=False, given_gradients=True)
    maker.forward(line_of(script, "# forward"), 1000, 1.0, **learning)
    (found,) = detect_missing_no_grad(maker.evidence())
    assert (found.name, found.line) == ("target-with-grad", line_of(script, "# target"))
    assert found.title.startswith("A network that only computes targets")
    assert found.share == pytest.approx(0.3)  # half of the backward passes; no probe for the forward ones


def test_weights_that_are_changed_by_hand(maker: Maker, script: Path) -> None:
    """Without an optimizer nobody knows which networks are trained, and an update is a backward pass."""
    maker.raw["optimizers"], maker.raw["sites"] = [], []
    maker.site("backward", line_of(script, "# backward"), 200)
    maker.forward(line_of(script, "# learn"), 200, 5.0, acting=0, learning=200, graded=200, trained=False,
                  given_gradients=False)  # fmt: skip
    train(maker, script, 1.0, width=1, updates=0)
    assert not list(detect_missing_no_grad(maker.evidence()))
    limit, because = find_bottleneck(maker.evidence(), ())
    assert limit == "unknown"
    assert because.endswith("50,000 µs a backward pass")


@pytest.mark.parametrize(
    "change",
    [
        {"graded": 0},  # cured
        {"graded": 400},
        {"count": 99, "graded": 99},
        {"acting": 0, "learning": 1000},  # it learns
        {"acting": 0, "learning": 1000, "trained": False, "graded": 0},
    ],
)
def test_graphs_where_they_belong(maker: Maker, script: Path, change: dict[str, int]) -> None:
    train(maker, script, 0.5, width=64, updates=2)
    row = {"count": 1000, "graded": 1000} | change
    maker.forward(line_of(script, "# act"), row.pop("count"), 4.0, **row)
    assert not list(detect_missing_no_grad(maker.evidence()))


def test_a_graph_that_costs_nothing_is_no_matter_of_time(maker: Maker, script: Path) -> None:
    train(maker, script, 0.5, width=64, updates=2)
    maker.forward(line_of(script, "# act"), 1000, 4.0, graded=1000)
    maker.forward(line_of(script, "# forward"), 10, 0.1, acting=0, learning=10, graded=10)
    maker.raw["probes"] = {"no_grad": {"now": 0.9e-4, "cured": 1e-4}}  # by chance
    (found,) = detect_missing_no_grad(maker.evidence())
    assert (found.share, found.speedup) == (0.0, 1.0)
