"""The replay ring: `[time, env, …]`, preallocated on the learner's device, each observation stored once.

     slot          t            t+1          t+2          t+3
     obs           s0           s1           s2 (last)    s0'
     action        a0           a1           (ignored)    a0'
     reward        r0           r1           0            r0'
     kind          STEP         TERMINATED   RESET        STEP

Row t is the transition s0 → s1, whose next observation lies in row t+1. The row that holds an episode's last
observation is no transition (its action was ignored: next-step autoreset); its kind says so. The newest
slot, `head`, holds the present observation and waits for its action; every other filled row is complete.

`head` and `filled` are tensors on the device, so that appending and sampling can live inside a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import torch
from torch import Tensor

from flashdqn.envs.contract import ObsSpec
from flashdqn.types import Step


class Kind(IntEnum):
    """What became of a row."""

    STEP = 0
    TERMINATED = 1
    TRUNCATED = 2
    RESET = 3


class Ring:
    """Rows of `num_envs` transitions; the newest overwrite the oldest."""

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        obs_spec: ObsSpec,
        num_actions: int,
        device: torch.device,
        masked: bool = False,
    ) -> None:
        rows = rows_for(capacity, num_envs)
        self.rows, self.num_envs, self.device = rows, num_envs, device
        self.obs = torch.zeros((rows, num_envs, *obs_spec.shape), dtype=obs_spec.dtype, device=device)
        self.action = torch.zeros((rows, num_envs), dtype=action_dtype(num_actions), device=device)
        self.reward = torch.zeros((rows, num_envs), dtype=torch.float32, device=device)
        self.kind = torch.full((rows, num_envs), Kind.RESET, dtype=torch.uint8, device=device)
        self.mask = (
            torch.ones((rows, num_envs, num_actions), dtype=torch.bool, device=device) if masked else None
        )
        self.head = torch.zeros(1, dtype=torch.int64, device=device)
        self.filled = torch.zeros((), dtype=torch.int64, device=device)  # complete rows
        self.ended = torch.zeros(num_envs, dtype=torch.bool, device=device)  # by the last append

    def start(self, obs: Tensor, mask: Tensor | None = None) -> None:
        """Forget everything and take the first observations."""
        self.head.zero_()
        self.filled.zero_()
        self.ended.zero_()
        self._place(obs, mask)

    def append(self, action: Tensor, step: Step) -> None:
        """Complete the newest row with what the environments answered, and open the next one."""
        kind = step.truncated.to(torch.uint8).mul_(int(Kind.TRUNCATED))
        kind.masked_fill_(step.terminated, int(Kind.TERMINATED))
        kind.masked_fill_(self.ended, int(Kind.RESET))
        self.action.index_copy_(0, self.head, action.to(self.action.dtype)[None])
        self.reward.index_copy_(0, self.head, step.reward[None])
        self.kind.index_copy_(0, self.head, kind[None])
        torch.logical_or(step.terminated, step.truncated, out=self.ended)
        self.head.add_(1).remainder_(self.rows)
        self.filled.add_(1).clamp_(max=self.rows - 1)
        self._place(step.obs, step.mask)

    def _place(self, obs: Tensor, mask: Tensor | None) -> None:
        self.obs.index_copy_(0, self.head, obs[None])
        if self.mask is not None and mask is not None:
            self.mask.index_copy_(0, self.head, mask[None])

    def cut_off(self) -> None:
        """The episodes end here, truncated: what comes next starts anew, as after a resume without saved games."""
        before = (self.head - 1) % self.rows
        kind = self.kind.index_select(0, before)
        self.kind.index_copy_(0, before, kind.masked_fill_(kind == int(Kind.STEP), int(Kind.TRUNCATED)))
        self.ended.fill_(True)

    def used_rows(self) -> int:
        """Rows that hold something, the newest included; asks the device."""
        return self.rows if int(self.filled) == self.rows - 1 else int(self.head) + 1

    def learned_from(self) -> tuple[Tensor, Tensor]:
        """Observations and rewards of the rows that hold something; asks the device."""
        used = self.used_rows()
        return self.obs[:used], self.reward[:used]

    def state_dict(self) -> dict[str, Tensor]:
        """The rows in use, and where the ring stands."""
        used = self.used_rows()
        state = {name: column[:used] for name, column in self._columns().items()}
        return state | {"head": self.head, "filled": self.filled, "ended": self.ended}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from where `state_dict` was taken."""
        for name, column in self._columns().items():
            column[: len(state[name])].copy_(state[name])
        for name in ("head", "filled", "ended"):
            getattr(self, name).copy_(state[name])

    def _columns(self) -> dict[str, Tensor]:
        columns = {"obs": self.obs, "action": self.action, "reward": self.reward, "kind": self.kind}
        return columns if self.mask is None else columns | {"mask": self.mask}


def rows_for(capacity: int, num_envs: int) -> int:
    """Rows that hold `capacity` transitions, and one more for the observation that waits for its action."""
    return -(-capacity // num_envs) + 1


def action_dtype(num_actions: int) -> torch.dtype:
    """The smallest dtype that holds every action."""
    return torch.uint8 if num_actions <= 256 else torch.int32


def ring_bytes(capacity: int, num_envs: int, obs_spec: ObsSpec, num_actions: int, masked: bool) -> int:
    """Bytes that a ring will take, known before it is made."""
    slot = obs_spec.nbytes + action_dtype(num_actions).itemsize + 4 + 1 + (num_actions if masked else 0)
    return rows_for(capacity, num_envs) * num_envs * slot
