"""Learning health: each disease has a record that shows it, and a script that has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from record_maker import Maker
from torch import nn
from watching import watch_script

from flashdqn.doctor.examine import build_report
from flashdqn.doctor.findings.rules import diagnose, diagnose_health
from flashdqn.doctor.report.page import render_doctor_page
from flashdqn.doctor.watch import health as watch
from flashdqn.doctor.watch.counters import Forward
from flashdqn.doctor.watch.health_rows import RewardCount

AGENT = Path(__file__).parent / "patients" / "health" / "agent.py"

SCRIPT = """
epsilon = 1.0
target.load_state_dict(network.state_dict())
memory = Memory(20)
while True:
    obs, reward, terminated, truncated, _ = env.step(0)
    done = terminated or truncated
    memory.push(obs, reward, {end})
    loss.backward()
    optimizer.step()
    {again}
"""


def look(updates: int, **changes: Any) -> dict[str, Any]:
    row = {
        "time": updates / 1000, "updates": updates, "gradient": 1.0, "without": 0, "weight": 1.0, "output": 2.0,
        "targets": [float(updates)], "epsilon": 1.0 / (1 + updates),
    }  # fmt: skip
    return row | changes


def health(
    tmp_path: Path, looks: list[dict[str, Any]], end: str = "terminated", again: str = "", **record: Any
) -> Maker:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(end=end, again=again), encoding="utf-8")
    rewards = {"count": 1000, "zero": 900, "least": 0.0, "most": 1.0}
    row = {
        "looks": looks,
        "outer": rewards,
        "inner": rewards,
        "truncated": 0,
        "terminated": 30,
        "replays": [],
    }
    maker = Maker(script, health=row | record)
    maker.site("env step", 6, 1000)
    maker.site("optimizer", 10, 1000)
    stack = maker.stack(maker.own(10, "<module>"))
    maker.train({stack: 1.0}, transitions=100, vector_steps=100, updates=100, episodes=3, episode_steps=90)
    return maker


def names(maker: Maker) -> list[str]:
    found = diagnose_health(maker.evidence())
    assert found is not None
    assert all(f.health and f.evidence and f.advice and f.line for f in found)
    assert not {f.name for f in found} & {f.name for f in diagnose(maker.evidence())}
    return [f.name for f in found]


FINE = [look(k) for k in range(0, 6000, 600)]


def every(**changes: Any) -> list[dict[str, Any]]:
    return [row | changes for row in FINE]


@pytest.mark.parametrize(
    ("name", "looks", "record"),
    [
        ("dead-units", FINE, {"dead": 60, "units": 128}),
        ("exploding-gradients", every(gradient=1e5), {}),
        ("exploding-gradients", [*FINE[:-1], look(9000, gradient=float("nan"))], {}),
        ("vanishing-gradients", every(gradient=1e-9), {}),
        ("diverging-values", [look(k, output=2.0 * 4.0 ** (k / 600)) for k in range(0, 6000, 600)], {}),
        ("epsilon-stays", every(epsilon=1.0), {}),
        ("frozen-target", every(targets=[3.5]), {}),
        ("ends-mixed-up", FINE, {"truncated": 12, "end": "done"}),
        ("small-replay", FINE, {"replays": [{"name": "Memory", "capacity": 20}]}),
        ("rewards-lost", FINE, {"outer": {"count": 1000, "zero": 1000, "least": 0.0, "most": 0.0}}),
    ],
)
def test_each_disease(tmp_path: Path, name: str, looks: list[dict[str, Any]], record: dict[str, Any]) -> None:
    assert names(health(tmp_path, looks, **record)) == [name]


@pytest.mark.parametrize(
    ("looks", "record"),
    [
        (FINE, {}),
        (FINE, {"dead": 10, "units": 128}),
        (FINE, {"dead": 55, "units": 128, "dead_at_first": 48}),  # narrow inputs, not dead units
        (FINE[:3], {}),
        (every(epsilon=0.05), {}),  # low enough to stay
        (every(epsilon=None), {}),
        (every(targets=[]), {}),
        (every(targets=[3.5]), {"again": "target.load_state_dict(network.state_dict())"}),  # rarely, perhaps
        (FINE, {"truncated": 12}),  # only terminated is stored
        (FINE, {"end": "done"}),  # nothing was ever truncated
        (FINE, {"replays": [{"name": "Memory", "capacity": 0}, {"name": "Memory", "capacity": 500}]}),
        ([look(k, output=2.0 + k / 100) for k in range(0, 6000, 600)], {}),
    ],
)
def test_what_is_healthy(tmp_path: Path, looks: list[dict[str, Any]], record: dict[str, Any]) -> None:
    assert names(health(tmp_path, looks, **record)) == []


def test_nobody_asked(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "none.py")
    assert diagnose_health(maker.evidence()) is None
    assert build_report(maker.record()).health is None


def test_the_report_has_a_section_for_it(tmp_path: Path) -> None:
    page = render_doctor_page(build_report(health(tmp_path, every(epsilon=1.0)).record()))
    assert "Learning health" in page
    assert "epsilon-stays" in page
    assert "Learning health" in render_doctor_page(build_report(health(tmp_path, FINE).record()))


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> watch.Health:
    """A record of our own, as if nothing had been watched before."""
    mine = watch.Health()
    mine.on = True
    monkeypatch.setattr(watch, "health", mine)
    return mine


@pytest.mark.parametrize("functional", [False, True])
def test_dead_units_are_counted_on_a_copy(functional: bool) -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(torch.nn.functional.relu(self.first(x)))  # type: ignore[no-any-return]

    network: nn.Module = (
        Functional() if functional else nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    )
    first = next(m for m in network.modules() if isinstance(m, nn.Linear))
    with torch.no_grad():
        first.weight.zero_()
        first.bias.copy_(torch.tensor([1.0] * 5 + [-1.0] * 3))
    forward = Forward()
    forward.module, forward.data = network, torch.rand(64, 4)
    relu, state = torch.nn.functional.relu, torch.get_rng_state()
    counted = watch.count_dead_units(forward)
    assert counted is not None
    assert counted[:2] == (3, 8)
    assert 0 <= counted[2] < 8  # with new weights
    assert torch.equal(torch.get_rng_state(), state)
    assert not first.weight.any()  # those of the script stay
    assert torch.nn.functional.relu is relu
    forward.data = torch.rand(3, 4)  # too few rows to say
    assert watch.count_dead_units(forward) is None
    assert watch.count_dead_units(None) is None


def test_a_look_after_an_update(own: watch.Health, monkeypatch: pytest.MonkeyPatch) -> None:
    network, target = nn.Linear(2, 1), nn.Linear(2, 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.0)
    (network(torch.ones(1, 2)) * 3.0).sum().backward()
    acting = Forward()
    acting.module, acting.graded, acting.output = network, 1, torch.tensor([-7.0, 2.0])
    other = Forward()
    other.module = target
    monkeypatch.setattr(watch.tally, "forwards", {"a": acting, "b": other})

    watch.look_at_update(optimizer)
    (seen,) = own.looks
    assert seen.gradient == pytest.approx(np.sqrt(3 * 9.0))
    assert seen.output == 7.0
    assert seen.targets == (pytest.approx(watch.sum_parameters(target)),)
    assert not own.is_due()


def test_rewards_and_ends(own: watch.Health) -> None:
    watch.see_outer_step((0, 0.0, False, True, {}))
    watch.see_outer_step((0, np.array([1.5, 0.0]), np.array([True, False]), np.array([False, False]), {}))
    watch.see_inner_step((0, -2.0, False, {}))
    watch.see_inner_step("not a step")
    assert own.outer == RewardCount(3, 2, 0.0, 1.5)
    assert own.inner == RewardCount(1, 0, -2.0, 0.0)
    assert (own.terminated, own.truncated) == (1, 1)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("disease", ["none", "epsilon-stays", "dead-units"])
def test_a_real_patient(disease: str) -> None:
    record = watch_script(AGENT, "--disease", disease, "--iterations", "100000000", seconds=25.0, health=True)
    found = build_report(record).health
    assert record.health is not None
    assert found is not None
    assert record.failures == ()
    if len(record.health.looks) >= 5:  # a busy machine may not come that far
        assert [f.name for f in found] == ([] if disease == "none" else [disease])
