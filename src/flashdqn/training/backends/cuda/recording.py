"""Store a step in metrics and ring, and say how many updates are due, in one kernel: `record.cu`.

The same result as `Collector.record`, bit by bit, except that sums over episodes are added in another fixed order.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from flashdqn.compute.nvrtc import CompiledCuda
from flashdqn.core.types import Step
from flashdqn.replay import Ring
from flashdqn.training.assemble import Parts
from flashdqn.training.ratio import TrainRatio

SOURCE = Path(__file__).parent / "source" / "record.cu"
#: One block has nobody to wait for, as long as it has a thread for every board; larger ones have THREADS.
ALONE, THREADS = 1024, 256
MOST_BLOCKS = 264  # two for each multiprocessor of a large GPU, unless more boards need more

OBS_TYPES = {torch.float32: "float", torch.uint8: "byte"}
ACTION_TYPES = {torch.uint8: "byte", torch.int32: "int", torch.int64: "int64"}


def list_pointers(*names: str) -> tuple[tuple[str, type], ...]:
    """Fields of a structure that are addresses."""
    return tuple((name, ctypes.c_void_p) for name in names)


class RingColumns(ctypes.Structure):
    """Where the ring lies."""

    _fields_ = list_pointers("obs", "action", "reward", "kind", "age", "mask", "head", "filled", "ended")


class Answer(ctypes.Structure):
    """Where the environments' answer lies."""

    _fields_ = list_pointers("action", "obs", "reward", "terminated", "truncated", "mask", "outcomes")


class Tally(ctypes.Structure):
    """Where the figures and counts of episodes lie."""

    _fields_ = list_pointers("running", "sums", "totals", "parts", "notes")


class Decision(ctypes.Structure):
    """How many updates a transition earns, and where the number of due ones is written."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("starts", "most")),
        *((f"{name}_{half}", ctypes.c_uint64) for name in ("times", "per") for half in ("high", "low")),
        *list_pointers("due"),
    )


def make_decision(ratio: TrainRatio, most: int, due: Tensor) -> Decision:
    """As many updates as the ratio says, but at most `most` at once; their number is written to `due`."""
    times, per = ratio.ratio.numerator, ratio.ratio.denominator
    halves = [part for number in (times, per) for part in divmod(number, 1 << 64)]
    return Decision(ratio.starts, most, *halves, due.data_ptr())


class RecordingKernel:
    """`Collector.record` on tensors whose addresses must not change."""

    def __init__(self, parts: Parts) -> None:
        collector, ring, metrics, counts = parts.collector, parts.ring, parts.metrics, parts.counts
        envs, inputs, outcomes = ring.num_envs, collector.obs[0].numel(), len(metrics.names) - 3
        self._contents = collector.obs, collector.mask
        masked = collector.mask is not None
        constants = {
            "ENVS": envs, "INPUTS": inputs, "FRAME": ring.obs[0, 0].numel(), "OUTCOMES": outcomes,
            "ACTIONS": 1 if collector.mask is None else collector.mask.shape[1], "MASKED": masked,
            "STORED_MASKS": ring.mask is not None, "RING_ROWS": ring.rows, "STACK": ring.stack,
        }  # fmt: skip
        self._blocks, self._threads = choose_grid(envs, envs * inputs, 3 + outcomes)
        constants |= {"BLOCKS": self._blocks, "RECORDERS": self._threads}
        types = OBS_TYPES[ring.obs.dtype], ACTION_TYPES[ring.action.dtype]
        options = (f"-DOBS_T={types[0]}", f"-DACTION_T={types[1]}", "--device-int128")
        self._kernel = CompiledCuda(SOURCE.read_text(), "record", constants, options=options)
        self._scratch = torch.zeros((self._blocks, 3 + outcomes), device=ring.device)
        self._notes = torch.zeros(3, dtype=torch.int32, device=ring.device)
        columns = ring.obs, ring.action, ring.reward, ring.kind, ring.age, ring.mask
        self._ring = RingColumns(*map(find_address, (*columns, ring.head, ring.filled, ring.ended)))
        figures = metrics.running, metrics.sums, counts.totals, self._scratch, self._notes
        self._tally = Tally(*map(find_address, figures))
        self._nothing = Decision()

    @staticmethod
    def fits(ring: Ring) -> bool:
        """Whether it knows the types of this ring, and its steps all take the same time."""
        return ring.obs.dtype in OBS_TYPES and ring.elapsed is None

    def __call__(
        self, action: Tensor, step: Step, outcomes: Tensor, decision: Decision | None = None
    ) -> None:
        """Store what the environments returned; with a decision, also write the updates that are due."""
        given = (action, step.obs, step.reward, step.terminated, step.truncated, step.mask, outcomes)
        dense = [None if tensor is None else make_aligned(tensor) for tensor in given]
        answer = Answer(*map(find_address, dense))
        arguments = (self._ring, answer, self._tally, decision or self._nothing, *self._contents)
        self._kernel(self._blocks, self._threads, arguments)


def choose_grid(envs: int, numbers: int, figures: int) -> tuple[int, int]:
    """Blocks and threads for `envs` boards, whose observations have `numbers` together; one thread for each of the
    `figures` of an episode at least."""
    if max(envs, figures) <= ALONE:
        wanted = max(envs, figures, min(ALONE // 2, numbers // 4))
        return 1, max(64, -(-wanted // 32) * 32)
    return max(-(-envs // THREADS), min(MOST_BLOCKS, -(-numbers // (4 * THREADS)))), THREADS


def make_aligned(tensor: Tensor) -> Tensor:
    """The same numbers side by side, from a multiple of 16 bytes on; usually the tensor itself."""
    dense = tensor.contiguous()
    return dense.clone() if dense.data_ptr() % 16 else dense


def find_address(tensor: Tensor | None) -> int | None:
    """The address of a tensor's numbers; None becomes a null pointer."""
    return None if tensor is None else tensor.data_ptr()
