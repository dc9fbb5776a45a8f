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
from flashdqn.core.types import Batch, Transition
from flashdqn.learn.bootstraps import Net
from flashdqn.learn.heads import Head
from flashdqn.learn.returns import best_value, lambda_returns
from flashdqn.replay.ring import Kind, Ring
from flashdqn.replay.samplers import SamplerBase


class RolloutSampler(SamplerBase):
    """Hands out the minibatches of a complete rollout; nothing before it is complete, nothing twice in an epoch."""

    draws_on_device = False  # it shuffles on the host's behalf, when a rollout is complete

    def __init__(
        self,
        ring: Ring,
        policy: Net,
        head: Head,
        config: PQNConfig,
        gamma: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__(ring, 1, gamma, generator)
        self.policy, self.head, self.config = policy, head, config
        self.least_rows = config.rollout
        self.transitions = config.rollout * ring.num_envs  # of a rollout in which no episode ends
        self.updates = config.epochs * config.minibatches  # that a rollout earns
        self.size = self.transitions // config.minibatches
        self.steps = 0  # of the rollout that is being collected
        self.remaining = 0  # minibatches of the complete rollout that are still to come
        # Of the complete rollout, by time and environment, each [T · N]; a CUDA graph knows where they lie:
        device, size = ring.device, self.transitions
        self._index = torch.zeros(size, dtype=torch.int64, device=device)  # where it lies in the ring
        self._returns = torch.zeros(size, device=device)
        self._weight = torch.zeros(size, device=device)
        # a permutation per epoch, and how much of them is used up
        self._order = torch.zeros(config.epochs * size, dtype=torch.int64, device=device)
        self._used = torch.zeros((), dtype=torch.int64, device=device)

    def rows_added(self) -> None:
        """Count the steps."""
        self.steps += 1
        if self.steps == self.config.rollout:
            self.steps, self.remaining = 0, self.updates

    @torch.no_grad()
    def drawing(self, count: int) -> None:
        """Value a rollout before its first minibatch; there are no more than `remaining`."""
        assert count <= self.remaining
        if self.remaining == self.updates:
            self._open()
        self.remaining -= count

    def draw_again(self) -> None:
        """The same rollout, from its first minibatch."""
        self.remaining = self.updates

    @torch.no_grad()
    def group(self, count: int, size: int) -> Batch:
        """The next `count` minibatches, which `drawing` was told of; their size is a share of the rollout."""
        assert size == self.size, f"minibatches have {self.size} transitions, not {size}"
        place = self._used + torch.arange(count * size, device=self._used.device)
        self._used.add_(count * size)
        return self._pick(self._order[place])

    def state_dict(self) -> dict[str, Tensor]:
        """How far the rollout is; what it holds is the ring's."""
        return {"steps": torch.tensor(self.steps)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on in the middle of a rollout."""
        self.steps, self.remaining = int(state["steps"]), 0

    def _open(self) -> None:
        """Value the complete rollout with the weights that collected it, and shuffle."""
        ring = self.ring
        steps = torch.arange(-self.config.rollout, 1, device=ring.device)
        rows = (ring.head + steps) % ring.rows  # oldest first
        slots = rows[:, None] * ring.num_envs + torch.arange(ring.num_envs, device=ring.device)  # [T+1, N]
        kind, reward = (column.view(-1)[slots[:-1]] for column in (ring.kind, ring.reward))
        value = self._values(slots[1:].flatten()).view(kind.shape)
        terminated, truncated = kind == int(Kind.TERMINATED), kind == int(Kind.TRUNCATED)
        returns = lambda_returns(reward, terminated, truncated, value, self.gamma, self.config.trace)
        weight = (kind != int(Kind.RESET)).to(torch.float32).flatten()
        weight /= weight.mean().clamp(min=1 / len(weight))  # an epoch's loss is the mean over its transitions
        self._index.copy_(slots[:-1].flatten())
        self._returns.copy_(returns.flatten())
        self._weight.copy_(weight)
        for part in torch.split(self._order, self.transitions):
            part.copy_(torch.randperm(self.transitions, generator=self.generator, device=ring.device))
        self._used.zero_()

    def _values(self, slots: Tensor) -> Tensor:
        """max_a Q of the observations there, [T · N], in pieces that an update could take."""
        return torch.cat([self._value(piece) for piece in torch.split(slots, self.size)])

    def _value(self, slots: Tensor) -> Tensor:
        ring = self.ring
        obs = ring.observations(slots)
        mask = None if ring.mask is None else ring.mask.flatten(0, 1)[slots]
        return best_value(self.head.q(self.policy(obs)), mask if ring.legal is None else ring.legal(obs))

    def _pick(self, chosen: Tensor) -> Batch:
        """Returns as rewards, and discount 0: nothing follows them, so the next observation does not matter."""
        index, ring = self._index[chosen], self.ring
        obs = ring.observations(index)
        action = ring.action.view(-1)[index].to(torch.int64)
        returns = self._returns[chosen]
        return Batch(
            Transition(obs, action, returns, torch.zeros_like(returns), obs), self._weight[chosen], index
        )
