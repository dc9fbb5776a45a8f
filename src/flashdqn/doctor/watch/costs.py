"""What counting costs: measured on calls like the script's, with and without counting, in turns.

Between two calls the processor's caches are filled with other data, as a script's own work does. With warm caches
a call takes half as long, and the measured cost would be too low.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter
from types import ModuleType, SimpleNamespace
from typing import Any

from . import counters as tally
from . import env_step as steps
from .classes import counted_step
from .counters import CODE, by_instruction, counters, first_step, local, sites
from .torch_hooks import make_step_post_hook, make_step_pre_hook, methods, optimizers

CALLS_FILE = "calibration"
ROUNDS = 25
FILL = 1 << 21
"""Bytes that are copied between two calls: more than a core's own caches hold."""


class Costs:
    """How many seconds longer something takes when it is watched."""

    def __init__(self) -> None:
        self.method = 1e-6
        """A tensor's method, or a network's call as a whole."""
        self.layer = 1e-6
        """A layer within a network."""
        self.step = 3e-6
        """A step of the environments."""
        self.update = 3e-6
        """A backward pass and an optimizer's step."""

    def spent(self) -> float:
        """Seconds spent on everything counted so far."""
        steps, updates = counters.vector_steps, counters.updates
        calls = count_switchable_calls(counters.hooks, steps, updates)
        return calls * self.method + counters.layers * self.layer + steps * self.step + updates * self.update


def count_switchable_calls(hooks: float, steps: float, updates: float) -> float:
    """The calls that are counted only part of the time. The steps of environments, and the backward pass and the
    optimizer's step of each update, are always counted."""
    return max(hooks - steps - 2 * updates, 0.0)


def measure_costs(torch: ModuleType) -> Costs:
    """Measure the costs on a tensor, a layer, an environment and an optimizer that do nothing."""
    costs = Costs()
    tensor, layer, watched = torch.zeros(1), torch.nn.Identity(), methods.counting
    with preserve_counters():
        local.in_module = 0
        costs.method = measure_added_time("tensor.item()", {"tensor": tensor}, switch_counting)
        local.in_module = 1  # as if the layer were inside a network
        costs.layer = measure_added_time("layer(tensor)", {"layer": layer, "tensor": tensor}, switch_counting)
        local.in_module = 0
        costs.step = measure_step_cost()
        costs.update = measure_update_cost() + costs.method
    methods.switch(on=watched)
    return costs


def switch_counting(on: bool, _: dict[str, Any]) -> None:
    """Count tensors' methods and networks' calls, or not."""
    methods.switch(on=on)


def measure_step_cost() -> float:
    """What the stand-in for an environment's step costs."""
    answer: tuple[Any, ...] = (None, 0.0, False, False, {})

    class Idle:
        def step(self, action: int) -> Any:
            return answer

    stand_ins = {False: Idle.step, True: counted_step(Idle.step)}

    def choose(on: bool, _: dict[str, Any]) -> None:
        Idle.step = stand_ins[on]  # type: ignore[method-assign]

    return measure_added_time("env.step(0)", {"env": Idle()}, choose)


def measure_update_cost() -> float:
    """What the hooks before and after an optimizer's step cost."""
    before, after = make_step_pre_hook(lambda: False), make_step_post_hook(lambda: False)

    def nothing(*_: Any) -> None:
        pass

    def choose(on: bool, scope: dict[str, Any]) -> None:
        scope["before"], scope["after"] = (before, after) if on else (nothing, nothing)

    empty = SimpleNamespace(param_groups=[])  # the watch may look at it meanwhile
    return measure_added_time("before(self, (), {}); after(self, (), {})", {"self": empty}, choose)


def measure_added_time(
    call: str, scope: dict[str, Any], choose: Callable[[bool, dict[str, Any]], None]
) -> float:
    """How much longer a call takes when it is counted: the median over many, in turns."""
    code = compile(f"start = clock(); {call}; seconds = clock() - start", CALLS_FILE, "exec")
    scope["clock"] = perf_counter
    times: dict[bool, list[float]] = {True: [], False: []}
    source, target = bytearray(FILL), bytearray(FILL)
    for _ in range(ROUNDS):
        for on, measured in times.items():
            choose(on, scope)
            target[:] = source
            exec(code, scope)
            measured.append(scope["seconds"])
    return max(median(times[True]) - median(times[False]), 1e-7)


@contextmanager
def preserve_counters() -> Iterator[None]:
    """Undo everything that is counted inside the block."""
    before, busy, look = dict(vars(counters)), list(tally.busy_thread), optimizers.look
    learned, bursts = list(tally.first_update), dict(vars(tally.bursts))
    began, held = list(first_step), [dict(optimizers.steps), dict(optimizers.held), dict(optimizers.seconds)]
    tables: list[tuple[dict[Any, int], dict[Any, int]]] = [
        (table, dict(table)) for table in (tally.widths, steps.steps_of, steps.began_at)
    ]
    optimizers.look = None
    frozen = tally.Counters()
    vars(frozen).update(before)
    tally.frozen[:] = [frozen]
    first_step[:] = began or [0.0]  # this must not count as the start of training
    try:
        yield
    finally:
        first_step[:] = began
        tally.busy_thread[:] = busy
        if not busy[0]:
            tally.busy_native[:] = busy
        vars(counters).update(before)
        tally.frozen.clear()
        tally.first_update[:] = learned
        vars(tally.bursts).update(bursts)
        optimizers.look = look
        for table, content in tables:
            table.clear()
            table.update(content)
        optimizers.steps, optimizers.held, optimizers.seconds = held
        for known in (sites, by_instruction):
            for key in [key for key, entry in known.items() if entry[CODE].co_filename == CALLS_FILE]:
                del known[key]
