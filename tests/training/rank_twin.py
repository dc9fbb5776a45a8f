"""One process that learns as two ranks must: two halves of the boards, two rings, two halves of every batch.

Naive on purpose: nothing in it exchanges anything. There is one learner, and totals, weights and gradients of the
two halves are put together by the formula.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from flashdqn.compute.ranks import RankPlace, Ranks
from flashdqn.compute.seeds import make_generator, purpose_seed
from flashdqn.config import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.contract import number_boards
from flashdqn.core.types import Batch, Transition
from flashdqn.envs import build_env
from flashdqn.learn.algorithms import apply_algorithm
from flashdqn.replay.ring import Kind
from flashdqn.training.assemble import Parts, assemble_parts
from flashdqn.training.counts import Counts
from flashdqn.training.engine import group_size, largest_group
from flashdqn.training.ratio import build_ratio
from flashdqn.training.schedules import Schedules

CPU = torch.device("cpu")
WORLD = 2

SMALL: dict[str, Any] = {
    "envs": 16,
    "train_ratio": 0.25,
    "network.hidden": (32, 32),
    "replay": {"capacity": 2000},
    "learn": {"batch_size": 32, "starts": 200, "target_every": 20},
    "pqn": {"rollout": 8, "epochs": 2, "minibatches": 4},
    "explore": {"over": 2000},
    "eval.episodes": 5,
    "log.tensorboard": False,
    "device": "cpu",
}


def make_config(algo: str, **changes: Any) -> Config:
    config = apply_algorithm(apply_settings(base_config("snake-flood"), SMALL), algo)
    named = {k.replace("__", "."): v for k, v in changes.items()}
    kept = {"replay.capacity": 2000, "pqn": SMALL["pqn"], "explore.over": 2000}  # whatever the algorithm says
    return apply_settings(config, kept | named)


def halve(config: Config) -> Config:
    """Half of everything that is shared out; written again here, so that an error there is not repeated."""
    return replace(
        config,
        envs=config.envs // WORLD,
        learn=replace(config.learn, batch_size=config.learn.batch_size // WORLD),
        replay=replace(config.replay, capacity=config.replay.capacity // WORLD),
    )


class SilentRanks(Ranks):
    """A rank of two that nobody is connected to: the twin adds up for it."""

    def __init__(self, rank: int) -> None:
        super().__init__(RankPlace(rank, WORLD))


class Twin:
    """Two ranks' data, one learner."""

    def __init__(self, config: Config, whole_batches: bool, device: torch.device = CPU) -> None:
        """With `whole_batches`, one gradient of both halves together; else the mean of two gradients, in the order
        in which two ranks add them: the same bits."""
        self.config, self.whole, self.device = config, whole_batches, device
        self.totals = [0]  # transitions after each iteration
        half = halve(config)
        self.halves = [
            assemble_parts(half, build_env(half.env, half.envs, device), SilentRanks(rank))
            for rank in range(WORLD)
        ]
        self.learner = self.halves[0].learner
        for rank, parts in enumerate(self.halves):
            number_boards(parts.env, rank * half.envs)
            parts.collector.policy = self.learner.policy
            if parts.rollouts is not None:
                parts.rollouts.policy = self.learner.policy
            if hasattr(parts.sampler, "entering"):
                parts.sampler.entering = torch.ones((), device=device)
        self.ratio = build_ratio(config, self.halves[0].rollouts)
        self.schedules = [
            Schedules(config, p.collector.eps, self.learner.lr, p.sampler, SilentRanks(r))
            for r, p in enumerate(self.halves)
        ]
        self.largest = largest_group(config, self.halves[0])

    def start(self) -> None:
        """Boards have the seeds that one process would give them, and draw its luck."""
        for parts in self.halves:
            parts.collector.start(purpose_seed(self.config.seed, "envs"))
        self.luck = make_generator(self.config.seed, "explore", self.device)

    @property
    def transitions(self) -> int:
        return sum(int(parts.counts.totals[0]) for parts in self.halves)

    @property
    def seen(self) -> int:
        """The transitions that a host knows of: on a GPU those of some iterations ago."""
        lag = Counts.LAG if self.device.type == "cuda" else 0
        return self.totals[max(0, len(self.totals) - 1 - lag)]

    def iterate(self) -> None:
        for schedules in self.schedules:
            schedules.write(self.seen)
        luck = torch.zeros((2, self.config.envs), device=self.device).uniform_(generator=self.luck)
        for parts, own in zip(self.halves, torch.chunk(luck, WORLD, 1), strict=True):
            self.collect(parts, own)
        self.totals.append(self.transitions)
        due = self.ratio.due(self.seen, self.learner.updates)
        while due > 0:
            count = group_size(min(due, self.largest, self.learner.until_copy))
            self.learn(count)
            due -= count

    @torch.no_grad()
    def collect(self, parts: Parts, luck: Tensor) -> None:
        collector = parts.collector
        action = collector.act(collector.obs, collector.mask, collector.eps, luck)
        step = parts.env.step(action)
        collector.record(action, step, parts.env.outcomes)
        parts.sampler.appended()
        parts.sampler.rows_added()

    def learn(self, count: int) -> None:
        size = self.halves[0].config.update_size
        drawn = []
        for parts in self.halves:
            parts.sampler.drawing(count)
            drawn.append(parts.sampler.batches(count, size))
        weights = self.weigh([torch.stack([b.index for b in batches]) for batches in drawn])
        for k in range(count):
            halves = [own[k] for own in drawn]
            if weights is not None:
                halves = [half._replace(weight=w[k]) for half, w in zip(halves, weights, strict=True)]
            if (share := self.share_of_transitions()) is not None:
                halves = [half._replace(weight=(half.weight > 0) / share) for half in halves]
            priority = self.step(halves)
            for parts, half, own in zip(self.halves, halves, torch.split(priority, size), strict=True):
                parts.sampler.update(half.index, own)
            self.learner.counted(1)

    def weigh(self, index: list[Tensor]) -> list[Tensor] | None:
        """Prioritized replay: (min_j P_j / P_i)^β over both halves, where P is the chance among a rank's own."""
        samplers: list[Any] = [parts.sampler for parts in self.halves]
        if self.config.sampler != "prioritized":
            return None
        chance = []
        for sampler, own in zip(samplers, index, strict=True):
            leaves = sampler.tree.levels.leaves
            chance.append(leaves[own] / sampler.tree.levels.total.to(leaves.dtype))
        least = torch.stack([own.amin(1) for own in chance]).amin(0)
        largest = torch.stack([sampler.largest for sampler in samplers]).amax()
        for sampler in samplers:
            sampler.entering = largest.clone()
        return [(least[:, None] / own) ** samplers[0].beta for own in chance]

    def share_of_transitions(self) -> Tensor | None:
        """PQN: how many of the rows of both rollouts are transitions; their weights have a mean of 1."""
        if self.halves[0].rollouts is None:
            return None
        rollout = torch.arange(-self.config.pqn.rollout, 0, device=self.device)
        rows = [parts.ring.kind[rollout + int(parts.ring.head)] for parts in self.halves]
        valid = [(kind != int(Kind.RESET)).to(torch.float32).mean() for kind in rows]
        return (valid[0] + valid[1]) / 2

    def step(self, halves: list[Batch]) -> Tensor:
        if self.whole:
            return self.learner.step(join(halves))
        learner = self.learner
        learner.resample_noise()
        results, gradients = [], []
        for half in halves:
            learner.flat.gradient.zero_()
            results.append(learner.loss(half))
            results[-1].loss.backward()  # type: ignore[no-untyped-call]
            gradients.append(learner.flat.gradient.clone())
        learner.flat.gradient.copy_((gradients[0] + gradients[1]) / 2)
        learner.apply(results[0])
        return torch.cat([result.priority for result in results])


def join(halves: list[Batch]) -> Batch:
    """Two batches, one after the other."""
    columns = zip(*(half.transition for half in halves), strict=True)
    rows = (None if pair[0] is None else torch.cat(pair) for pair in columns)
    return Batch(
        Transition(*rows), *(torch.cat([getattr(h, n) for h in halves]) for n in ("weight", "index"))
    )
