"""The replay ring: `[time, env, …]`, preallocated on the learner's device, each observation stored once.

     slot          t            t+1          t+2          t+3
     obs           s0           s1           s2 (last)    s0'
     action        a0           a1           (ignored)    a0'
     reward        r0           r1           0            r0'
     kind          STEP         TERMINATED   RESET        STEP

Row t is the transition s0 → s1, whose next observation lies in row t+1. The row that holds an episode's last
observation is not a transition (its action was ignored: next-step autoreset); its kind says so. The newest
slot, `head`, holds the current observation and waits for its action; every other filled row is complete.

`head` and `filled` are tensors on the device, so a CUDA graph can hold appending and sampling.

Where observations are stacks of frames (`ObsSpec.stack`), a row holds only its newest frame. Stacks are assembled
on reading: from the rows before, but never from before the first row of the episode, which `age` tells. The oldest
rows of a full ring only serve as frames of other stacks, and are no longer transitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from flashdqn.core.contract import ObsSpec
from flashdqn.core.saved import require_range, require_same_kind
from flashdqn.core.types import Step

#: The longest time that a step can take: it is stored in a byte.
MOST_ELAPSED = 255


class Kind(IntEnum):
    """What happened in a row."""

    STEP = 0
    TERMINATED = 1
    TRUNCATED = 2
    RESET = 3


class CellRow(NamedTuple):
    """A row whose columns come from independent streams: what completes the newest row, and what opens the next."""

    action: Tensor  # [N] int64
    reward: Tensor  # [N] float32
    kind: Tensor  # [N] uint8
    frame: Tensor  # [N, *frame]: of the next row
    mask: Tensor | None  # [N, A] bool: of the next row
    age: Tensor  # [N] uint8: of the next row
    cut: Tensor  # [N] bool: the stream that this column held does not go on; its last step is truncated


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
        legal: Callable[[Tensor], Tensor] | None = None,
        combinations: int | None = None,
        timed: bool = False,
    ) -> None:
        """`masked`: store the mask of every observation. `legal`: computes masks from observations instead.
        `combinations`: how many action numbers there are, if actions have branches. `timed`: store how much time
        each step took."""
        rows = rows_for_capacity(capacity, num_envs, obs_spec.stack)
        self.rows, self.num_envs, self.device, self.stack = rows, num_envs, device, obs_spec.stack
        self.action_count = combinations or num_actions
        frame = obs_spec.frame
        self.obs = torch.zeros((rows, num_envs, *frame.shape), dtype=frame.dtype, device=device)
        self.action = torch.zeros((rows, num_envs), dtype=action_dtype(self.action_count), device=device)
        self.reward = torch.zeros((rows, num_envs), dtype=torch.float32, device=device)
        self.kind = torch.full((rows, num_envs), Kind.RESET, dtype=torch.uint8, device=device)
        # frames of the same episode before a row's own, as far as a stack reaches
        self.age = torch.zeros((rows, num_envs), dtype=torch.uint8, device=device) if self.stack > 1 else None
        self.mask = (
            torch.ones((rows, num_envs, num_actions), dtype=torch.bool, device=device) if masked else None
        )
        self.elapsed = torch.ones((rows, num_envs), dtype=torch.uint8, device=device) if timed else None
        self.legal = legal
        self.head = torch.zeros(1, dtype=torch.int64, device=device)
        self.filled = torch.zeros((), dtype=torch.int64, device=device)  # complete rows
        self.ended = torch.zeros(num_envs, dtype=torch.bool, device=device)  # in the last append

    def start(self, obs: Tensor, mask: Tensor | None = None) -> None:
        """Forget everything and store the first observations."""
        self.head.zero_()
        self.filled.zero_()
        self.ended.zero_()
        if self.age is not None:
            self.age[0].zero_()
        self._place(obs, mask)

    def append(self, action: Tensor, step: Step) -> None:
        """Complete the newest row with what the environments returned, and open the next one."""
        kind = step.truncated.to(torch.uint8).mul_(int(Kind.TRUNCATED))
        kind.masked_fill_(step.terminated, int(Kind.TERMINATED))
        kind.masked_fill_(self.ended, int(Kind.RESET))
        self.action.index_copy_(0, self.head, action.to(self.action.dtype)[None])
        self.reward.index_copy_(0, self.head, step.reward[None])
        self.kind.index_copy_(0, self.head, kind[None])
        if self.elapsed is not None and step.elapsed is not None:
            self.elapsed.index_copy_(0, self.head, step.elapsed[None])
        if self.age is not None:
            age = self.age.index_select(0, self.head).add_(1).clamp_(max=self.stack - 1)
            age.masked_fill_(self.ended, 0)
        torch.logical_or(step.terminated, step.truncated, out=self.ended)
        self.head.add_(1).remainder_(self.rows)
        self.filled.add_(1).clamp_(max=self.rows - 1)
        if self.age is not None:
            self.age.index_copy_(0, self.head, age)
        self._place(step.obs, step.mask)

    def append_cells(self, cells: CellRow) -> None:
        """Complete the newest row and open the next one, with kinds and ages that the caller knows (`lanes.py`)."""
        before = (self.head - 1) % self.rows
        last = self.kind.index_select(0, before)
        last.masked_fill_((last == int(Kind.STEP)) & cells.cut, int(Kind.TRUNCATED))
        self.kind.index_copy_(0, before, last)
        self.action.index_copy_(0, self.head, cells.action.to(self.action.dtype)[None])
        self.reward.index_copy_(0, self.head, cells.reward[None])
        self.kind.index_copy_(0, self.head, cells.kind[None])
        self.ended.copy_((cells.kind == int(Kind.TERMINATED)) | (cells.kind == int(Kind.TRUNCATED)))
        self.head.add_(1).remainder_(self.rows)
        self.filled.add_(1).clamp_(max=self.rows - 1)
        if self.age is not None:
            self.age.index_copy_(0, self.head, cells.age[None])
        self.obs.index_copy_(0, self.head, cells.frame[None])
        if self.mask is not None and cells.mask is not None:
            self.mask.index_copy_(0, self.head, cells.mask[None])

    @property
    def readable(self) -> Tensor:
        """Number of complete rows whose frames are all still in the ring."""
        return self.filled if self.stack == 1 else self.filled.clamp(max=self.rows - self.stack)

    def observations(self, slots: Tensor) -> Tensor:
        """The observations at `slots` ([B], row · num_envs + environment), with stacks assembled: [B, *obs]."""
        frames = self.obs.flatten(0, 1)
        if self.age is None:
            return frames[slots]
        back = torch.arange(self.stack - 1, -1, -1, device=slots.device)
        back = torch.minimum(back, self.age.view(-1)[slots][:, None])  # [B, k]: rows before each slot's own
        return frames[(slots[:, None] - back * self.num_envs) % len(frames)].flatten(1, 2)

    def newest(self) -> Tensor:
        """The current observations, [N, *obs]."""
        return self.observations(self.head * self.num_envs + torch.arange(self.num_envs, device=self.device))

    def _place(self, obs: Tensor, mask: Tensor | None) -> None:
        self.obs.index_copy_(0, self.head, obs[:, -self.obs.shape[2] :][None])
        if self.mask is not None and mask is not None:
            self.mask.index_copy_(0, self.head, mask[None])

    def cut_off(self) -> None:
        """End all episodes here, as truncated; new ones follow, as after a resume without saved games."""
        before = (self.head - 1) % self.rows
        kind = self.kind.index_select(0, before)
        self.kind.index_copy_(0, before, kind.masked_fill_(kind == int(Kind.STEP), int(Kind.TRUNCATED)))
        self.ended.fill_(True)

    def used_rows(self) -> int:
        """Number of rows in use, including the newest; asks the device."""
        return self.rows if int(self.filled) == self.rows - 1 else int(self.head) + 1

    def learned_from(self) -> tuple[Tensor, Tensor]:
        """Observations and rewards of the rows in use; asks the device."""
        used = self.used_rows()
        return self.obs[:used], self.reward[:used]

    def state_dict(self) -> dict[str, Tensor]:
        """The rows in use, and the position of the ring."""
        used = self.used_rows()
        state = {name: column[:used] for name, column in self._columns().items()}
        return state | {"head": self.head, "filled": self.filled, "ended": self.ended}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from where `state_dict` was taken; a CheckpointError if it is not a state of this ring."""
        self._check(state)
        for name, column in self._columns().items():
            column[: len(state[name])].copy_(state[name])
        for name in ("head", "filled", "ended"):
            getattr(self, name).copy_(state[name])

    def _check(self, state: Mapping[str, Tensor]) -> None:
        """Refuse positions, actions and kinds that cannot be: compiled code takes them as indices, unchecked."""
        for name in ("head", "filled", "ended"):
            require_same_kind(f"ring.{name}", state[name], getattr(self, name))
        require_range("ring.head", state["head"], 0, self.rows - 1)
        require_range("ring.filled", state["filled"], 0, self.rows - 1)
        used = self.rows if int(state["filled"]) == self.rows - 1 else int(state["head"]) + 1
        for name, column in self._columns().items():
            require_same_kind(f"ring.{name}", state[name], column[:used])
        require_range("ring.filled", state["filled"], 0, used - 1)
        require_range("ring.action", state["action"], 0, self.action_count - 1)
        require_range("ring.kind", state["kind"], 0, max(Kind))
        if self.age is not None:
            require_range("ring.age", state["age"], 0, self.stack - 1)

    def _columns(self) -> dict[str, Tensor]:
        columns = {"obs": self.obs, "action": self.action, "reward": self.reward, "kind": self.kind}
        more = {"mask": self.mask, "age": self.age, "elapsed": self.elapsed}
        return columns | {name: column for name, column in more.items() if column is not None}


def rows_for_capacity(capacity: int, num_envs: int, stack: int = 1) -> int:
    """Rows for `capacity` transitions, one more for the observation that waits for its action, and the frames
    that the stack of the oldest transition needs."""
    return -(-capacity // num_envs) + stack


def action_dtype(num_actions: int) -> torch.dtype:
    """The smallest dtype that holds every action."""
    if num_actions <= 256:
        return torch.uint8
    return torch.int32 if num_actions <= 2**31 else torch.int64


def ring_bytes(
    capacity: int,
    num_envs: int,
    obs_spec: ObsSpec,
    num_actions: int,
    masked: bool,
    combinations: int | None = None,
    timed: bool = False,
) -> int:
    """Bytes that a ring will take, known before it is created."""
    action = action_dtype(combinations or num_actions).itemsize
    slot = obs_spec.frame.nbytes + action + 4 + 1  # the reward has 4, the kind 1
    slot += (num_actions if masked else 0) + (1 if obs_spec.stack > 1 else 0) + int(timed)
    return rows_for_capacity(capacity, num_envs, obs_spec.stack) * num_envs * slot
