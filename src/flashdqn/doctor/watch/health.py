"""Whether a script learns: gradients, outputs, targets, exploration and rewards, looked at about once a second.

Only with `--health`. The looks are on the script's own thread, just after an update.
"""

from __future__ import annotations

import math
import re
import sys
from collections import deque
from dataclasses import replace
from time import perf_counter
from typing import Any

from . import counters as tally
from .classes import watchers
from .counters import catch_failures, counters, note_failure
from .env_step import read_rewards_and_ends
from .growth import is_script_object, read_attributes, roots
from .health_rows import HealthLook, HealthRecord, ReplaySize, RewardCount
from .probe_copies import copy_inputs, copy_network
from .schema import WatchRecord
from .torch_hooks import methods

EVERY = 1.0
EPSILON = re.compile(r"^_?(eps|epsilon|exploration_rate|explore_rate|exploration_prob)$", re.IGNORECASE)
CAPACITY = re.compile(
    r"^_?(capacity|max_?size|max_?len|buffer_size|memory_size|mem_size|max_mem|size|limit)$"
)
LEAST_ROWS = 32


class Health:
    """What was seen; `on` is False unless it was asked for."""

    def __init__(self) -> None:
        self.on = False
        self.looks: list[HealthLook] = []
        self.outer = RewardCount()
        """Rewards as the script gets them."""
        self.inner = RewardCount()
        """Rewards inside wrappers: before they were clipped or scaled."""
        self.truncated = 0
        self.terminated = 0
        self.replays: dict[int, ReplaySize] = {}
        self._last = 0.0

    def is_due(self) -> bool:
        """Whether it is time to look again."""
        return self.on and perf_counter() - self._last > EVERY


health = Health()


@catch_failures
def look_at_update(optimizer: Any) -> None:
    """Note gradients, outputs, targets and exploration after an update."""
    health._last = perf_counter()
    torch = sys.modules["torch"]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    with torch.no_grad():
        squares = [float((p.grad.float() ** 2).sum()) for p in parameters if p.grad is not None]
        sizes = [float(p.abs().max()) for p in parameters if p.numel()]
        forwards = [f for f in list(tally.forwards.values()) if f.module is not None]
        outputs = [float(f.output.float().abs().max()) for f in forwards if f.graded and f.output is not None]
        trained = {id(p) for p in parameters}
        targets = [
            sum_parameters(f.module) for f in forwards if not f.graded and is_other_network(f.module, trained)
        ]
    health.looks.append(
        HealthLook(
            time=perf_counter() - tally.started,
            updates=counters.updates,
            gradient=math.sqrt(sum(squares)) if squares else 0.0,
            without=sum(p.grad is None for p in parameters),
            weight=max(sizes, default=0.0),
            output=max(outputs, default=0.0),
            targets=tuple(targets[:4]),
            epsilon=find_epsilon(),
        )
    )


def is_other_network(module: Any, trained: set[int]) -> bool:
    """Whether this network is not trained by the optimizer: a target, perhaps."""
    parameters = list(module.parameters())
    return bool(parameters) and not any(id(p) in trained for p in parameters)


def sum_parameters(module: Any) -> float:
    """A number that changes when the network does."""
    return float(sum(float(p.detach().double().sum()) for p in module.parameters()))


def find_epsilon() -> float | None:
    """The value of a variable or an attribute that is named like the chance of exploring."""
    for name, value, _ in roots(sys._getframe(2)):
        if is_chance(name, value):
            return float(value)
        if is_script_object(value):
            for key, part in read_attributes(value).items():
                if is_chance(key, part):
                    return float(part)
    return None


def is_chance(name: str, value: Any) -> bool:
    """Whether a variable is a chance of exploring, and not the small number of a division."""
    return type(value) is float and 1e-3 <= value <= 1.0 and EPSILON.match(name) is not None


def note_rewards(result: Any, into: RewardCount) -> None:
    """Note the rewards of a step."""
    try:
        reward, _ = read_rewards_and_ends(result)
        if hasattr(reward, "is_cuda") and reward.is_cuda:
            return
        values = reward.reshape(-1).tolist() if hasattr(reward, "reshape") else reward
        for value in values if isinstance(values, list) else [values]:
            into.add(float(value))
    except Exception as error:
        note_failure(note_rewards, error)


