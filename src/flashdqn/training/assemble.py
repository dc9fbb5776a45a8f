"""Create the parts of a training from its configuration; save them in a checkpoint and load them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flashdqn.compute.ranks import ALONE, Ranks
from flashdqn.compute.seeds import make_generator, purpose_seed
from flashdqn.config import Config
from flashdqn.core.contract import (
    VecEnv,
    count_actions,
    get_decoder,
    is_resumable,
    is_timed,
    list_layers,
    number_boards,
    stores_masks,
)
from flashdqn.core.errors import CheckpointError, EnvError
from flashdqn.envs.reward_scale import RewardScale
from flashdqn.learn.build import SamplerParts, build_sampler, make_rollout_sampler
from flashdqn.learn.divergence import DataOrigin
from flashdqn.learn.learner import Exchange, Learner, build_learner
from flashdqn.learn.pqn import RolloutSampler
from flashdqn.replay import DemonstrationBuffer, MixedSampler, Ring, Sampler
from flashdqn.training.collector import Collector
from flashdqn.training.counts import Counts
from flashdqn.training.memory import check_memory_fits, ring_config
from flashdqn.training.metrics import EpisodeMetrics
from flashdqn.training.phases import Phases
from flashdqn.training.workers.feed import Feed
from flashdqn.training.workers.games import RemoteGames


@dataclass
class Parts:
    """Everything that a loop works with."""

    config: Config
    env: VecEnv
    learner: Learner
    ring: Ring
    sampler: Sampler
    collector: Collector
    metrics: EpisodeMetrics
    counts: Counts
    phases: Phases
    generators: dict[str, torch.Generator]
    #: the sampler itself, if it hands out rollouts (PQN)
    rollouts: RolloutSampler | None = None
    #: demonstrations that stay for the whole training, if there are any
    demonstrations: DemonstrationBuffer | None = None
    #: what ranks do with the flat gradient between backward and Adam; None in a single process
    exchange: Exchange | None = None
    #: the processes of this training
    ranks: Ranks = ALONE

    def start(self) -> None:
        """Start with new episodes. A board has the same seed whichever rank plays it, unless its environment cannot
        number its boards: then every rank has a seed of its own."""
        purpose = "envs"
        if self.ranks.many and not number_boards(self.env, self.ranks.rank * self.env.num_envs):
            purpose = name_for_rank("envs", self.ranks.rank)
        self.collector.start(purpose_seed(self.config.seed, purpose))

    def state_dict(self) -> dict[str, Tensor]:
        """All that a resumed run needs besides the weights and the counters."""
        parts: dict[str, Any] = {
            "learner": self.learner,
            "ring": self.ring,
            "sampler": self.sampler,
            "env": self.env,
            "metrics": self.metrics,
        }
        state = {f"{part}.{key}": x for part, p in parts.items() for key, x in p.state_dict().items()}
        return state | {f"generator.{name}": g.get_state() for name, g in self.generators.items()}

    def load(
        self, weights: Mapping[str, Tensor], state: Mapping[str, Tensor], counters: Any, fresh: bool = False
    ) -> None:
        """Continue from a checkpoint; or, if `fresh`, be as before the first step, ready for `collector.start`.

        No tensor moves: each is written at its address, because graphs use the addresses.
        """

        def part(name: str) -> dict[str, Tensor]:
            return {k.removeprefix(name): v for k, v in state.items() if k.startswith(name)}

        try:
            self.learner.load_state_dict(weights, part("learner."), counters["updates"])
            self.ring.load_state_dict(part("ring."))
            self.sampler.load_state_dict(part("sampler."))
            if is_resumable(self.env) or not fresh:
                self._load_env(part("env."), fresh)
            self.metrics.load_state_dict(part("metrics."))
            self._check_observations()
            for name, state_ in part("generator.").items():
                self.generators[name].set_state(state_)
        except (KeyError, RuntimeError, TypeError, ValueError, IndexError) as error:
            raise CheckpointError(f"The checkpoint does not fit its run's configuration: {error}.") from error
        self.counts.load(counters["transitions"], counters["episodes"], counters["updates"])
        if fresh:
            return
        if not is_resumable(self.env):  # its unfinished episodes cannot continue
            self.ring.cut_off()
            self.metrics.cut_off()
        self.collector.resume(purpose_seed(self.config.seed, "envs"))

    def _load_env(self, state: dict[str, Tensor], fresh: bool) -> None:
        try:
            self.env.load_state_dict(state)
        except (KeyError, RuntimeError) as error:
            if not fresh:
                raise
            raise EnvError(
                f"{self.env.name}: load_state_dict must take what state_dict has just returned, but it raised "
                f"{type(error).__name__}: {error}. Save all that it reads, or set `resumable = False`."
            ) from error

    def list_missing_generators(self, state: Mapping[str, Tensor]) -> list[str]:
        """The random generators that a state says nothing of: a training resumed from it would differ."""
        return [name for name in self.generators if f"generator.{name}" not in state]

    def _check_observations(self) -> None:
        """Refuse stored observations that the network's first step cannot look up."""
        decoder = get_decoder(self.env)
        if callable(check := getattr(decoder, "check", None)):
            stored = [self.ring.learned_from()[0]]
            if self.demonstrations is not None:
                shown = self.demonstrations.columns
                stored += [shown.obs, shown.next_obs]
            for obs in stored:
                check(obs.flatten(0, -2))


