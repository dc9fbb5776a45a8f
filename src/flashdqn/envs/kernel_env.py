"""What all batches of boards on the kernel layer share: device, actions and state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from flashdqn.compute.calls import BoundCall
from flashdqn.compute.kernels import cuda_available
from flashdqn.core.errors import CheckpointError, EnvError
from flashdqn.core.types import Step


class NativeStep(NamedTuple):
    """A step for compiled code that has written the actions into `action_buffer`: the call, and what it writes."""

    call: BoundCall
    step: Step


def find_native_step(launch: Callable[[], None], step: Step) -> NativeStep | None:
    """A launch as such a step, if it is one thread's on the CPU."""
    return NativeStep(launch, step) if isinstance(launch, BoundCall) else None


def resolve_kernel_device(device: torch.device, name: str) -> torch.device:
    """The device with its index; CUDA only where kernels run there."""
    if device.type != "cuda":
        return device
    if not cuda_available():
        raise EnvError(
            f"{name} on CUDA needs a GPU and numba-cuda, and one of them is missing. Install "
            "`flashdqn[cuda]`, or put the environment on the CPU: the learner may stay on CUDA."
        )
    return torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)


def copy_actions(own: Tensor, action: Tensor, name: str) -> None:
    """Copy the actions to where the kernel reads them, if they are integers of its shape on its device."""
    if (
        action.shape != own.shape
        or action.device != own.device
        or action.is_floating_point()
        or action.dtype == torch.bool
    ):
        raise EnvError(
            f"{name} expects actions as integers of shape {list(own.shape)} on {own.device}; got "
            f"{action.dtype} of shape {list(action.shape)} on {action.device}."
        )
    if action is not own:
        own.copy_(action)


def copy_state(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of a state to keep, laid out by rows on every device."""
    return {name: x.clone(memory_format=torch.contiguous_format) for name, x in tensors.items()}


def restore_state(
    own: Mapping[str, Tensor],
    state: Mapping[str, Tensor],
    name: str,
    settings: str,
    check: Callable[[Mapping[str, Tensor]], None],
) -> None:
    """Write a state into the existing tensors; refuse a state of another game or of other `settings`.

    `check` raises a CheckpointError for numbers that no game has: a kernel uses them as indices, and does not look
    whether they lie in its arrays. A stranger's file could so write anywhere in memory.
    """
    if state.keys() != own.keys():
        raise CheckpointError(f"A state of {name} holds {', '.join(own)}; this one holds {', '.join(state)}.")
    for part, tensor in own.items():
        if state[part].shape != tensor.shape or state[part].dtype != tensor.dtype:
            raise CheckpointError(
                f"The {part} of {name} must be {tensor.dtype} {list(tensor.shape)}; the state holds "
                f"{state[part].dtype} {list(state[part].shape)}. Load it with the settings it was saved with: "
                f"{settings}."
            )
    check(state)
    for part, tensor in own.items():
        tensor.copy_(state[part])