def note_ends(result: Any) -> None:
    """Count how episodes end, where the environment tells apart why."""
    if type(result) is not tuple or len(result) != 5:
        return
    for name, flags in (("terminated", result[2]), ("truncated", result[3])):
        number = int(flags.sum()) if hasattr(flags, "sum") else int(bool(flags))
        setattr(health, name, getattr(health, name) + number)


@catch_failures
def note_replay(replay: Any) -> None:
    """Note how many transitions a replay can hold, once."""
    if id(replay) in health.replays or len(health.replays) > 16:
        return
    sizes = [deque.maxlen.__get__(v) for v in read_attributes(replay).values() if issubclass(type(v), deque)]
    found = [size for size in sizes if size]
    found += [v for k, v in read_attributes(replay).items() if type(v) is int and CAPACITY.match(k) and v > 0]
    health.replays[id(replay)] = ReplaySize(type(replay).__name__, max(found, default=0))


def describe_health() -> HealthRecord | None:
    """The record; None if nobody asked."""
    if not health.on:
        return None
    return HealthRecord(
        looks=tuple(health.looks),
        outer=health.outer,
        inner=health.inner,
        truncated=health.truncated,
        terminated=health.terminated,
        replays=tuple(health.replays.values()),
        dead=None,
        units=0,
        dead_at_first=0,
    )


def count_dead_units(forward: Any) -> tuple[int, int, int] | None:
    """How many units behind a ReLU are zero for every row of a batch, how many there are, and how many are zero
    with new random weights; on a copy."""
    if forward is None or len(forward.data.shape) < 2 or forward.data.shape[0] < LEAST_ROWS:
        return None
    network, data = copy_network(forward.module).eval(), copy_inputs(forward)
    dead, units = count_silent_units(network, data)
    random: Any = sys.modules["torch"].random
    with random.fork_rng():  # the script's own numbers go on as if nothing had been drawn
        random.manual_seed(0)
        for part in network.modules():
            if hasattr(part, "reset_parameters"):
                part.reset_parameters()
    return dead, units, count_silent_units(network, data)[0]


def count_silent_units(network: Any, data: Any) -> tuple[int, int]:
    """How many units behind a ReLU are zero for every row, and how many there are."""
    torch: Any = sys.modules["torch"]
    functional, seen = torch.nn.functional, []
    original, plain, method = functional.relu, torch.relu, torch.Tensor.relu

    def relu(value: Any, *_: Any, **__: Any) -> Any:
        result = plain(value)
        seen.append(result.detach())
        return result

    functional.relu = torch.relu = torch.Tensor.relu = relu
    try:
        with torch.no_grad():
            network(data)
    finally:
        functional.relu, torch.relu, torch.Tensor.relu = original, plain, method
    active = [
        part.transpose(0, 1).reshape(part.shape[1], -1).gt(0).any(1) for part in seen if part.dim() >= 2
    ]
    units = sum(int(part.numel()) for part in active)
    return sum(int((~part).sum()) for part in active), units


def watch_health() -> None:
    """Begin to look at what is learned."""
    health.on = methods.keep_outputs = True
    watchers.outer, watchers.inner, watchers.replay = see_outer_step, see_inner_step, note_replay


def see_outer_step(result: Any) -> None:
    """A step as the script sees it."""
    note_rewards(result, health.outer)
    note_ends(result)


def see_inner_step(result: Any) -> None:
    """A step inside a wrapper."""
    if type(result) is tuple and len(result) >= 3:
        note_rewards(result, health.inner)


def add_dead_units(record: WatchRecord) -> WatchRecord:
    """The record with the dead units counted, on a copy of the network that learns most."""
    if record.health is None:
        return record
    learners = [
        f for f in tally.forwards.values() if f.graded and hasattr(f.data, "detach") and f.module is not None
    ]
    try:
        found = count_dead_units(max(learners, key=lambda f: f.seconds, default=None))
    except Exception as error:  # a network that cannot be copied
        note_failure(count_dead_units, error)
        found = None
    if found is None:
        return record
    return replace(
        record, health=replace(record.health, dead=found[0], units=found[1], dead_at_first=found[2])
    )
