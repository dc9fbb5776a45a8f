"""Pick uniform samples in one pass over the batch, on the CPU: the same result as `UniformSampler.pick`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from flashdqn.compute.calls import ONCE, AddressedKernel, BoundCall, find_type
from flashdqn.compute.gemm import prefetch
from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.compute.native import bind_native
from flashdqn.core.types import Batch, Transition
from flashdqn.replay.ring import MOST_ELAPSED, Kind
from flashdqn.replay.samplers import TRIES, UniformSampler

TERMINATED, TRUNCATED, RESET = int(Kind.TERMINATED), int(Kind.TRUNCATED), int(Kind.RESET)


@inner
def choose_slot(
    bits: Array, b: Scalar, kinds: Array, candidates: Scalar, newest: Scalar, envs: Scalar
) -> Scalar:
    """The first draw of a sample that is a transition; if there is none, the last draw."""
    slot = 0
    for k in range(len(bits)):
        draw = bits[k, b] % candidates
        slot = (newest - draw // envs * envs) % len(kinds) + draw % envs
        if kinds[slot] != RESET:
            break
    return slot


@inner
def stack_frames(frames: Array, ages: Array, slot: Scalar, envs: Scalar, out: Array, b: Scalar) -> None:
    """Write the observation of a slot: its frame, and before it those of its stack, from the same episode."""
    slots, width = frames.shape
    stack = out.shape[1] // width
    for place in range(stack):
        back = min(stack - 1 - place, ages[slot]) if stack > 1 else 0
        source = (slot - back * envs) % slots
        for k in range(width):
            out[b, place * width + k] = frames[source, k]


@inner
def pick_batch(
    frames: Array, ages: Array, ring_action: Array, ring_reward: Array, kinds: Array, elapsed: Array,
    ring_mask: Array, head: Array, filled: Array, powers: Array, shape: Array, bits: Array, obs: Array,
    action: Array, reward: Array, discount: Array, next_obs: Array, next_mask: Array, mask: Array, weight: Array,
    index: Array,
) -> None:  # fmt: skip
    """Draw slots and gather their n-step transitions; nothing is read past an end."""
    envs, n, slots = shape[0], shape[1], len(kinds)
    readable = min(filled[0], slots // envs - obs.shape[1] // frames.shape[1])
    candidates, newest = (readable - (n - 1)) * envs, (head[0] - n) * envs
    # First all slots: a ring is larger than the cache, and loading from memory takes time.
    for b in range(len(index)):
        slot = choose_slot(bits, b, kinds, candidates, newest, envs)
        index[b] = slot
        prefetch(frames, slot * frames.shape[1])
        prefetch(frames, (slot + envs) % slots * frames.shape[1])
        prefetch(ring_action, slot)
        prefetch(ring_reward, slot)
    for b in range(len(index)):
        slot = index[b]
        weight[b] = 1.0 if kinds[slot] != RESET else 0.0
        action[b] = ring_action[slot]
        total, taken, at, terminated = ring_reward[slot], 1, slot, kinds[slot] == TERMINATED
        timed = len(elapsed) > 0
        passed = np.int64(elapsed[slot]) if timed else 1  # steps, or their time
        while taken < n and kinds[at] != TERMINATED and kinds[at] != TRUNCATED:
            at = (at + envs) % slots
            total += ring_reward[at] * powers[passed]
            terminated = kinds[at] == TERMINATED
            taken += 1
            passed += np.int64(elapsed[at]) if timed else 1
        reward[b] = total
        discount[b] = 0.0 if terminated else powers[passed]
        following = (at + envs) % slots
        stack_frames(frames, ages, slot, envs, obs, b)
        stack_frames(frames, ages, following, envs, next_obs, b)
        for k in range(mask.shape[1]):
            mask[b, k] = ring_mask[slot, k]
            next_mask[b, k] = ring_mask[following, k]


class NativePick:
    """`UniformSampler.pick` on a ring whose addresses must not change. Only `again` reuses memory."""

    def __init__(self, sampler: UniformSampler) -> None:
        ring = sampler.ring
        slots = ring.rows * ring.num_envs
        channels, *rest = ring.obs.shape[2:]
        self.ring, self.obs_shape = ring, torch.Size((ring.stack * channels, *rest))
        self.actions = 0 if ring.mask is None else ring.mask.shape[2]
        longest = sampler.n_step if ring.elapsed is None else sampler.n_step * MOST_ELAPSED
        powers = sampler.gamma ** torch.arange(longest + 1, dtype=torch.float32)
        elapsed = torch.zeros(0, dtype=torch.uint8) if ring.elapsed is None else ring.elapsed.view(-1)
        mask = torch.zeros((slots, 0), dtype=torch.bool) if ring.mask is None else ring.mask.flatten(0, 1)
        ages = torch.zeros(0, dtype=torch.uint8) if ring.age is None else ring.age.view(-1)
        own = [
            ring.obs.view(slots, -1), ages, ring.action.view(-1), ring.reward.view(-1), ring.kind.view(-1),
            elapsed, mask, ring.head, ring.filled.view(1), powers, torch.tensor([ring.num_envs,
            sampler.n_step]),
        ]  # fmt: skip
        bits = torch.zeros((1, 1), dtype=torch.int64)
        self._pick = bind_native(pick_batch, own, [bits, *self._columns(1)])
        self._own = [tensor.numpy() for tensor in own]
        self.sampler = sampler
        self._kept: dict[int, tuple[Tensor, list[Any], Batch]] = {}

    def make_columns(self, size: int) -> tuple[list[Tensor], Batch]:
        """Memory for a batch, and the batch; without masks that follow from observations."""
        columns = self._columns(size)
        return columns, self._batch(columns)

    def bind_part(self, bits: np.ndarray[Any, Any], columns: list[Tensor], size: int) -> BoundCall:
        """For compiled code: pick `size` samples, by the first random numbers, into the first rows of columns."""
        given = (bits[: TRIES * size].reshape(TRIES, size), *(column[:size].numpy() for column in columns))
        arguments = (*self._own, *given)
        return AddressedKernel(pick_batch, list(map(find_type, arguments)), ONCE).bind(*arguments)

    def _columns(self, size: int) -> list[Tensor]:
        """obs, action, reward, discount, next_obs, next_mask, mask, weight, index."""
        width = self.obs_shape.numel()
        obs, next_obs = (torch.empty((size, width), dtype=self.ring.obs.dtype) for _ in range(2))
        masks = [torch.empty((size, self.actions), dtype=torch.bool) for _ in range(2)]
        reward, discount, weight = (torch.empty(size) for _ in range(3))
        action, index = (torch.empty(size, dtype=torch.int64) for _ in range(2))
        return [obs, action, reward, discount, next_obs, *masks, weight, index]

    def __call__(self, bits: Tensor) -> Batch:
        """The batch that random numbers, [TRIES, B], select."""
        columns = self._columns(bits.shape[1])
        self._pick(bits.numpy(), *(column.numpy() for column in columns))
        return self._with_masks(self._batch(columns))

    def again(self, size: int) -> Batch:
        """A batch as `sampler.sample` draws it, in memory that the next batch of this size reuses."""
        kept = self._kept.get(size)
        if kept is None:
            bits, columns = torch.empty((TRIES, size), dtype=torch.int64), self._columns(size)
            arrays = [column.numpy() for column in (bits, *columns)]
            kept = self._kept[size] = bits, arrays, self._batch(columns)
        bits, arrays, batch = kept
        bits.random_(generator=self.sampler.generator)
        self._pick(*arrays)
        return self._with_masks(batch)

    def _batch(self, columns: list[Tensor]) -> Batch:
        obs, action, reward, discount, next_obs, next_mask, mask, weight, index = columns
        shape = (len(index), *self.obs_shape)
        masks = (next_mask, mask) if self.actions else (None, None)
        transition = Transition(obs.view(shape), action, reward, discount, next_obs.view(shape), *masks)
        return Batch(transition, weight, index)

    def _with_masks(self, batch: Batch) -> Batch:
        """Add masks where they follow from the observations."""
        if (legal := self.ring.legal) is None:
            return batch
        transition = batch.transition
        masks = {"next_mask": legal(transition.next_obs), "mask": legal(transition.obs)}
        return batch._replace(transition=transition._replace(**masks))
