"""An environment on the CPU for a learner on a GPU: one copy per step in each direction.

The result of a step is packed into one buffer of pinned memory and moves in a single copy, for which the host
does not wait. There are two such buffers, so the next step can be written while the last one is being copied. The
actions come back in one copy too. The host waits for this copy only, by its own event, and not for
the device's other work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from flashdqn.compute.kernels import cuda_available
from flashdqn.core.contract import (
    VecEnv,
    close_env,
    get_branches,
    get_cause_names,
    get_decoder,
    is_resumable,
    is_timed,
)
from flashdqn.core.types import Step

#: Number of buffers that take turns.
TURNS = 2
#: Every tensor begins at a multiple of this many bytes, so it can be read and written in the widest steps.
ALIGNMENT = 128


def place_env(make: Callable[[torch.device], VecEnv], device: torch.device) -> VecEnv:
    """A kernel environment for a learner on `device`; on the CPU if kernels cannot run there."""
    if device.type != "cuda" or cuda_available():
        return make(device)
    return HostEnv(make(torch.device("cpu")), device)


class HostEnv:
    """An environment on the CPU, as seen from `device`. Its state stays on the CPU."""

    def __init__(self, env: VecEnv, device: torch.device) -> None:
        self.env, self.device = env, device
        self.name, self.num_envs, self.num_actions = env.name, env.num_envs, env.num_actions
        self.obs_spec, self.outcome_names = env.obs_spec, env.outcome_names
        self.cause_names = get_cause_names(env)
        self.resumable, self.timed = is_resumable(env), is_timed(env)
        self.decoder, self.branches = get_decoder(env), get_branches(env)
        self.action_names: tuple[str, ...] = getattr(env, "action_names", ())
        self.first_action: int = getattr(env, "first_action", 0)
        self.masked = env.mask is not None
        packing, host, pinned = Packing(self._example()), torch.device("cpu"), device.type == "cuda"
        self._here = [packing.buffer(host, pinned) for _ in range(TURNS)]
        self._there = [packing.buffer(device) for _ in range(TURNS)]
        self._write = [packing.views(buffer) for buffer in self._here]
        self._read = [packing.views(buffer) for buffer in self._there]
        self._action = torch.zeros(self.num_envs, dtype=torch.int64, pin_memory=pinned)
        # The last copy out of each buffer, and the actions' copy.
        self._sent = [Arrival(device) for _ in range(TURNS)]
        self._acted = Arrival(device)
        self._turn = 0

    @property
    def mask(self) -> Tensor | None:
        """The legal actions, on the learner's device."""
        return self._read[self._turn]["mask"] if self.masked else None

    @property
    def outcomes(self) -> Tensor:
        """The outcomes, on the learner's device."""
        return self._read[self._turn]["outcomes"]

    def reset(self, seed: int) -> Tensor:
        """Start an episode in every environment."""
        obs = self.env.reset(seed)
        return self._send({"obs": obs}).obs

    def step(self, action: Tensor) -> Step:
        """Take one step in every environment. The result is valid until the step after the next."""
        self._action.copy_(action, non_blocking=True)
        self._acted.mark()
        self._acted.wait()
        step = self.env.step(self._action)
        answer = {"reward": step.reward, "terminated": step.terminated, "truncated": step.truncated}
        if step.elapsed is not None:
            answer["elapsed"] = step.elapsed
        return self._send({"obs": step.obs, **answer})

    def state_dict(self) -> dict[str, Tensor]:
        """The environment's state."""
        return self.env.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        self.env.load_state_dict(state)
        if self.env.mask is not None:
            self._read[self._turn]["mask"].copy_(self.env.mask)

    def close(self) -> None:
        """Close the environment."""
        if problem := close_env(self.env):
            raise problem

    def _send(self, answer: dict[str, Tensor]) -> Step:
        """Pack and copy a result; return the tensors that will hold it when the copy has arrived."""
        self._turn = turn = (self._turn + 1) % TURNS
        self._sent[turn].wait()  # for the copy before the last, which arrived long ago
        write, read = self._write[turn], self._read[turn]
        for name, tensor in answer.items():
            write[name].copy_(tensor)
        write["outcomes"].copy_(self.env.outcomes)
        if self.env.mask is not None:
            write["mask"].copy_(self.env.mask)
        self._there[turn].copy_(self._here[turn], non_blocking=True)
        self._sent[turn].mark()
        return Step(
            read["obs"], read["reward"], read["terminated"], read["truncated"], self.mask, read.get("elapsed")
        )

    def _example(self) -> dict[str, Tensor]:
        """An example of a step's result, with its shapes and dtypes."""
        count, spec = self.num_envs, self.obs_spec
        flag = torch.empty(count, dtype=torch.bool)
        tensors = {
            "obs": torch.empty((count, *spec.shape), dtype=spec.dtype),
            "reward": torch.empty(count),
            "outcomes": torch.empty((count, len(self.outcome_names))),
            "terminated": flag,
            "truncated": flag,
        }
        if is_timed(self.env):
            tensors["elapsed"] = torch.empty(count, dtype=torch.uint8)
        return tensors | ({"mask": flag[:, None].expand(-1, self.num_actions)} if self.masked else {})


class Arrival:
    """A point in the work of a device that the host can wait for. On the CPU there is nothing to wait for."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._event: torch.cuda.Event | None = None
        if device.type == "cuda":
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call,unused-ignore]

    def mark(self) -> None:
        """Set the mark here, in the device's current stream."""
        if self._event is not None:
            self._event.record(torch.cuda.current_stream(self.device))

    def wait(self) -> None:
        """Wait until the device has reached the mark; return at once if there is no mark yet."""
        if self._event is not None:
            self._event.synchronize()


@dataclass(frozen=True)
class Field:
    """One tensor of a packing, and where it begins."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    begin: int

    @property
    def end(self) -> int:
        """The byte after its last."""
        return self.begin + torch.Size(self.shape).numel() * self.dtype.itemsize


class Packing:
    """Several tensors in one block of bytes, which one copy moves; `nbytes` is its size."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.fields: dict[str, Field] = {}
        self.nbytes = 0
        for name, tensor in tensors.items():
            field = Field(tuple(tensor.shape), tensor.dtype, self.nbytes)
            self.fields[name] = field
            self.nbytes = -(-field.end // ALIGNMENT) * ALIGNMENT

    def buffer(self, device: torch.device, pinned: bool = False) -> Tensor:
        """Memory for all tensors; pinned memory can be copied while the host continues."""
        return torch.zeros(self.nbytes, dtype=torch.uint8, device=device, pin_memory=pinned)

    def views(self, buffer: Tensor) -> dict[str, Tensor]:
        """The tensors inside a buffer, as views: nothing is copied."""
        return {
            name: buffer[field.begin : field.end].view(field.dtype).view(field.shape)
            for name, field in self.fields.items()
        }
