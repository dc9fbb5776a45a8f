"""Store a step in metrics and ring in one pass, on the CPU: the same result as `Collector.record`."""

from __future__ import annotations

import torch
from torch import Tensor

from flashdqn.compute.calls import ONCE, AddressedKernel, BoundCall, find_type
from flashdqn.compute.kernels import Array, inner
from flashdqn.compute.native import Views, bind_native
from flashdqn.core.types import Step
from flashdqn.replay.ring import Kind
from flashdqn.training.collector import Collector

STEP, TERMINATED, TRUNCATED, RESET = (int(kind) for kind in Kind)


@inner
def record_step(
    ring_obs: Array, ring_action: Array, ring_reward: Array, ring_kind: Array, ring_mask: Array, ring_age: Array,
    ring_elapsed: Array, head: Array, filled: Array, ended: Array, running: Array, sums: Array, totals: Array,
    seen: Array, seen_mask: Array, action: Array, obs: Array, reward: Array, terminated: Array,
    truncated: Array, mask: Array, elapsed: Array, outcomes: Array,
) -> None:  # fmt: skip
    """Complete the newest row, open the next one, and count the episodes that ended."""
    row, rows = head[0], len(ring_action)
    after = row + 1 if row + 1 < rows else 0
    width = ring_obs.shape[2]  # of a frame
    stack = obs.shape[1] // width
    head[0] = after
    filled[0] = min(filled[0] + 1, rows - 1)
    for i in range(len(action)):
        if stack > 1:
            ring_age[after, i] = 0 if ended[i] else min(ring_age[row, i] + 1, stack - 1)
        ring_action[row, i] = action[i]
        ring_reward[row, i] = reward[i]
        if ring_elapsed.shape[1] > 0:
            ring_elapsed[row, i] = elapsed[i]
        running[i, 1] += reward[i]
        if ended[i]:
            ring_kind[row, i] = RESET
        else:
            ring_kind[row, i] = TERMINATED if terminated[i] else TRUNCATED if truncated[i] else STEP
            running[i, 2] += 1
            totals[0] += 1
        ended[i] = terminated[i] or truncated[i]
        for k in range(outcomes.shape[1]):
            running[i, 3 + k] = outcomes[i, k] if ended[i] else 0.0
        if ended[i]:
            totals[1] += 1
            for k in range(len(sums)):
                sums[k] += running[i, k]
            running[i, 1] = 0.0
            running[i, 2] = 0.0
        for k in range(width):
            ring_obs[after, i, k] = obs[i, (stack - 1) * width + k]
        for k in range(obs.shape[1]):
            seen[i, k] = obs[i, k]
        for k in range(ring_mask.shape[2]):
            ring_mask[after, i, k] = mask[i, k]
        for k in range(mask.shape[1]):
            seen_mask[i, k] = mask[i, k]


class NativeRecord:
    """`Collector.record` on tensors whose addresses must not change."""

    def __init__(self, collector: Collector) -> None:
        ring, metrics = collector.ring, collector.metrics
        num = ring.num_envs
        self.masked = collector.mask is not None
        self.empty = torch.zeros((num, 0), dtype=torch.bool)
        seen_mask = self.empty if collector.mask is None else collector.mask
        own = [
            ring.obs.view(ring.rows, num, -1), ring.action, ring.reward, ring.kind,
            torch.zeros((ring.rows, num, 0), dtype=torch.bool) if ring.mask is None else ring.mask,
            torch.zeros((ring.rows, 0), dtype=torch.uint8) if ring.age is None else ring.age,
            torch.zeros((ring.rows, 0), dtype=torch.uint8) if ring.elapsed is None else ring.elapsed,
            ring.head, ring.filled.view(1), ring.ended, metrics.running, metrics.sums,
            collector.counts.totals, collector.obs.view(num, -1), seen_mask,
        ]  # fmt: skip
        outcomes = torch.zeros((num, len(metrics.names) - 3))
        flags = torch.zeros(num, dtype=torch.bool)
        action = torch.zeros(num, dtype=torch.int64)
        self.no_time = torch.zeros(num if ring.elapsed is not None else 0, dtype=torch.uint8)
        given = [
            action, collector.obs.view(num, -1), torch.zeros(num), flags, flags, seen_mask, self.no_time, outcomes
        ]  # fmt: skip
        self._record = bind_native(record_step, own, given)
        self._own = [tensor.numpy() for tensor in own]
        self._views = Views()

    def __call__(self, action: Tensor, step: Step, outcomes: Tensor) -> None:
        """Store what the environments returned in metrics and ring."""
        obs, reward, terminated, truncated, mask, elapsed = step
        legal = mask if self.masked and mask is not None else self.empty
        time = elapsed if elapsed is not None and len(self.no_time) else self.no_time
        seen, *others = self._views(obs, reward, terminated, truncated, legal, time, outcomes, action)
        self._record(others.pop(), seen.reshape(len(seen), -1), *others)

    def bind(self, action: Tensor, step: Step, outcomes: Tensor) -> BoundCall:
        """The same for compiled code: what it records is always in these tensors."""
        obs, reward, terminated, truncated, mask, elapsed = step
        legal = mask if self.masked and mask is not None else self.empty
        time = elapsed if elapsed is not None and len(self.no_time) else self.no_time
        given = (action, obs.flatten(1), reward, terminated, truncated, legal, time, outcomes)
        arguments = (*self._own, *(tensor.numpy() for tensor in given))
        return AddressedKernel(record_step, list(map(find_type, arguments)), ONCE).bind(*arguments)
