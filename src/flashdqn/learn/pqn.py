"""PQN (Gallici et al. 2024): no replay, no target network. It learns from the last rollout only.

The ring holds one rollout, T steps of all environments, and the observations that it ended with. When it is
complete, every action in it gets its λ-return, once; the learner then regresses Q(s, a) on it, in `epochs`
passes of `minibatches` each. Then the next rollout overwrites it. To the loop all this is a sampler.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from flashdqn.compute.ranks import ALONE, Ranks
from flashdqn.config import PQNConfig
from flashdqn.core.ops import masked_argmax
from flashdqn.core.types import Batch, Transition
from flashdqn.learn import branching
from flashdqn.learn.bootstraps import Net
from flashdqn.learn.heads import Head
from flashdqn.replay.ring import Kind, Ring
from flashdqn.replay.samplers import Pick, SamplerBase


class RolloutSampler(SamplerBase):
    """Returns the minibatches of a complete rollout: none before it is complete, no row twice in an epoch."""

    draws_on_device = False  # the host starts the shuffle when a rollout is complete

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
        self.transitions = config.rollout * ring.num_envs  # in a rollout in which no episode ends
        self.updates = config.epochs * config.minibatches  # per rollout
        self.size = self.transitions // config.minibatches
        self.steps = 0  # of the rollout that is being collected
        self.remaining = 0  # minibatches of the complete rollout that are still to come
        self.ranks = ALONE  # the processes of the training, each with its own rollout
        # The complete rollout, by time and environment, each [T · N]; a CUDA graph uses their addresses:
        device, size = ring.device, self.transitions
        self._index = torch.zeros(size, dtype=torch.int64, device=device)  # where it lies in the ring
        self._returns = torch.zeros(size, device=device)
        self._weight = torch.zeros(size, device=device)
        # one permutation per epoch, and how much of them is used
        self._order = torch.zeros(config.epochs * size, dtype=torch.int64, device=device)
        self._used = torch.zeros((), dtype=torch.int64, device=device)

    def join(self, ranks: Ranks) -> None:
        """Weigh transitions by their share of all ranks' rollouts."""
        self.ranks = ranks

    def rows_added(self) -> None:
        """Count the steps; a complete rollout makes its updates available."""
        self.steps += 1
        if self.steps == self.config.rollout:
            self.steps, self.remaining = 0, self.updates

    @torch.no_grad()
    def drawing(self, count: int) -> None:
        """Compute the returns of a rollout before its first minibatch; `count` is at most `remaining`."""
        assert count <= self.remaining
        if self.remaining == self.updates:
            self._open()
        self.remaining -= count

    def draw_again(self) -> None:
        """Start the same rollout again from its first minibatch."""
        self.remaining = self.updates

    @torch.no_grad()
    def group(self, count: int, size: int, pick: Pick | None = None) -> Batch:
        """The next `count` minibatches, announced by `drawing`; `size` must be that of a minibatch."""
        assert size == self.size, f"minibatches have {self.size} transitions, not {size}"
        place = self._used + torch.arange(count * size, device=self._used.device)
        self._used.add_(count * size)
        return self._pick(self._order[place])

    def state_dict(self) -> dict[str, Tensor]:
        """How many steps of the rollout are collected; the ring holds their content."""
        return {"steps": torch.tensor(self.steps)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue in the middle of a rollout."""
        self.steps, self.remaining = int(state["steps"]), 0

    def _open(self) -> None:
        """Compute the returns of the complete rollout with the weights that collected it, and shuffle."""
        ring = self.ring
        steps = torch.arange(-self.config.rollout, 1, device=ring.device)
        rows = (ring.head + steps) % ring.rows  # oldest first
        slots = rows[:, None] * ring.num_envs + torch.arange(ring.num_envs, device=ring.device)  # [T+1, N]
        kind, reward = (column.view(-1)[slots[:-1]] for column in (ring.kind, ring.reward))
        value = self._values(slots[1:].flatten()).view(kind.shape)
        terminated, truncated = kind == int(Kind.TERMINATED), kind == int(Kind.TRUNCATED)
        elapsed = None if ring.elapsed is None else ring.elapsed.view(-1)[slots[:-1]].to(torch.float32)
        gamma = self.gamma if elapsed is None else self.gamma**elapsed
        returns = lambda_returns(reward, terminated, truncated, value, gamma, self.config.trace)
        weight = (kind != int(Kind.RESET)).to(torch.float32).flatten()
        share = weight.mean()
        self.ranks.average_(share)
        weight /= share.clamp(min=1 / len(weight))  # an epoch's loss is the mean over its transitions
        self._index.copy_(slots[:-1].flatten())
        self._returns.copy_(returns.flatten())
        self._weight.copy_(weight)
        for part in torch.split(self._order, self.transitions):
            part.copy_(torch.randperm(self.transitions, generator=self.generator, device=ring.device))
        self._used.zero_()

    def _values(self, slots: Tensor) -> Tensor:
        """max_a Q of the observations at `slots`, [T · N], in pieces of the size of a minibatch."""
        return torch.cat([self._value(piece) for piece in torch.split(slots, self.size)])

    def _value(self, slots: Tensor) -> Tensor:
        ring = self.ring
        obs = ring.observations(slots)
        mask = None if ring.mask is None else ring.mask.flatten(0, 1)[slots]
        mask = mask if ring.legal is None else ring.legal(obs)
        q, branches = self.head.q(self.policy(obs)), branching.get_head_branches(self.head)
        return best_value(q, mask) if branches is None else branching.best_value(q, mask, branches)

    def _pick(self, chosen: Tensor) -> Batch:
        """A batch with returns as rewards and discount 0: the next observation does not matter then."""
        index, ring = self._index[chosen], self.ring
        obs = ring.observations(index)
        action = ring.action.view(-1)[index].to(torch.int64)
        returns = self._returns[chosen]
        return Batch(
            Transition(obs, action, returns, torch.zeros_like(returns), obs), self._weight[chosen], index
        )


def lambda_returns(
    reward: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    next_value: Tensor,
    gamma: float | Tensor,
    trace: float,
) -> Tensor:
    """G_t = r_t + γ (1 − terminated_t) [λ G_{t+1} + (1 − λ) V_{t+1}], backwards over the first axis.

    All are [T, N], γ too if it differs by step; `next_value[t]` is V = max_a Q of the observation that step t
    led to. This is Peng's Q(λ) (Peng and Williams 1994), as in PQN (Gallici et al. 2024, arXiv:2407.04811). At
    a termination nothing follows; at a truncation, and at the end of the rollout, only V follows. So nothing
    is ever read from the row after an end, which is not a transition: the result in that row means nothing,
    and must get weight 0.
    """
    discount = gamma * (~terminated).to(reward.dtype)
    kept = trace * (~truncated).to(reward.dtype)  # λ_t
    result = torch.empty_like(reward)
    following = next_value[-1]
    for t in reversed(range(len(reward))):
        ahead = torch.lerp(next_value[t], following, kept[t])
        following = torch.addcmul(reward[t], discount[t], ahead, out=result[t])
    return result


def best_value(q: Tensor, mask: Tensor | None) -> Tensor:
    """max_a Q over the legal actions, [B]; if there are none the episode is over, and any value will do."""
    return q.gather(1, masked_argmax(q, mask)[:, None]).squeeze(1)