#: Generators that every rank has for itself: the others draw the same numbers on all ranks.
OWN_GENERATORS = ("replay", "fractions")


def name_for_rank(purpose: str, rank: int) -> str:
    """What a random generator is for, if every rank has its own; the first rank's is that of a single process."""
    return f"{purpose}@{rank}" if rank else purpose


def assemble_parts(config: Config, env: VecEnv, ranks: Ranks = ALONE) -> Parts:
    """Create all parts, on the environment's device, before their first step. With several ranks, `config` has this
    rank's share (`rank_share.share_config`)."""
    device, masked, decoding = env.device, stores_masks(env), get_decoder(env)
    check_memory_fits(config, env)
    legal = None if decoding is None or env.mask is None else decoding.legal
    capacity = ring_config(config).capacity
    sizes = config.envs, env.obs_spec, env.num_actions
    ring = Ring(capacity, *sizes, device, masked, legal, count_actions(env), is_timed(env))
    learner = build_learner(config, env, device)
    purposes = {"explore": "explore", "replay": name_for_rank("replay", ranks.rank)}
    generators = {name: make_generator(config.seed, own, device) for name, own in purposes.items()}
    if ranks.rank and "fractions" in learner.generators:
        seed = purpose_seed(config.seed, name_for_rank("fractions", ranks.rank))
        learner.generators["fractions"].manual_seed(seed)
    made_of = SamplerParts(config, ring, learner.policy, learner.head, generators["replay"])
    rollouts, demonstrations = None, None
    if config.learn.method == "pqn":
        rollouts = make_rollout_sampler(made_of)
    sampler: Sampler = rollouts or build_sampler(made_of)
    if config.demos.kept:
        sizes = config.demos.kept, env.obs_spec, env.num_actions
        demonstrations = DemonstrationBuffer(*sizes, device, masked, legal)
        sampler = MixedSampler(sampler, demonstrations, config.demos.share, generators["replay"])
    metrics = EpisodeMetrics(config.envs, env.outcome_names, device)
    counts, phases = Counts(device, ranks), Phases(device)
    explore = generators["explore"]
    normalizer = getattr(learner.online, "normalizer", None)
    feed = Feed(config, env, learner) if isinstance(env, RemoteGames) else None
    collector = Collector(
        env,
        learner.policy,
        learner.head,
        ring,
        sampler,
        metrics,
        counts,
        phases,
        explore,
        normalizer,
        ranks,
        feed,
    )
    count = lambda: int(counts.totals[0])  # noqa: E731
    learner.watch.explain_by(DataOrigin(env.name, ring, count, given_rewards=rollouts is None))
    generators |= learner.generators
    parts = Parts(
        config, env, learner, ring, sampler, collector, metrics, counts, phases, generators, rollouts,
        demonstrations, ranks.exchange_gradient if ranks.many else None, ranks,
    )  # fmt: skip
    if ranks.many:
        join_ranks(parts)
    return parts


def join_ranks(parts: Parts) -> None:
    """Let the parts exchange with those of other ranks what one process would have together."""
    ranks = parts.ranks
    if callable(join := getattr(parts.sampler, "join", None)):  # a user's own sampler draws for itself
        join(ranks)
    if parts.collector.normalizer is not None:
        parts.collector.normalizer.ranks = ranks
    for layer in list_layers(parts.env):
        if isinstance(layer, RewardScale):
            layer.ranks = ranks
