"""Observations as a user's own Gymnasium environment returns them, turned into what the network was trained on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flashdqn.core.contract import VecEnv
from flashdqn.envs.gymnasium.env import GymVecEnv
from flashdqn.envs.gymnasium.spaces import Array, Encoder, find_part
from flashdqn.envs.task import Reading


class Reader:
    """Reads observations of a space, alone or in a batch. With a stack they have the form of Gymnasium's
    `FrameStackObservation`: the frames along a first axis."""

    def __init__(self, encoder: Encoder, stack: int, to_own_actions: Callable[[Array], Array]) -> None:
        self.encoder, self.stack, self.to_own_actions = encoder, stack, to_own_actions

    def read(self, obs: Any) -> Reading | None:
        """Read observations; None if they are not of this space."""
        lead = self._lead(obs)
        alone = () if self.stack == 1 else (self.stack,)
        if lead is None or lead not in (alone, (lead[:1] + alone)):
            return None
        count = int(np.prod(lead, dtype=np.int64))
        batch = _merge_batch_axes(obs, len(lead), count)
        out = self.encoder.empty(count)
        self.encoder.write(batch, out)
        shape = (self.stack * out.shape[1], *out.shape[2:])
        mask = self.encoder.mask(batch)
        return Reading(out.reshape(-1, *shape), lead == alone, mask, self.to_own_actions)

    def _lead(self, obs: Any) -> tuple[int, ...] | None:
        """The axes in front of those of one observation; None if its parts disagree or are missing."""
        found: set[tuple[int, ...]] = set()
        for part in self.encoder.parts:
            try:
                array = find_part(obs, part.path)
            except (KeyError, IndexError, TypeError, ValueError):
                return None
            split = array.ndim - len(part.given)
            if split < 0 or array.shape[split:] != part.given:
                return None
            if part.kind.startswith("one-hot") and array.dtype.kind not in "iu":
                return None
            found.add(array.shape[:split])
        return found.pop() if len(found) == 1 else None


def _merge_batch_axes(obs: Any, axes: int, count: int) -> Any:
    """The observation with its first axes merged into one axis of `count`."""
    if isinstance(obs, dict):
        return {key: _merge_batch_axes(part, axes, count) for key, part in obs.items()}
    if isinstance(obs, tuple):
        return tuple(_merge_batch_axes(part, axes, count) for part in obs)
    array = np.asarray(obs)
    if array.dtype.kind in "USO":  # a text, which is not read
        return obs
    return array.reshape(count, *array.shape[axes:])


def find_reader(env: VecEnv) -> Reader | None:
    """The reader of an environment's raw observations, also inside wrappers; None if it is not a Gymnasium one."""
    inner: Any = env
    while not isinstance(inner, GymVecEnv):
        if not hasattr(inner, "env"):
            return None
        inner = inner.env
    return Reader(inner.vector.encoder, env.obs_spec.stack, inner.vector.actions.decode)
