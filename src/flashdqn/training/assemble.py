"""Create the parts of a training from its configuration; save them in a checkpoint and load them."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from flashdqn.compute.device import free_bytes
from flashdqn.compute.seeds import make_generator
from flashdqn.config import Config, ReplayConfig
from flashdqn.core.contract import VecEnv, get_decoder, is_resumable, stores_masks
from flashdqn.core.errors import CheckpointError, ConfigError
from flashdqn.learn.build import SamplerParts, build_sampler, make_rollout_sampler
from flashdqn.learn.divergence import describe_data
from flashdqn.learn.learner import Exchange, Learner, build_learner
from flashdqn.learn.pqn import RolloutSampler
from flashdqn.replay import DemonstrationBuffer, MixedSampler, Ring, Sampler
from flashdqn.replay.prioritized import priority_bytes
from flashdqn.replay.ring import ring_bytes, rows_for_capacity
from flashdqn.training.collector import Collector
from flashdqn.training.counts import Counts
from flashdqn.training.metrics import EpisodeMetrics
from flashdqn.training.phases import Phases

#: A replay of at least this many bytes is announced.
WORTH_SAYING = 10**9


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
                self.env.load_state_dict(part("env."))
            self.metrics.load_state_dict(part("metrics."))
            for name, state_ in part("generator.").items():
                self.generators[name].set_state(state_)
        except (KeyError, RuntimeError) as error:
            raise CheckpointError(f"The checkpoint does not fit its run's configuration: {error}.") from error
        self.counts.load(counters["transitions"], counters["episodes"])
        if fresh:
            return
        if not is_resumable(self.env):  # its unfinished episodes cannot continue
            self.ring.cut_off()
            self.metrics.cut_off()
        self.collector.resume()


def assemble_parts(config: Config, env: VecEnv) -> Parts:
    """Create all parts, on the environment's device, before their first step."""
    device, masked, decoding = env.device, stores_masks(env), get_decoder(env)
    check_memory_fits(config, env)
    legal = None if decoding is None or env.mask is None else decoding.legal
    capacity = ring_config(config).capacity
    ring = Ring(capacity, config.envs, env.obs_spec, env.num_actions, device, masked, legal)
    learner = build_learner(config, env, device)
    generators = {name: make_generator(config.seed, name, device) for name in ("explore", "replay")}
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
    counts, phases = Counts(device), Phases(device)
    explore = generators["explore"]
    collector = Collector(env, learner.policy, learner.head, ring, sampler, metrics, counts, phases, explore)
    learner.watch.explain_by(lambda: describe_data(*ring.learned_from()), env.name)
    generators |= learner.generators
    return Parts(
        config, env, learner, ring, sampler, collector, metrics, counts, phases, generators, rollouts,
        demonstrations,
    )  # fmt: skip


def ring_config(config: Config) -> ReplayConfig:
    """What the ring holds: the replay, or one rollout."""
    if config.learn.method == "replay":
        return config.replay
    return replace(config.replay, capacity=config.pqn.rollout * config.envs)


def check_memory_fits(config: Config, env: VecEnv) -> None:
    """Refuse a replay, or a rollout, that does not fit into memory."""
    masked = stores_masks(env)
    if config.learn.method == "replay":
        check_ring_fits(config.replay, env, masked)
    else:
        check_ring_fits(ring_config(config), env, masked, "--pqn.rollout", config.envs)


def replay_bytes(config: ReplayConfig, env: VecEnv, masked: bool) -> int:
    """Bytes that ring and priorities will take."""
    needed = ring_bytes(config.capacity, env.num_envs, env.obs_spec, env.num_actions, masked)
    if config.priority > 0:
        rows = rows_for_capacity(config.capacity, env.num_envs, env.obs_spec.stack)
        needed += priority_bytes(rows * env.num_envs, env.device)
    return needed


def describe_replay_memory(config: Config, env: VecEnv) -> str | None:
    """A sentence about the memory of the replay; None if it is small."""
    replay = ring_config(config)
    needed = replay_bytes(replay, env, stores_masks(env))
    if needed < WORTH_SAYING:
        return None
    frames = f", each frame once for stacks of {env.obs_spec.stack}" if env.obs_spec.stack > 1 else ""
    return (
        f"The replay of {replay.capacity:,} transitions takes {needed / 1e9:.2f} GB on {env.device}{frames}"
    )


def check_ring_fits(
    config: ReplayConfig, env: VecEnv, masked: bool, setting: str = "--replay.capacity", unit: int = 1
) -> None:
    """Say how much memory the ring needs before it is allocated, and refuse what does not fit; one `setting` counts
    for `unit` transitions."""
    capacity, needed = config.capacity, replay_bytes(config, env, masked)
    free = int(free_bytes(env.device) * 0.9)
    if needed > free:  # garbage of an earlier training in this process may take memory
        gc.collect()
        torch.cuda.empty_cache()
        free = int(free_bytes(env.device) * 0.9)
    if needed > free:
        fits = capacity * free // needed // unit
        raise ConfigError(
            f"A ring of {capacity:,} transitions takes {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are "
            f"free on {env.device}: use {setting} {fits} or less."
        )
