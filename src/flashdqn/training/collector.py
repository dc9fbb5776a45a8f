"""The collector: act, step, append. One call is one step of every environment.

With a feed (`workers/feed.py`), others have acted and stepped: one call appends a row of what they sent.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from flashdqn.compute.ranks import ALONE, Ranks
from flashdqn.core.contract import VecEnv, make_branches
from flashdqn.core.ops import choose_epsilon_greedy
from flashdqn.core.types import Step
from flashdqn.learn.bootstraps import Net
from flashdqn.learn.heads import Head
from flashdqn.networks.normalize import ObsNormalizer
from flashdqn.replay import Sampler
from flashdqn.replay.ring import CellRow, Ring
from flashdqn.training.counts import Counts
from flashdqn.training.metrics import EpisodeMetrics
from flashdqn.training.phases import Phases
from flashdqn.training.workers.feed import Feed


class Player(Protocol):
    """Chooses actions and stores what the environments return: a backend, or an expert in front of one."""

    def act(self, obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor) -> Tensor:
        """Actions, [N] int64, from observations, masks, ε, and two random numbers for each environment, [2, N];
        with D branches, 1 + D of them.

        The next call may overwrite them.
        """

    def record(self, action: Tensor, step: Step, outcomes: Tensor) -> None:
        """Store what the environments returned in metrics and ring."""


class Collector:
    """Steps the environments and fills the ring. Nothing in it reads from the device."""

    def __init__(
        self,
        env: VecEnv,
        policy: Net,
        head: Head,
        ring: Ring,
        sampler: Sampler,
        metrics: EpisodeMetrics,
        counts: Counts,
        phases: Phases,
        generator: torch.Generator,
        normalizer: ObsNormalizer | None = None,
        ranks: Ranks = ALONE,
        feed: Feed | None = None,
    ) -> None:
        self.env, self.policy, self.head, self.ring, self.sampler = env, policy, head, ring, sampler
        self.metrics, self.counts, self.phases, self.generator = metrics, counts, phases, generator
        self.normalizer, self.feed = normalizer, feed
        self.rehearses = False  # within a warm-up: workers are not started for it
        shape, dtype = env.obs_spec.shape, env.obs_spec.dtype
        # Buffers at fixed places: a CUDA graph uses their addresses.
        self.eps = torch.ones(env.num_envs, device=ring.device)
        self.branches = make_branches(env)
        draws = 2 if self.branches is None else 1 + self.branches.count
        self.luck = torch.zeros((draws, env.num_envs), device=ring.device)
        # Every rank draws for all boards and uses its own: a board has the same luck whichever rank plays it.
        self._drawn = self.luck
        if ranks.many:
            self._drawn = torch.zeros((draws, env.num_envs * ranks.world), device=ring.device)
        self._first = ranks.rank * env.num_envs
        self.obs = torch.zeros((env.num_envs, *shape), dtype=dtype, device=ring.device)
        masked, size = env.mask is not None, (env.num_envs, env.num_actions)
        self.mask = torch.ones(size, dtype=torch.bool, device=ring.device) if masked else None

    def start(self, seed: int) -> None:
        """Start with new episodes."""
        self._see(self.env.reset(seed), self.env.mask)
        self.ring.start(self.obs, self.mask)
        if self.feed is not None and not self.rehearses:
            self.feed.start(seed)
        elif self.normalizer is not None:
            self.normalizer.update(self.obs)

    def resume(self, seed: int = 0) -> None:
        """Continue from the current state of ring and environments; `seed` is for workers, which start again."""
        self._see(self.ring.newest(), self.env.mask)
        if self.feed is not None:
            self.feed.start(seed)

    @property
    def is_starting(self) -> bool:
        """Whether workers have not sent anything yet."""
        return self.feed is not None and not self.feed.has_begun

    @torch.no_grad()
    def collect(self, player: Player | None = None) -> bool:
        """One step of every environment, played and recorded by a backend, or by plain operations. False if
        workers have not sent a whole row yet."""
        if self.feed is not None and not self.rehearses:
            return self._take_row(self.feed)
        player = player or self
        with self.phases("act"):
            self._drawn.uniform_(generator=self.generator)
            if self._drawn is not self.luck:
                self.luck.copy_(self._drawn[:, self._first : self._first + self.luck.shape[1]])
            action = player.act(self.obs, self.mask, self.eps, self.luck)
        with self.phases("step"):
            step = self.env.step(action)
        with self.phases("append"):
            player.record(action, step, self.env.outcomes)
            if self.normalizer is not None:
                self.normalizer.update(self.obs)
            self.sampler.appended()
        return True

    def _take_row(self, feed: Feed) -> bool:
        """Append the next row that workers have played."""
        with self.phases("step", host=True):
            row = feed.next_row(self.eps)
        if row is None:
            return False
        with self.phases("append"):
            here, admitted = row
            device = self.ring.device
            cells = CellRow(*(None if part is None else part.to(device) for part in here))  # type: ignore[arg-type]
            self.ring.append_cells(cells)
            self.metrics.add_ended(torch.from_numpy(admitted.outcomes.sum(axis=0)), len(admitted.outcomes))
            counted = torch.tensor((len(admitted.versions), len(admitted.outcomes)))
            self.counts.totals += counted.to(device)
            if self.normalizer is not None:
                self.normalizer.update(self.ring.newest())
            self.sampler.appended()
        return True

    def act(self, obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor) -> Tensor:
        """The network's choice or, with probability ε, a random one: [N], by plain operations."""
        return choose_epsilon_greedy(self.head.q(self.policy(obs)), mask, eps, luck, self.branches)

    def record(self, action: Tensor, step: Step, outcomes: Tensor) -> None:
        """Store what the environments returned in metrics and ring, by plain operations."""
        self.metrics.observe(step, self.ring.ended, outcomes, self.counts.totals)
        self.ring.append(action, step)
        self._see(step.obs, step.mask)

    def _see(self, obs: Tensor, mask: Tensor | None) -> None:
        self.obs.copy_(obs)
        if self.mask is not None and mask is not None:
            self.mask.copy_(mask)
