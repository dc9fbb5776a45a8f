"""Counting part of the time: it rests where it costs too much, and its numbers stay right."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from flashdqn.doctor.watch import costs, torch_hooks
from flashdqn.doctor.watch import counters as tally
from flashdqn.doctor.watch import duty_cycle as turns
from flashdqn.doctor.watch import env_step as steps
from flashdqn.doctor.watch.torch_hooks import METHODS, Methods


class Base:
    is_cuda = False

    def numel(self) -> int:
        return 1

    def __bool__(self) -> bool:
        return True


class Tensor(Base):
    """Defines the methods of torch's tensor, except one that it inherits."""


def answer(self: Tensor, *args: object) -> int:
    return 42


for _name in METHODS:
    if _name != "__bool__":
        setattr(Tensor, _name, answer)


class Module:
    def __call__(self) -> int:
        return 7


class World:
    """A clock, a script that calls `.item()` several times for each step, and the turns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.methods = Methods()
        self.counters = tally.Counters()
        for module in (tally, torch_hooks, turns):
            if hasattr(module, "counters"):
                monkeypatch.setattr(module, "counters", self.counters)
        monkeypatch.setattr(tally, "sites", {})
        monkeypatch.setattr(tally, "by_instruction", {})
        monkeypatch.setattr(turns, "first_step", [0.5])
        monkeypatch.setattr(turns, "methods", self.methods)
        monkeypatch.setattr(torch_hooks, "has_compiled", lambda: False)  # whatever other tests compiled
        monkeypatch.setattr(turns, "perf_counter", lambda: self.now)
        self.methods.prepare(Tensor, Module, lambda: False)
        self.methods.switch(on=True)
        self.turns = turns.Turns()
        self.turns.costs.method = 5e-5

    def window(self, steps: int, calls: int) -> bool:
        """One second; returns whether the calls were counted."""
        counted, tensor = [], Tensor()
        for _ in range(steps):
            self.counters.vector_steps += 1
            self.counters.hooks += 1  # the note of the step itself
            self.methods.settle()
            counted.append(self.methods.counting)
            for _ in range(calls):
                assert tensor.item() == 42  # type: ignore[attr-defined]
        self.now += 1.0
        self.turns.take()
        return counted[0]

    def items(self) -> float:
        return sum(entry[tally.COUNT] for (kind, _, _), entry in tally.sites.items() if kind == "item")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World(monkeypatch)
    yield world
    world.methods.switch(on=False)


def test_cheap_counting_never_rests(world: World) -> None:
    assert [world.window(steps=100, calls=2) for _ in range(10)] == [True] * 10  # one percent of the time
    assert world.items() == 2000
    assert world.counters.counted.vector_steps == 1000


def test_costly_counting_rests_as_long_as_it_was_costly(world: World) -> None:
    # 1000 calls at 0.05 ms are 0.05 s: more than three times what it may cost, so four windows of rest.
    pattern = [world.window(steps=100, calls=10) for _ in range(11)]
    assert pattern == [True, *[False] * 4, True, *[False] * 4, True]


def test_rates_stay_right(world: World) -> None:
    for calls in (10,) * 20:
        world.window(steps=100, calls=calls)
    counted = world.counters.counted
    assert world.counters.vector_steps == 2000
    assert 0 < counted.vector_steps < 2000
    assert world.items() / counted.vector_steps == 10  # the true number for each step
    assert counted.seconds == counted.vector_steps / 100 - 1  # training began at the end of the first


def test_what_rests_is_as_it_was(world: World) -> None:
    stand_in = vars(Tensor)["item"]
    assert stand_in is not answer
    assert "__bool__" in vars(Tensor)
    world.methods.switch(on=False)
    assert vars(Tensor)["item"] is answer
    assert "__bool__" not in vars(Tensor)  # inherited again
    world.methods.switch(on=False)
    world.methods.switch(on=True)
    assert vars(Tensor)["item"] is stand_in
    assert bool(Tensor())


def test_networks_are_called_as_before_while_it_rests(world: World) -> None:
    own = world.methods.calls[False]
    assert vars(Module)["__call__"] is world.methods.calls[True]
    world.methods.wanted = False
    assert vars(Module)["__call__"] is not own  # the script's thread may be inside a network
    world.methods.settle()
    assert vars(Module)["__call__"] is own
    assert Module()() == 7


def test_a_script_without_steps_is_switched_all_the_same(world: World) -> None:
    for _ in range(1000):
        Tensor().item()  # type: ignore[attr-defined]
    world.now += 1.0
    world.turns.take()
    assert not world.methods.counting


def test_layers_within_networks_count_as_costs(world: World) -> None:
    world.turns.costs.layer = 1e-5
    world.counters.layers = 10_000
    world.now += 1.0
    world.turns.take()
    assert world.turns.loads == [pytest.approx(0.1)]


def test_measuring_the_costs_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(costs, "perf_counter", lambda: float(next(ticks)))
    monkeypatch.setattr(torch_hooks.methods, "tensor", None)
    monkeypatch.setattr(costs, "methods", Methods())
    costs.methods.prepare(Tensor, Module, lambda: False)
    tables = (
        tally.sites,
        tally.by_instruction,
        tally.widths,
        steps.steps_of,
        steps.began_at,
        tally.first_step,
    )
    before = [vars(tally.counters).copy(), *(table.copy() for table in tables)]
    torch = SimpleNamespace(
        zeros=lambda _: Tensor(), nn=SimpleNamespace(Identity=lambda: lambda tensor: tensor)
    )
    found = costs.measure_costs(torch)  # type: ignore[arg-type]
    assert [vars(tally.counters), *tables] == before
    assert vars(Tensor)["item"] is answer
    assert min(found.method, found.layer, found.step, found.update) > 0


def test_all_that_was_counted_has_its_price(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "counters", world.counters)
    vars(world.counters).update(vector_steps=10, updates=5, hooks=10 + 2 * 5 + 7, layers=3)
    price = costs.Costs()
    price.method, price.layer, price.step, price.update = 1.0, 10.0, 100.0, 1000.0
    assert price.spent() == 7 * 1 + 3 * 10 + 10 * 100 + 5 * 1000


def test_without_torch_there_is_nothing_to_switch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "methods", Methods())
    world.counters.hooks = 10**6
    world.now += 1.0
    world.turns.take()
    assert world.turns.resting == 0


def test_only_the_scripts_own_calls_are_counted(world: World) -> None:
    sorted([Tensor()], key=Tensor.item)  # type: ignore[attr-defined]
    assert world.items() == 1  # from this file
    namespace: dict[str, object] = {"tensor": Tensor()}
    exec(compile("tensor.item()", sys.modules["json"].__file__ or "", "exec"), namespace)
    assert world.items() == 1  # not from the standard library
