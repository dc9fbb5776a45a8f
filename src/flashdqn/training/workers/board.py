"""The memory that the learner and its workers share: the latest weights, ε, and the workers' pulses.

One writer, many readers, no lock: a worker that is killed cannot hold one. The learner makes `turn` odd while it
writes weights, and even again; a worker that saw it odd, or changing, keeps the weights that it has and looks again
before its next action. The memory has no name in the file system, so nothing is left behind, whatever ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

#: Every tensor begins at a multiple of this many bytes.
ALIGNMENT = 64
#: Numbers at the beginning: the writer's turn, and the gradient steps of the weights.
TURN, VERSION = 0, 1


def open_memory(size: int) -> int:
    """A file descriptor of `size` bytes of memory without a name."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("flashdqn")
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    os.ftruncate(handle, size)
    return handle


class SharedBoard:
    """Views of the shared memory, for weights like these tensors and a number of environments."""

    def __init__(self, like: Sequence[Tensor], players: int, handle: int | None = None) -> None:
        """Without a handle, new memory is made."""
        self.handle = open_memory(measure_board(like, players)) if handle is None else handle
        size = os.fstat(self.handle).st_size
        if size != measure_board(like, players):
            raise ValueError(f"the shared memory has {size} bytes, and these weights need another number")
        memory = mmap.mmap(self.handle, size)
        self.head = np.frombuffer(memory, np.int64, 2)
        self.eps = np.frombuffer(memory, np.float64, players, 16)
        #: when a worker did something last for an environment (`time.monotonic`); 0: it waits for the learner
        self.pulse = np.frombuffer(memory, np.float64, players, 16 + 8 * players)
        self._weights: list[Tensor] = []
        at = find_weights(players)
        for tensor in like:
            if tensor.numel():
                flat = torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=at)
                self._weights.append(flat.view(tensor.shape))
            at += align(tensor.nbytes)

    @torch.no_grad()
    def publish(self, weights: Sequence[Tensor], version: int) -> None:
        """Write new weights, which are the result of `version` gradient steps."""
        self.head[TURN] += 1
        for shown, tensor in zip(self._weights, drop_empty(weights), strict=True):
            shown.copy_(tensor)
        self.head[VERSION] = version
        self.head[TURN] += 1

    @torch.no_grad()
    def copy_into(self, staging: Sequence[Tensor], known: int) -> int | None:
        """Copy the weights if they are not the `known` version; returns their version, or None if they are, or if
        the learner was writing just then."""
        turn, version = int(self.head[TURN]), int(self.head[VERSION])
        if turn % 2 or version == known:
            return None
        for mine, shown in zip(drop_empty(staging), self._weights, strict=True):
            mine.copy_(shown)
        return version if int(self.head[TURN]) == turn else None

    def close(self) -> None:
        """Give the handle back; the memory goes when the last process has ended."""
        os.close(self.handle)


def align(size: int) -> int:
    """The next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def find_weights(players: int) -> int:
    """Where the weights begin."""
    return align(16 + 16 * players)


def measure_board(like: Sequence[Tensor], players: int) -> int:
    """Bytes of a board."""
    return find_weights(players) + sum(align(tensor.nbytes) for tensor in like) + ALIGNMENT


def drop_empty(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Without those that hold nothing."""
    return [tensor for tensor in tensors if tensor.numel()]


def open_pulse(handle: int, players: int) -> npt.NDArray[np.float64]:
    """The pulses alone, for a worker that does not know the weights yet."""
    memory = mmap.mmap(handle, os.fstat(handle).st_size)
    return np.frombuffer(memory, np.float64, players, 16 + 8 * players)
