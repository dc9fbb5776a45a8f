"""What grows is found by name, whatever else a script holds."""

from __future__ import annotations

import sys
from collections import defaultdict, deque
from types import ModuleType
from typing import Any

import pytest
import torch

from flashdqn.doctor.watch import counters as tally
from flashdqn.doctor.watch.growth import Census, read_local_variables
from flashdqn.doctor.watch.rows import Container, PartFailure


class Holder:
    """An object of a script."""

    def __init__(self, **parts: Any) -> None:
        vars(self).update(parts)


class Loud:
    """Raises an error whatever it is asked."""

    def __init__(self) -> None:
        self.rows = [0] * 100

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    __hash__ = None  # type: ignore[assignment]


class Slots:
    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows = [0] * 100


class Inventive:
    """Fails when it is asked for an unknown attribute."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("asked")


class OddDict:
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("mine")


class OddList(list[int]):
    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __getitem__(self, index: Any) -> Any:
        raise RuntimeError("no items")

    def __iter__(self) -> Any:
        raise RuntimeError("no end")


class Liar:
    """Says that it is a list."""

    @property
    def __class__(self) -> Any:
        return list

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise RuntimeError("no")


@pytest.fixture(autouse=True)
def _no_failures(monkeypatch: pytest.MonkeyPatch) -> Any:
    failures: dict[str, PartFailure] = {}
    monkeypatch.setattr(tally, "failures", failures)
    yield
    assert failures == {}


def rows(census: Census) -> dict[str, Container]:
    """What was found in the functions called `script`. (Those with an assertion ask for their locals.)"""
    return {row.name: row for row in census.describe() if row.where == "script()"}


def test_what_grows_is_named() -> None:
    census = Census()

    def script() -> None:
        growing, agent = [0] * 100, Holder(memory={}, inner=Holder(losses=[0.5] * 70))
        rewards: deque[float] = deque()
        recent: deque[float] = deque(maxlen=100)
        few: list[int] = []
        counts: defaultdict[int, int] = defaultdict(int)
        for second in range(1, 4):
            growing += [1] * 100
            agent.memory |= {100 * second + k: k for k in range(100)}
            rewards.extend([0.5] * 64)
            recent.extend([0.5] * 100)
            few.append(1)
            counts.update(dict.fromkeys(range(80 * second), 1))
            census.take(sys._getframe())

    script()
    found = rows(census)
    sizes = {name: [size for _, size in row.sizes] for name, row in found.items()}
    assert sizes == {
        "growing": [200, 300, 400],
        "agent.memory": [100, 200, 300],
        "agent.inner.losses": [70, 70, 70],
        "rewards": [64, 128, 192],
        "counts": [80, 160, 240],
    }
    assert (found["rewards"].type, found["rewards"].elements) == ("deque", "float")
    assert (found["counts"].type, found["counts"].holds_graph) == ("defaultdict", False)
    assert census.seconds > 0.0


def test_losses_with_their_graphs() -> None:
    census = Census()

    def script() -> None:
        weight = torch.ones(1, requires_grad=True)
        kept: list[torch.Tensor] = []
        numbers: list[float] = []
        detached: list[torch.Tensor] = []
        total = weight * 0.0
        for _ in range(3):
            for _ in range(100):
                loss = weight * 2.0
                total = total + loss
                kept.append(loss)
                numbers.append(loss.item())
                detached.append(loss.detach())
            census.take(sys._getframe())

    script()
    found = rows(census)
    assert {name for name, row in found.items() if row.holds_graph} == {"kept", "total"}
    assert [size for _, size in found["kept"].sizes] == [100, 200, 300]
    assert found["total"].type == "graph"
    lengths = [size for _, size in found["total"].sizes]
    assert lengths[2] - lengths[1] == lengths[1] - lengths[0] == 100  # an addition for each loss


def test_two_names_of_one_list() -> None:
    census = Census()

    def script() -> None:
        history = [0] * 100
        agent, other = Holder(history=history), Holder(history=history)
        for _ in range(2):
            agent.history.append(0)
            other.history.append(0)
            census.take(sys._getframe())

    script()
    assert {"history"} == set(rows(census))


def test_odd_objects_are_not_asked() -> None:
    census = Census()

    def script() -> int:
        held = loud, slots, inventive, odd, liar = Loud(), Slots(), Inventive(), OddDict(), Liar()
        strange = OddList([1] * 100)
        huge = Holder(**{f"x{k}": k for k in range(50_000)})
        circle = Holder(rows=[0] * 100)
        circle.itself = circle
        for _ in range(2):
            census.take(sys._getframe())
        return sum(id(one) for one in (loud, slots, inventive, odd, liar, held, strange, huge))

    script()
    found = rows(census)
    assert [size for _, size in found["strange"].sizes] == [100, 100]
    assert set(found) == {"strange", "circle.rows", "loud.rows"}


def test_lazy_modules_are_not_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[str] = []

    class Lazy(ModuleType):
        """Imports something whenever it is asked for anything."""

        def __getattribute__(self, name: str) -> Any:
            woken.append(name)
            return super().__getattribute__(name)

    lazy = Lazy("lazy_one")
    lazy.__file__, lazy.rows = "/home/me/lazy_one.py", [0] * 100  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "odd_one", Inventive())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "lazy_one", lazy)
    census = Census()
    woken.clear()
    for _ in range(2):
        census.take(None)
    assert woken == []
    assert ("rows", "lazy_one") in {(row.name, row.where) for row in census.describe()}  # it was looked at


def test_variables_are_let_go_of() -> None:
    """Before Python 3.13, reading a frame's variables leaves a dict behind that holds them."""

    def script() -> tuple[bool, int]:
        value = Holder(name="value")
        before = sys.getrefcount(value)
        seen = dict(read_local_variables(sys._getframe()))["value"] is value
        return seen, sys.getrefcount(value) - before

    assert script() == (True, 0)


def test_a_function_that_keeps_its_locals_is_let_be() -> None:
    def script() -> tuple[dict[str, Any], list[tuple[str, Any]]]:
        settings = locals()
        learning_rate = 0.1
        return settings, read_local_variables(sys._getframe()) if learning_rate else []

    assert script() == ({}, [])


def test_a_failure_is_written_down_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: dict[str, PartFailure] = {}
    monkeypatch.setattr(tally, "failures", failures)
    monkeypatch.setattr("flashdqn.doctor.watch.growth.roots", lambda frame: 1 / 0)
    Census().take(None)
    assert [str(failure) for failure in failures.values()] == [
        "count_all: ZeroDivisionError: division by zero"
    ]
