"""Injections on a torch made by hand: what they change, and that they say so."""

from __future__ import annotations

import builtins
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from record_maker import Maker

from flashdqn.doctor.cures.catalog import list_cures
from flashdqn.doctor.report.contents import Finding
from flashdqn.doctor.watch.injection import Injection
from flashdqn.doctor.watch.injections import INJECTIONS


class Optimizer:
    """An optimizer that notes how it was made."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.kept = not set_to_none


class Adam(Optimizer):
    def __init__(self, params: Any, lr: float = 1e-3, fused: bool = False, foreach: bool = False) -> None:
        if fused and params == ["odd"]:
            raise RuntimeError("odd parameters cannot be fused")
        self.made = {"lr": lr, "fused": fused, "foreach": foreach}


class Mine(Adam):
    """A user's own optimizer."""


class Module:
    def __call__(self, value: Any) -> Any:
        return value


def make_torch() -> Any:
    threads: list[int] = []

    class FreshModule(Module):
        zero_grad = Optimizer.zero_grad

    class FreshAdam(Adam):
        __init__ = Adam.__init__
        __doc__ = "Changed by a test."

    return SimpleNamespace(
        optim=SimpleNamespace(Optimizer=Optimizer, Adam=FreshAdam),
        nn=SimpleNamespace(Module=FreshModule),
        threads=threads,
        set_num_threads=threads.append,
        set_flush_denormal=lambda _: True,
    )


def inject(name: str, torch: Any, **settings: Any) -> Injection:
    injection = INJECTIONS[name](name, settings)
    injection.begin()
    injection.imported(torch)
    return injection


def test_threads_are_set_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    torch = make_torch()
    injection = inject("threads", torch, number=2)
    torch.set_num_threads(16)  # the script's own wish
    assert torch.threads == [2, 2]
    assert os.environ["OMP_NUM_THREADS"] == "2"
    assert injection.list_applied() == ["torch.set_num_threads(2)"]


def test_optimizers_are_fused_unless_the_script_says_otherwise() -> None:
    torch = make_torch()
    injection = inject("optimizer-flag", torch, flag="fused")
    made = torch.optim.Adam(["p"], lr=0.5)
    assert made.made == {"lr": 0.5, "fused": True, "foreach": False}
    assert torch.optim.Adam(["p"], foreach=True).made["fused"] is False
    assert injection.list_applied() == ["FreshAdam(…, fused=True)"]
    assert torch.optim.Adam(["odd"]).made["fused"] is False
    assert injection.failures == ["FreshAdam: odd parameters cannot be fused"]


def test_a_users_own_optimizer_is_left_alone() -> None:
    torch = make_torch()
    inject("optimizer-flag", torch, flag="fused")

    class Own(torch.optim.Adam):  # type: ignore[misc]
        pass

    assert Own(["p"]).made["fused"] is False


def test_gradients_are_let_go() -> None:
    torch = make_torch()
    before = Optimizer.zero_grad
    try:
        injection = inject("set-to-none", torch)
        optimizer = torch.optim.Adam(["p"])
        optimizer.zero_grad(set_to_none=False)
    finally:
        Optimizer.zero_grad = before  # type: ignore[method-assign]
    assert optimizer.kept is False
    assert injection.list_applied() == ["zero_grad(set_to_none=True)"]


def test_prints_are_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(builtins, "print", builtins.print)
    monkeypatch.setenv("TQDM_DISABLE", "0")
    INJECTIONS["silent"]("silent", {}).begin()
    print("nobody reads this")  # noqa: T201
    assert capsys.readouterr().out == ""


def test_writers_write_nothing() -> None:
    written: list[str] = []

    class SummaryWriter:
        def add_scalar(self, *_: Any) -> None:
            written.append("scalar")

        def close(self) -> None:
            written.append("close")

    module = SimpleNamespace(__name__="torch.utils.tensorboard.writer", SummaryWriter=SummaryWriter)
    injection = INJECTIONS["no-logger"]("no-logger", {})
    injection.imported(module)
    writer = SummaryWriter()
    writer.add_scalar("loss", 1.0, 2)
    writer.close()
    assert written == ["close"]
    assert injection.list_applied() == ["torch's SummaryWriter writes nothing"]


def test_an_error_is_noted_and_the_script_goes_on() -> None:
    injection = inject("flush", SimpleNamespace())
    assert injection.list_applied() == []
    assert injection.failures[0].startswith("flush: AttributeError")


def test_only_the_named_lines_lose_their_graph() -> None:
    entered: list[str] = []

    class NoGrad:
        def __enter__(self) -> None:
            entered.append("in")

        def __exit__(self, *_: object) -> None:
            entered.append("out")

    torch = make_torch()
    torch.no_grad = NoGrad
    call: Callable[[Any], Any] = lambda network: network(5)  # noqa: E731
    place = (call.__code__.co_filename, call.__code__.co_firstlineno)
    inject("no-grad", torch, places=[place])
    network = torch.nn.Module()
    assert call(network) == 5
    assert entered == ["in", "out"]
    assert network(6) == 6
    assert entered == ["in", "out"]
    through = lambda value: (lambda inner: network(inner))(value)  # noqa: E731
    place_of_caller = through.__code__
    inject("no-grad", torch, places=[(place_of_caller.co_filename, place_of_caller.co_firstlineno)])
    assert through(7) == 7
    assert entered == ["in", "out"] * 2


def test_every_injection_says_what_it_is() -> None:
    assert all(kind.__doc__ for kind in INJECTIONS.values())


def test_evaluations_run_once_only(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    text = "class Agent:\n    @staticmethod\n    def evaluate(n):\n        runs.append(n)\n        return n\n"
    path.write_text(
        f"{text}runs = []\nfor step in range(3):\n    score = Agent().evaluate(step)\n", encoding="utf-8"
    )
    maker = Maker(path)
    maker.train({maker.stack(maker.own(8)): 1.0})
    finding = Finding("evaluation-share", "title", str(path), 8, 0.5, 2.0, (), "", "")
    (cure,) = list_cures(maker.evidence(), (finding,))
    assert (cure.name, cure.unit) == ("no-eval", "updates")
    injection = INJECTIONS["first-result"]("first-result", {})
    injection.begin()
    names: dict[str, Any] = {}
    exec(cure.replaced[str(path)], names)
    assert (names["runs"], names["score"]) == ([0], 0)
    assert injection.list_applied() == ["evaluate() runs once only"]


def test_pygames_clock_holds_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", time.sleep)
    ticks: list[tuple[int, ...]] = []

    class Clock:
        def tick(self, *rate: int) -> int:
            ticks.append(rate)
            return 3

        def get_fps(self) -> float:
            return 7.0

    module = SimpleNamespace(Clock=Clock)
    injection = inject("awake", module)
    clock = module.Clock()
    assert (clock.tick(40), clock.get_fps(), ticks) == (3, 7.0, [()])
    time.sleep(1e9)
    assert len(injection.list_applied()) == 2
