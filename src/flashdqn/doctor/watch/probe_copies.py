"""Copies of the script's networks and optimizers, and the time that something takes on them, in turns.

Nothing here touches the script's own tensors.
"""

from __future__ import annotations

import copy
import statistics
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from .counters import Forward

ROUNDS = 15
TURNS = 20
"""Times a round, at most."""

SLOWEST = 3.0
"""Seconds of a turn that is not repeated."""

budget = [1.0]
"""Seconds for each probe."""


class TooSlowError(Exception):
    """One turn takes so long that it cannot be repeated in the time that is left."""


def time_in_turns(*ways: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """The median seconds of each way, timed in turns."""
    return [statistics.median(values) for values in time_each_turn(*ways, rounds=rounds)]


def time_each_turn(
    *ways: Callable[[], object], rounds: int = ROUNDS, seconds: float | None = None
) -> list[list[float]]:
    """The seconds of each way in each turn. The first time of each is not counted, unless there is no other."""
    times: list[list[float]] = [[time_once(way)] for way in ways]
    turn_seconds = sum(values[0] for values in times)
    if turn_seconds > SLOWEST:
        raise TooSlowError(f"one turn takes {turn_seconds:.1f} s")
    end = perf_counter() + (seconds or budget[0])
    for turn in range(rounds * TURNS):
        for number, way in enumerate(ways):
            spent = time_once(way)
            if turn:
                times[number].append(spent)
            else:
                times[number][0] = spent
        if perf_counter() > end:
            break
    return times


def time_once(way: Callable[[], object]) -> float:
    """The seconds of one turn, with what it left to the GPU."""
    torch = sys.modules["torch"]
    start = perf_counter()
    way()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return perf_counter() - start


def copy_inputs(forward: Forward, batch: int | None = None) -> Any:
    """A copy of the network's input, or a batch of copies of its first row; an input of one axis is one row."""
    data = forward.data.detach().clone()
    if batch is not None and data.dim() == 1:
        data = data[None]
    return data if batch is None else data[:1].repeat(batch, *(1 for _ in data.shape[1:]))


def copy_network(module: Any) -> Any:
    """A copy that a probe may change. Some networks hold results of earlier calls, which cannot be copied with
    the graph behind them."""
    tensor = sys.modules["torch"].Tensor
    original = tensor.__deepcopy__

    def copy_tensor(self: Any, memo: Any) -> Any:
        return original(self, memo) if self.is_leaf else self.detach().clone()

    tensor.__deepcopy__ = copy_tensor
    try:
        return copy.deepcopy(module).requires_grad_(True)
    finally:
        tensor.__deepcopy__ = original


def sum_outputs(result: Any) -> Any:
    """One number from whatever a network returns: tensors of numbers, in tuples, lists and dicts."""
    if hasattr(result, "is_floating_point"):
        return result.float().sum()
    parts = (
        result.values() if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else ()
    )
    return sum(sum_outputs(part) for part in parts)


def copy_optimizer(optimizer: Any, made_of: dict[int, Any] | None = None, **changes: Any) -> Any:
    """An optimizer of the same kind and state, on copies of the parameters: on those of a copied network, where
    `made_of` names them by the ids of the originals."""
    torch = sys.modules["torch"]
    groups = []
    pairs = []
    for group in optimizer.param_groups:
        parameters = []
        for old in group["params"]:
            if made_of is not None and id(old) in made_of:
                parameters.append(made_of[id(old)])
                pairs.append((old, made_of[id(old)]))
                continue
            if made_of is not None:
                continue
            new = torch.nn.Parameter(old.detach().clone())
            new.grad = torch.zeros_like(new) if old.grad is None else old.grad.detach().clone()
            parameters.append(new)
            pairs.append((old, new))
        known = {name: value for name, value in changes.items() if name in group}
        groups.append({**group, "params": parameters, **known})
    made = type(optimizer)(groups)
    for old, new in pairs:
        made.state[new] = {
            key: copy_state(key, value, new, changes) for key, value in optimizer.state.get(old, {}).items()
        }
    return made


def copy_state(key: str, value: Any, parameter: Any, changes: dict[str, Any]) -> Any:
    """A part of an optimizer's state. Fused and captured steps count on the parameter's own device."""
    torch = sys.modules["torch"]
    if key == "step" and (changes.get("fused") or changes.get("capturable")):
        return torch.as_tensor(float(value), dtype=torch.float32, device=parameter.device)
    return value.clone() if hasattr(value, "clone") else value
