"""PQN (Gallici et al. 2024): no replay, no target network. What is learned from is the last rollout.

The ring holds one rollout, T steps of all environments, and the observations that it ended with. When it is
complete, every action in it gets its λ-return, once; the learner then regresses Q(s, a) on it, in `epochs`
passes of `minibatches` each. Then the next rollout overwrites it. For the loop all this is a sampler.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from flashdqn.config import PQNConfig
from flashdqn.learn.bootstraps import Net
from flashdqn.learn.heads import Head
from flashdqn.learn.returns import best_value, lambda_returns
from flashdqn.replay.ring import Kind, Ring
from flashdqn.replay.samplers import cut
from flashdqn.types import Batch, Transition


class RolloutSampler:
    """Hands out the minibatches of a complete rollout; nothing before it is complete, nothing twice in an epoch."""

    def __init__(
        self,
        ring: Ring,
        policy: Net,
        head: Head,
        config: PQNConfig,
        gamma: float,
        generator: torch.Generator,
    ) -> None:
        self.ring, self.policy, self.head, self.config = ring, policy, head, config
        self.gamma, self.generator = gamma, generator
        self.transitions = config.rollout * ring.num_envs  # of a rollout in which no episode ends
        self.updates = config.epochs * config.minibatches  # that a rollout earns
        self.size = self.transitions // config.minibatches
        self.steps = 0  # of the rollout that is being collected
        self.remaining = 0  # minibatches of the complete rollout that are still to come
        # Of the complete rollout, by time and environment, each [T · N]:
        self._index: Tensor  # where it lies in the ring
        self._returns: Tensor
        self._weight: Tensor
        self._order: Tensor  # [epochs · T · N]: a permutation per epoch

    def appended(self) -> None:
        """Count the steps."""
        self.steps += 1
        if self.steps == self.config.rollout:
            self.steps, self.remaining = 0, self.updates

    def sample(self, size: int) -> Batch:
        """The next minibatch."""
        return self.batches(1, size)[0]

    @torch.no_grad()
    def batches(self, count: int, size: int) -> list[Batch]:
        """The next `count` minibatches, or what is left of the rollout; their size is a share of it."""
        assert size == self.size, f"minibatches have {self.size} transitions, not {size}"
        count = min(count, self.remaining)
        if self.remaining == self.updates:
            self._open()
        start = (self.updates - self.remaining) * size
        self.remaining -= count
        return cut(self._pick(self._order[start : start + count * size]), count, size)

    def update(self, index: Tensor, priority: Tensor) -> None:
        """All of a rollout is used alike."""

    def set_beta(self, beta: float) -> None:
        """There is nothing to correct."""

    def state_dict(self) -> dict[str, Tensor]:
        """How far the rollout is; what it holds is the ring's."""
        return {"steps": torch.tensor(self.steps)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on in the middle of a rollout."""
        self.steps, self.remaining = int(state["steps"]), 0

    def _open(self) -> None:
        """Value the complete rollout with the weights that collected it, and shuffle."""
        ring = self.ring
        rows = (ring.head + 1 + torch.arange(ring.rows, device=ring.device)) % ring.rows  # oldest first
        slots = rows[:, None] * ring.num_envs + torch.arange(ring.num_envs, device=ring.device)  # [T+1, N]
        kind, reward = (column.view(-1)[slots[:-1]] for column in (ring.kind, ring.reward))
        value = self._values(slots[1:].flatten()).view(kind.shape)
        terminated, truncated = kind == Kind.TERMINATED, kind == Kind.TRUNCATED
        returns = lambda_returns(reward, terminated, truncated, value, self.gamma, self.config.trace)
        weight = (kind != Kind.RESET).to(torch.float32).flatten()
        weight /= weight.mean().clamp(min=1 / len(weight))  # an epoch's loss is the mean over its transitions
        self._index, self._returns, self._weight = slots[:-1].flatten(), returns.flatten(), weight
        shuffled = [
            torch.randperm(self.transitions, generator=self.generator, device=ring.device)
            for _ in range(self.config.epochs)
        ]
        self._order = torch.cat(shuffled)

    def _values(self, slots: Tensor) -> Tensor:
        """max_a Q of the observations there, [T · N], in pieces that an update could take."""
        obs = self.ring.obs.flatten(0, 1)
        mask = None if self.ring.mask is None else self.ring.mask.flatten(0, 1)
        pieces = torch.split(slots, self.size)
        return torch.cat(
            [
                best_value(self.head.q(self.policy(obs[piece])), None if mask is None else mask[piece])
                for piece in pieces
            ]
        )

    def _pick(self, chosen: Tensor) -> Batch:
        """Returns as rewards, and discount 0: nothing follows them, so the next observation does not matter."""
        index, ring = self._index[chosen], self.ring
        obs = ring.obs.flatten(0, 1)[index]
        action = ring.action.view(-1)[index].to(torch.int64)
        returns = self._returns[chosen]
        return Batch(
            Transition(obs, action, returns, torch.zeros_like(returns), obs), self._weight[chosen], index
        )
