"""Make the parts of a training from its configuration, and carry them into a checkpoint and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flashdqn.config import Config, LearnConfig
from flashdqn.envs.contract import VecEnv
from flashdqn.errors import CheckpointError, ConfigError
from flashdqn.learn.heads import Head, ScalarHead
from flashdqn.learn.learner import Learner
from flashdqn.networks import build_network
from flashdqn.replay import Ring, Sampler, UniformSampler
from flashdqn.replay.ring import ring_bytes
from flashdqn.runtime.device import free_bytes
from flashdqn.runtime.seeds import generator
from flashdqn.train.collector import Collector
from flashdqn.train.counts import Counts
from flashdqn.train.metrics import EpisodeMetrics
from flashdqn.train.phases import Phases


@dataclass
class Parts:
    """Everything that a loop works with."""

    env: VecEnv
    learner: Learner
    ring: Ring
    sampler: Sampler
    collector: Collector
    metrics: EpisodeMetrics
    counts: Counts
    phases: Phases
    generators: dict[str, torch.Generator]

    def state_dict(self) -> dict[str, Tensor]:
        """All that a resumed run needs besides the weights and the counters."""
        parts: dict[str, Any] = {
            "learner": self.learner,
            "ring": self.ring,
            "env": self.env,
            "metrics": self.metrics,
        }
        state = {f"{part}.{key}": x for part, p in parts.items() for key, x in p.state_dict().items()}
        return state | {f"generator.{name}": g.get_state() for name, g in self.generators.items()}

    def load(self, weights: Mapping[str, Tensor], state: Mapping[str, Tensor], counters: Any) -> None:
        """Go on from a checkpoint."""

        def part(name: str) -> dict[str, Tensor]:
            return {k.removeprefix(name): v for k, v in state.items() if k.startswith(name)}

        try:
            self.learner.load_state_dict(weights, part("learner."), counters["updates"])
            self.ring.load_state_dict(part("ring."))
            self.env.load_state_dict(part("env."))
            self.metrics.load_state_dict(part("metrics."))
            for name, state_ in part("generator.").items():
                self.generators[name].set_state(state_)
        except (KeyError, RuntimeError) as error:
            raise CheckpointError(f"The checkpoint does not fit its run's configuration: {error}.") from error
        self.counts.load(counters["transitions"], counters["episodes"])
        self.collector.resume()


def assemble(config: Config, env: VecEnv) -> Parts:
    """All parts, on the environment's device, before their first step."""
    device, masked = env.device, env.mask is not None
    check_ring_fits(config.replay.capacity, env, masked)
    ring = Ring(config.replay.capacity, config.envs, env.obs_spec, env.num_actions, device, masked)
    generators = {name: generator(config.seed, name, device) for name in ("explore", "replay")}
    sampler = UniformSampler(ring, config.replay.n_step, config.learn.gamma, generators["replay"])
    learner = build_learner(config, env, device)
    metrics = EpisodeMetrics(config.envs, env.outcome_names, device)
    counts, phases = Counts(device), Phases(device)
    collector = Collector(
        env, learner.online, learner.head, ring, metrics, counts, phases, generators["explore"]
    )
    return Parts(env, learner, ring, sampler, collector, metrics, counts, phases, generators)


def build_head(config: LearnConfig) -> Head:
    """The head that the configuration names."""
    return ScalarHead(config.huber)


def build_learner(config: Config, env: VecEnv, device: torch.device) -> Learner:
    """Head, network and optimiser."""
    head = build_head(config.learn)
    weights = generator(config.seed, "weights")
    network = build_network(config.network, env.obs_spec, head.outputs(env.num_actions), weights)
    return Learner(config.learn, network, head, device)


def check_ring_fits(capacity: int, env: VecEnv, masked: bool) -> None:
    """Say how much the ring needs before taking it, and refuse what does not fit."""
    needed = ring_bytes(capacity, env.num_envs, env.obs_spec, env.num_actions, masked)
    free = int(free_bytes(env.device) * 0.9)
    if needed > free:
        fits = capacity * free // needed
        raise ConfigError(
            f"A replay of {capacity:,} transitions takes {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are "
            f"free on {env.device}: use --replay.capacity {fits} or less."
        )
