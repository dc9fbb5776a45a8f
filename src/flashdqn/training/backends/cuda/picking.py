"""Transitions that random numbers select from the ring, in one kernel: `pick.cu`, twin of `UniformSampler.pick`."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from flashdqn.compute.nvrtc import CompiledCuda, explain_missing_nvrtc
from flashdqn.core.types import Batch, Transition
from flashdqn.replay import Ring
from flashdqn.replay.samplers import TRIES, UniformSampler
from flashdqn.training.backends.cuda.recording import ACTION_TYPES, OBS_TYPES, find_address, list_pointers

SOURCE = Path(__file__).parent / "source" / "pick.cu"
THREADS = 256  # of a block, as in the source
#: Samples of a block: few, so that many blocks work; from MANY samples on, one for each thread.
FEW, MANY = 32, 32_768


class StoredColumns(ctypes.Structure):
    """Where the ring lies."""

    _fields_ = list_pointers("obs", "action", "reward", "kind", "mask", "head", "filled")


class BatchColumns(ctypes.Structure):
    """Where the batch is written."""

    _fields_ = list_pointers(
        "obs", "action", "reward", "discount", "next_obs", "next_mask", "mask", "weight", "index"
    )


class PickingKernel:
    """Turns random numbers, [TRIES, B], into the batch that they select, in new tensors."""

    def __init__(self, sampler: UniformSampler) -> None:
        ring = self.ring = sampler.ring
        actions = 1 if ring.mask is None else ring.mask.shape[2]
        constants = {
            "ENVS": ring.num_envs, "INPUTS": ring.obs[0, 0].numel(), "ACTIONS": actions,
            "STORED_MASKS": ring.mask is not None, "RING_ROWS": ring.rows, "STEPS": sampler.n_step,
            "TRIES": TRIES,
        }  # fmt: skip
        options = f"-DOBS_T={OBS_TYPES[ring.obs.dtype]}", f"-DACTION_T={ACTION_TYPES[ring.action.dtype]}"
        self._kernel = CompiledCuda(SOURCE.read_text(), "pick", constants, options=options)
        columns = ring.obs, ring.action, ring.reward, ring.kind, ring.mask, ring.head, ring.filled
        self._columns = StoredColumns(*map(find_address, columns))
        exponents = torch.arange(sampler.n_step + 1, dtype=torch.float32, device=ring.device)
        self._powers = sampler.gamma**exponents

    @staticmethod
    def fits(ring: Ring) -> bool:
        """Whether it can read this ring: observations as they are stored, masks that are stored or none, and steps
        that all take the same time."""
        return ring.stack == 1 and ring.legal is None and ring.elapsed is None and ring.obs.dtype in OBS_TYPES

    def __call__(self, bits: Tensor) -> Batch:
        """The batch; the ring must hold complete windows."""
        ring, count, device = self.ring, bits.shape[1], bits.device

        def empty(dtype: torch.dtype, *shape: int) -> Tensor:
            return torch.empty((count, *shape), dtype=dtype, device=device)

        shape, masks = ring.obs.shape[2:], None if ring.mask is None else ring.mask.shape[2:]
        transition = Transition(
            obs=empty(ring.obs.dtype, *shape),
            action=empty(torch.int64),
            reward=empty(torch.float32),
            discount=empty(torch.float32),
            next_obs=empty(ring.obs.dtype, *shape),
            next_mask=None if masks is None else empty(torch.bool, *masks),
            mask=None if masks is None else empty(torch.bool, *masks),
        )
        batch = Batch(transition, empty(torch.float32), empty(torch.int64))
        places = BatchColumns(*map(find_address, (*transition, batch.weight, batch.index)))
        samples = FEW if count < MANY else THREADS
        self._kernel(
            -(-count // samples), THREADS, (self._columns, places, bits, self._powers, count, samples)
        )
        return batch


def can_pick(ring: Ring) -> bool:
    """Whether the kernel can read this ring, and be compiled here."""
    return PickingKernel.fits(ring) and explain_missing_nvrtc() is None
