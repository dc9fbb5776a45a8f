"""The update of a copy, started in several ways: the logic, with a stand-in for the GPU's tools."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from record_maker import Maker, stand_in
from torch import nn

from flashdqn.doctor.findings.launches import detect_launches
from flashdqn.doctor.findings.rules import diagnose
from flashdqn.doctor.watch.counters import Forward
from flashdqn.doctor.watch.kinds import Phase
from flashdqn.doctor.watch.probe_copies import copy_optimizer
from flashdqn.doctor.watch.probe_launches import (
    GraphTools,
    add_compiled,
    is_launch_case,
    make_update,
    probe_launches,
)


class HostTools(GraphTools):
    """Captures and compiles nothing, but says that it was asked to."""

    device = "cpu"
    changes: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self.asked: list[str] = []

    def capture(self, action: Callable[[], object]) -> Callable[[], object]:
        self.asked.append("capture")
        action()
        return lambda: None

    def compile(self, network: Any) -> Any:
        self.asked.append("compile")
        return network


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashdqn.doctor.watch.probe_copies.budget", [0.001])


@pytest.fixture
def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def called(network: nn.Module, rows: int) -> Forward:
    forward = Forward()
    forward.count, forward.seconds, forward.module, forward.data = 10, 1.0, network, torch.ones(rows, 4)
    return forward


def trained(network: nn.Module, kind: type[torch.optim.Optimizer]) -> torch.optim.Optimizer:
    optimizer = kind(network.parameters(), lr=1e-3)
    network(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    return optimizer


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD, torch.optim.RMSprop])
def test_all_ways_are_timed_and_nothing_changes(
    network: nn.Module, kind: type[torch.optim.Optimizer]
) -> None:
    optimizer, tools = trained(network, kind), HostTools()
    weights, state = copy.deepcopy(network.state_dict()), str(optimizer.state_dict())
    found = probe_launches(called(network, 64), optimizer, called(network, 1), tools)
    assert found is not None
    found = add_compiled(found, called(network, 64), optimizer, tools)
    assert found.failed == ()
    assert min(found.now, found.cpu or 0, found.compiled or 0, found.acting or 0, found.acting_cpu or 0) > 0
    assert found.graph is not None
    assert tools.asked == ["capture", "compile"]
    assert str(network.state_dict()) == str(weights)
    assert str(optimizer.state_dict()) == state


def test_an_update_of_a_copy_updates_the_copy(network: nn.Module) -> None:
    optimizer = trained(network, torch.optim.Adam)
    forward = called(network, 8)
    seen = []
    update = make_update(forward, optimizer)
    parameters = update.__closure__
    assert parameters is not None
    mine = next(cell.cell_contents for cell in parameters if isinstance(cell.cell_contents, torch.optim.Adam))
    for _ in range(2):
        update()
        seen.append(mine.param_groups[0]["params"][0].detach().clone())
    assert not torch.equal(seen[0], seen[1])
    assert mine.state[mine.param_groups[0]["params"][0]]["step"] == 3


def test_one_that_does_not_work_leaves_the_others(network: nn.Module) -> None:
    class Broken(HostTools):
        def capture(self, action: Callable[[], object]) -> Callable[[], object]:
            raise RuntimeError("operation not permitted when stream is capturing")

    found = probe_launches(called(network, 8), trained(network, torch.optim.Adam), None, Broken())
    assert found is not None
    assert found.graph is None
    assert found.cpu is not None
    assert [failure.part for failure in found.failed] == [
        "launches: graph", "launches: acting", "launches: acting_cpu",
    ]  # fmt: skip


def test_there_is_nothing_to_try_without_a_gpu_or_an_update(network: nn.Module) -> None:
    optimizer = trained(network, torch.optim.Adam)
    assert probe_launches(called(network, 8), optimizer, None, GraphTools()) is None
    assert probe_launches(None, optimizer, None, HostTools()) is None
    assert not is_launch_case(called(network, 8), None, HostTools())
    stranger = trained(nn.Linear(4, 2), torch.optim.SGD)
    with pytest.raises(ValueError, match="does not train this network"):
        make_update(called(network, 8), stranger)


@pytest.mark.parametrize("change", ["fused", "capturable"])
def test_steps_are_counted_where_the_parameters_are(network: nn.Module, change: str) -> None:
    optimizer = trained(network, torch.optim.Adam)
    made = copy_optimizer(optimizer, **{change: True})
    for parameter in made.param_groups[0]["params"]:
        step = made.state[parameter]["step"]
        assert (step.device, step.dtype, float(step)) == (parameter.device, torch.float32, 1.0)


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    script = tmp_path / "train.py"
    script.write_text("for _ in range(9):\n    env.step(0)\n    loss.backward()\n    optimizer.step()\n")
    maker = Maker(script, device="cuda", utilization=0.11)
    maker.site("env step", 2, 1000)
    maker.site("backward", 3, 1000, 2.0)
    maker.site("optimizer", 4, 1000, 2.0)
    update = maker.stack(maker.own(3, "<module>"), stand_in(Phase.BACKWARD))
    act = maker.call(1, "<module>")
    maker.forward(1, 1000, 1.0)
    env = maker.stack(maker.own(2, "<module>"), stand_in(Phase.ENVIRONMENT))
    maker.train({update: 0.7, act: 0.2, env: 0.1}, vector_steps=100, transitions=100, updates=100)
    return maker


def test_launches_come_before_fewer_updates(maker: Maker) -> None:
    times = {
        "now": 2.3e-3,
        "graph": 2.3e-4,
        "compiled": 1.15e-3,
        "cpu": 4.6e-4,
        "acting": 2e-4,
        "acting_cpu": 5e-5,
    }
    times |= {"small": 1e-5, "small_cpu": 1e-6}
    maker.raw["probes"] = {"launches": times}
    (found,) = detect_launches(maker.evidence())
    part = 2.3e-3 / 7e-3  # an update takes seven milliseconds, of which the copy's is this part
    assert found.speedup == pytest.approx(
        1 / (0.3 + 0.7 * (part * 0.2 + (1 - part) * 0.1) - 0.2 * 0.75)
    )  # on the CPU
    assert (found.least, found.most) == (pytest.approx(1 / (0.3 + 0.7 / 2)), found.speedup)
    said = " ".join(found.evidence)
    assert "CUDA graph: 230 µs" in said
    assert "Compiled: 1,150 µs" in said
    assert "On the CPU: 460 µs" in said
    assert found.cure == ""
    names = [f.name for f in diagnose(maker.evidence())]
    assert names[0] == "launch-bound"
    assert "train-every-step" in names
    assert "starved-device" not in names


def test_an_update_that_is_computing(maker: Maker) -> None:
    maker.raw["probes"] = {"launches": {"now": 2.3e-3, "graph": 2.2e-3, "compiled": 2.2e-3, "cpu": 1e-1}}
    assert not list(detect_launches(maker.evidence()))
    maker.raw["probes"] = {}
    assert not list(detect_launches(maker.evidence()))
