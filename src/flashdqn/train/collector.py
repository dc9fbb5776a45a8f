"""The collector: act, step, append. One call is one step of every environment."""

from __future__ import annotations

import torch
from torch import Tensor

from flashdqn.envs.contract import VecEnv
from flashdqn.learn.bootstraps import Net, masked_argmax
from flashdqn.learn.heads import Head
from flashdqn.replay.ring import Ring
from flashdqn.train.counts import Counts
from flashdqn.train.metrics import EpisodeMetrics
from flashdqn.train.phases import Phases


class Collector:
    """Plays ε-greedily with the online network and fills the ring."""

    def __init__(
        self,
        env: VecEnv,
        policy: Net,
        head: Head,
        ring: Ring,
        metrics: EpisodeMetrics,
        counts: Counts,
        phases: Phases,
        generator: torch.Generator,
    ) -> None:
        self.env, self.policy, self.head, self.ring = env, policy, head, ring
        self.metrics, self.counts, self.phases, self.generator = metrics, counts, phases, generator
        self.eps = torch.ones(env.num_envs, device=ring.device)
        self.obs: Tensor
        self.mask: Tensor | None

    def start(self, seed: int) -> None:
        """Begin with fresh episodes."""
        self.obs = self.env.reset(seed)
        self.mask = self.env.mask
        self.ring.start(self.obs, self.mask)

    def resume(self) -> None:
        """Go on where ring and environments stand."""
        self.obs = self.ring.obs[int(self.ring.head)].clone()
        self.mask = self.env.mask

    @torch.no_grad()
    def collect(self) -> None:
        """One step of every environment."""
        with self.phases("act"):
            q = self.head.q(self.policy(self.obs))
            action = explore(q, self.mask, self.eps, self.generator)
        with self.phases("step"):
            step = self.env.step(action)
        with self.phases("append"):
            self.metrics.observe(step, self.ring.ended, self.env.outcomes, self.counts.totals)
            self.ring.append(action, step)
        self.obs, self.mask = step.obs, step.mask


def explore(q: Tensor, mask: Tensor | None, eps: Tensor, generator: torch.Generator) -> Tensor:
    """The best legal action, or with probability ε_i a random legal one; a coin for every environment."""
    coin = torch.rand(len(q), generator=generator, device=q.device)
    if mask is None:
        chance = torch.randint(q.shape[1], (len(q),), generator=generator, device=q.device)
    else:
        luck = torch.rand(q.shape, generator=generator, device=q.device)
        chance = luck.masked_fill_(~mask, -1.0).argmax(1)
    return torch.where(coin < eps, chance, masked_argmax(q, mask))
