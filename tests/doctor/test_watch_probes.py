"""Probes work on copies and leave the script's state unchanged; and the count of subnormal numbers."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from flashdqn.doctor.watch import counters as tally
from flashdqn.doctor.watch import probes, subnormal
from flashdqn.doctor.watch.counters import Forward
from flashdqn.doctor.watch.probes import probe_all
from flashdqn.doctor.watch.schema import ProbeResults
from flashdqn.doctor.watch.torch_hooks import Optimizers


class Net(nn.Module):
    """Draws random numbers of all kinds, and prints."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8, momentum=0.5), nn.Linear(8, 2)
        )

    def forward(self, x: Tensor) -> Tensor:
        print("a word for each call")  # noqa: T201
        return self.body(x) * (random.random() + float(np.random.rand()))  # type: ignore[no-any-return]


class Script:
    """What the watch would have at a script's end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.network = Net().eval()
        self.optimizer = torch.optim.Adam(self.network.parameters())
        self.network.body.requires_grad_(True)
        self.network(torch.ones(3, 4)).sum().backward()
        self.optimizer.step()
        held = Optimizers()
        held.held[id(self.optimizer)] = self.optimizer
        held.steps[id(self.optimizer)] = 1
        self.forwards: dict[Any, Forward] = {}
        monkeypatch.setattr(probes, "optimizers", held)
        monkeypatch.setattr(tally, "forwards", self.forwards)

    def called(self, role: str, module: nn.Module, data: Tensor) -> None:
        forward = Forward()
        forward.count, forward.seconds, forward.module, forward.data = 10, 1.0, module, data
        forward.graded = 10 if role == "learning" else 0
        setattr(forward, role, 10)
        self.forwards[role] = forward


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    script = Script(monkeypatch)
    script.called("learning", script.network, torch.ones(3, 4))
    script.called("acting", script.network, torch.ones(1, 4))
    return script


def states() -> list[Any]:
    return [torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()]  # type: ignore[index]


def test_nothing_is_other_after_them(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    weights = copy.deepcopy(script.network.state_dict())
    moments = copy.deepcopy(script.optimizer.state_dict())
    gradients = [p.grad.clone() for p in script.network.parameters() if p.grad is not None]
    before, threads = states(), torch.get_num_threads()
    found = probe_all(2, 0.001)
    assert found.threads is not None
    assert set(found.threads) == {1, 2}
    assert all(0 < times.low <= times.mean <= times.high for times in found.threads.values())
    for pair in (found.optimizer, found.flush, found.no_grad):
        assert pair is not None
        assert min(pair.now, pair.cured) > 0
    assert found.acting is not None
    assert set(found.acting) == set(probes.BATCHES)
    assert min(found.acting.values()) > 0
    assert found.flops is not None
    assert found.flops > 0
    assert found.failed == ()
    assert states() == before
    assert torch.get_num_threads() == threads
    assert not subnormal.treats_subnormals_as_zero(torch)
    assert capsys.readouterr().out == ""
    assert str(script.network.state_dict()) == str(weights)
    assert str(script.optimizer.state_dict()) == str(moments)
    assert all(
        torch.equal(p.grad, g)
        for p, g in zip(script.network.parameters(), gradients, strict=True)
        if p.grad is not None
    )


def test_an_observation_without_a_batch_is_one_row(script: Script) -> None:
    network = nn.Linear(4, 2)
    script.called("acting", network, torch.ones(4))
    found = probe_all(1, 0.001)
    assert found.acting is not None
    assert set(found.acting) == set(probes.BATCHES)
    script.called("acting", nn.Embedding(9, 2), torch.arange(4))
    assert probe_all(1, 0.001).acting is None


def test_even_within_a_block_without_gradients(script: Script) -> None:
    with torch.inference_mode():
        assert probe_all(1, 0.001).failed == ()


def test_one_that_does_not_work_is_left_out(script: Script) -> None:
    class NoCopy(Net):
        def __deepcopy__(self, memo: object) -> Net:
            raise RuntimeError("one of its kind")

    script.called("acting", NoCopy(), torch.ones(1, 4))
    found = probe_all(1, 0.001)
    assert [str(failure) for failure in found.failed] == [
        "no_grad: RuntimeError: one of its kind",
        "acting: RuntimeError: one of its kind",
    ]
    assert found.threads is not None


def test_what_does_not_apply(script: Script) -> None:
    script.forwards.clear()
    script.optimizer.param_groups[0]["fused"] = True
    found = probe_all(1, 0.001)
    assert found == ProbeResults(flops=found.flops)
    assert found.flops is not None


@pytest.fixture
def _other_defaults() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)


def test_other_defaults(script: Script, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("_other_defaults")
    found = probe_all(1, 0.001)
    assert found.failed == ()
    assert not subnormal.treats_subnormals_as_zero(torch)


def test_nobody_else_is_made_to_wait(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    assert probe_all(1, 0.001) == ProbeResults()


def test_subnormal_numbers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subnormal, "counts", counts := [])
    weight = nn.Parameter(torch.tensor([1.0, 0.0, 1e-40, -1e-39, 2e-38, 3.0]))
    others = [
        nn.Parameter(torch.full((5,), 1e-40, dtype=torch.float64)),  # a normal number there
        nn.Parameter(torch.full((5,), 1e-40, device="meta")),
    ]
    weight.grad = torch.tensor([0.0, 0.0, 1e-41, 0.0, 0.0, 0.0])
    optimizer = torch.optim.SGD([weight, *others], lr=0.1, momentum=0.9)
    optimizer.state[weight]["momentum_buffer"] = torch.full((6,), 1e-42)
    subnormal.count_subnormals(optimizer)
    assert [(row.count, row.of, row.flushed) for row in counts] == [(2 + 1 + 6, 18, False)]
    assert not subnormal.is_check_due()
    if torch.set_flush_denormal(True):
        assert subnormal.treats_subnormals_as_zero(torch)
    torch.set_flush_denormal(False)
