"""From our action numbers to a Gymnasium environment's own actions.

Discrete       a number from 0, `start` added
MultiDiscrete  a branch for each number
MultiBinary    a branch of two for each bit
Box            with `--env.action-bins k`: k values from low to high in each dimension, a branch for each dimension

What would be a single branch is a plain action.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from gymnasium import Space, spaces

from flashdqn.core.branching import check_branches
from flashdqn.core.errors import EnvError
from flashdqn.envs.gymnasium.spaces import Array


@dataclass(frozen=True)
class ActionCoder:
    """The numbers of a space's actions. `branches` is empty where an action is a single choice."""

    num_actions: int  # with branches, the choices in all of them
    branches: tuple[int, ...]
    names: tuple[str, ...]  # of all choices; empty: they have none
    decode: Callable[[Array], Array]  # [N] → the environment's own actions, [N, …]
    first_action: int = 0  # the environment's own number for action 0, where actions are plain numbers

    def first_legal(self, mask: Array) -> Array:
        """The first legal action, [N], by masks, [N, A]."""
        if not self.branches:
            return np.asarray(mask.argmax(axis=1))
        ends = np.cumsum(self.branches)
        choices = [part.argmax(axis=1) for part in np.split(mask, ends[:-1], axis=1)]
        return np.asarray(np.ravel_multi_index(tuple(choices), self.branches), dtype=np.int64)

    def has_legal(self, mask: Array) -> Array:
        """Whether there is a legal action, [N]: one choice in every branch at least."""
        if not self.branches:
            return np.asarray(mask.any(axis=1))
        begins = np.cumsum((0, *self.branches[:-1]))
        return np.asarray(np.logical_or.reduceat(mask, begins, axis=1).all(axis=1))


def make_action_coder(space: Space[object], name: str, bins: int = 0) -> ActionCoder:
    """The coder of an action space; a space without a finite number of actions is refused."""
    if bins and not isinstance(space, spaces.Box):
        raise EnvError(
            f"{name} has actions of the kind {type(space).__name__}, which need no bins: leave out "
            "--env.action-bins."
        )
    if isinstance(space, spaces.Discrete):
        first = int(space.start)
        return ActionCoder(int(space.n), (), (), lambda action: action + first, first)
    if isinstance(space, spaces.MultiDiscrete):
        sizes, starts = space.nvec.reshape(-1), space.start.reshape(-1)
        check_branches(name, tuple(sizes.tolist()))  # before anything is made for each of them
        names = [f"part {k}: {starts[k] + i}" for k in range(len(sizes)) for i in range(sizes[k])]
        return _make_branched(space, name, sizes.tolist(), names, lambda choices: choices + starts)
    if isinstance(space, spaces.MultiBinary):
        count = math.prod(space.shape)
        check_branches(name, (2,) * count)
        names = [f"bit {k}: {'off' if i == 0 else 'on'}" for k in range(count) for i in range(2)]
        return _make_branched(space, name, [2] * count, names, lambda choices: choices)
    if isinstance(space, spaces.Box):
        return _make_binned(space, name, bins)
    raise EnvError(
        f"{name} has actions of the kind {type(space).__name__}. A Discrete, MultiDiscrete or MultiBinary space is "
        "needed, or a Box with --env.action-bins: wrap the environment so that it has one of these."
    )


def _make_binned(space: spaces.Box, name: str, bins: int) -> ActionCoder:
    if not bins:
        raise EnvError(
            f"{name} has actions that are continuous: DQN chooses among a finite number of them. Use "
            "--env.action-bins 7 to choose among 7 values in each dimension."
        )
    low, high = (np.asarray(bound, dtype=np.float64).reshape(-1) for bound in (space.low, space.high))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise EnvError(
            f"{name} has continuous actions without bounds, so --env.action-bins cannot divide them: wrap the "
            "environment so that its action space has a finite low and high."
        )
    check_branches(name, (bins,) * len(low))
    values = np.linspace(low, high, bins)  # [bins, D]
    columns = np.arange(len(low))
    several = len(low) > 1
    names = [
        f"part {k}: {value:.3g}" if several else f"{value:.3g}" for k in columns for value in values[:, k]
    ]
    return _make_branched(space, name, [bins] * len(low), names, lambda choices: values[choices, columns])


def _make_branched(
    space: Space[object], name: str, sizes: list[int], names: list[str], to_own: Callable[[Array], Array]
) -> ActionCoder:
    """The coder for choices, [N, D], that `to_own` turns into the environment's numbers, [N, D]."""
    if 0 in sizes or not sizes:
        raise EnvError(f"{name} has an action space without actions: {space}.")
    branches = tuple(sizes)

    def decode(action: Array) -> Array:
        choices = np.stack(np.unravel_index(action, branches), axis=1)
        return np.asarray(to_own(choices).reshape(len(action), *(space.shape or ())), dtype=space.dtype)

    return ActionCoder(sum(branches), branches if len(branches) > 1 else (), tuple(names), decode)
