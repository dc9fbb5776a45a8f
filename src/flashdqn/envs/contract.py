"""The contract of a vectorised environment: batched tensors in and out, on one device.

One autoreset rule, Gymnasium's *next step*: the step in which an episode ends returns its true last
observation; the following step ignores its action, starts a new episode and returns the first observation
of it, with reward 0 and neither flag set. So every observation is computed once and can be stored once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from flashdqn.types import Step


@dataclass(frozen=True)
class ObsSpec:
    """Shape and dtype of one observation, without the batch axis."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of one observation."""
        return int(torch.Size(self.shape).numel()) * self.dtype.itemsize


@runtime_checkable
class VecEnv(Protocol):
    """`num_envs` copies of one task, stepped together. `flashdqn.envs.check_env` tests one against this.

    An environment whose games cannot be saved says `resumable = False`. Its `state_dict` holds what it needs for a
    deterministic new start, and after `load_state_dict` the next step ignores its action and starts a new episode
    in every row, as after an end.
    """

    name: str
    num_envs: int
    num_actions: int
    obs_spec: ObsSpec
    device: torch.device
    #: names of the numbers that sum up an episode, "score" first where the task has one
    outcome_names: tuple[str, ...]

    @property
    def mask(self) -> Tensor | None:
        """Legal actions in the present observations, [N, A] bool; None where every action is legal."""

    @property
    def outcomes(self) -> Tensor:
        """[N, len(outcome_names)] float32; a row holds once its episode ended in the last step."""

    def reset(self, seed: int) -> Tensor:
        """Start an episode in every environment; the same seed gives the same episodes. Returns obs [N, …]."""

    def step(self, action: Tensor) -> Step:
        """Take one action, [N] int64, in every environment."""

    def state_dict(self) -> dict[str, Tensor]:
        """Everything needed to go on from here, as copies."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from where `state_dict` was taken."""


def resumable(env: VecEnv) -> bool:
    """Whether `load_state_dict` brings back the games themselves; so it is unless the environment says no."""
    return bool(getattr(env, "resumable", True))


def capturable(env: VecEnv) -> bool:
    """Whether a CUDA graph can hold its steps: all on the device, in buffers that stay, nothing read back."""
    return bool(getattr(env, "capturable", False))


def close(env: VecEnv) -> None:
    """End what an environment has running besides itself, such as worker processes; most have nothing."""
    if callable(end := getattr(env, "close", None)):
        end()
