"""Demonstrations: an expert plays through the normal collector into the ring, and the learner first learns from
that.

All of it happens before the clock starts, and is counted separately: afterwards transitions, episodes and updates
are 0. The task lists its experts. A user's environment may have its own: `demonstrators` names them, and
`demonstrator(name, seed)` makes one. Random play works for any task.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flashdqn.compute.seeds import make_generator, purpose_seed
from flashdqn.config import Config
from flashdqn.core.contract import VecEnv
from flashdqn.core.errors import ConfigError
from flashdqn.core.ops import choose_epsilon_greedy
from flashdqn.core.types import Step
from flashdqn.envs.task import Demonstrator
from flashdqn.envs.tasks import find_task
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.backend import Backend
from flashdqn.training.backends.compiler import Compiler
from flashdqn.training.backends.eager import EagerBackend
from flashdqn.training.collector import Player
from flashdqn.training.engine import Engine
from flashdqn.training.host_demonstrations import make_host_parts, plays_on_host, take_over
from flashdqn.training.progress import Amount
from flashdqn.training.schedules import Schedules

#: Makes, for some work and its amount, a function that is called at each of its steps and says whether to stop.
Watch = Callable[[str, Amount], Callable[[], bool]]


def build_demonstrator(config: Config, env: VecEnv) -> Demonstrator | None:
    """The expert that `demos.source` names; None for random play."""
    check_expert_source(config, env)
    if config.demos.source == "random":
        return None
    seed = purpose_seed(config.seed, "demonstrations")
    return list_experts(config, env)[config.demos.source](_unwrap_env(env), seed)


def check_expert_source(config: Config, env: VecEnv) -> None:
    """Refuse an expert that the task does not have."""
    names = ("none", "random", *list_experts(config, env))
    if config.demos.source not in names:
        raise ConfigError(
            f"The task {env.name} has no expert '{config.demos.source}' for demos.source; it has "
            f"{', '.join(names[1:])}."
        )


def list_experts(config: Config, env: VecEnv) -> dict[str, Callable[[Any, int], Demonstrator]]:
    """By name, what makes an expert for an environment from a seed: the task's, and the environment's own."""
    own = {
        name: lambda env, seed, name=name: env.demonstrator(name, seed)
        for name in getattr(_unwrap_env(env), "demonstrators", ())
    }
    return {**find_task(config.env.task).experts, **own}


def _unwrap_env(env: VecEnv) -> Any:
    """The environment itself, if this is its view on another device."""
    return getattr(env, "env", env)


def run_demonstrations(
    config: Config, parts: Parts, engine: Engine, schedules: Schedules, watch: Watch
) -> dict[str, Any]:
    """Fill the ring and learn from it; returns what was done, for the summary."""
    schedules.write(0)
    start = time.perf_counter()
    choices = let_expert_play(config, parts, engine, watch)
    keep_demonstrations(config, parts, choices)
    shown = parts.metrics.read()
    played = time.perf_counter()
    updates = Amount(lambda: parts.learner.updates, config.demos.pretrain_steps, "gradient steps")
    learn_from_demonstrations(config, parts, engine, watch("learning from demonstrations", updates))
    counts = parts.counts
    result = {
        "source": config.demos.source,
        "episodes": counts.episodes,
        "transitions": counts.transitions,
        "updates": parts.learner.updates,
        "mean_return": shown.return_,
        **({"mean_score": shown.outcomes["score"]} if "score" in shown.outcomes else {}),
        "seconds": round(played - start, 3),
        "pretrain_seconds": round(time.perf_counter() - played, 3),
    }
    counts.load(0, 0)
    parts.learner.updates = 0
    parts.learner.read_sums()
    parts.phases.read()
    return result


def let_expert_play(config: Config, parts: Parts, engine: Engine, watch: Watch) -> Tensor | None:
    """Fill the ring; returns the expert's choices, [rows, N], if demonstrations are kept."""
    place, backend = parts, engine.backend
    if plays_on_host(config, parts):
        place = make_host_parts(config)
        backend = EagerBackend(place, Compiler())
    expert = build_demonstrator(config, place.env)
    choices = torch.zeros_like(place.ring.action, dtype=torch.int64) if config.demos.kept else None
    player = ExpertPlayer(expert, config, place, backend, choices)
    episodes = Amount(lambda: place.counts.episodes, config.demos.episodes, "episodes")
    play_demonstrations(config, place, player, watch("demonstrations", episodes))
    if place is not parts:
        take_over(parts, place)
    return None if choices is None else choices.to(parts.learner.device)


class ExpertPlayer:
    """Stands in front of a backend: the expert acts, sometimes replaced by a random action; the backend records.

    `choices`, [rows, N], stores the expert's choice in any case.
    """

    def __init__(
        self,
        expert: Demonstrator | None,
        config: Config,
        parts: Parts,
        backend: Backend,
        choices: Tensor | None,
    ) -> None:
        self.expert, self.ring, self.choices, self._backend = expert, parts.ring, choices, backend
        self.shape = parts.ring.num_envs, parts.env.num_actions
        chance = config.demos.chance if expert is not None else 1.0
        self.eps = torch.full((parts.ring.num_envs,), chance, device=parts.ring.device)
        self.generator = make_generator(config.seed, "demonstrations", parts.ring.device)

    def act(self, obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor) -> Tensor:
        """The expert's choice, or a random one; the training's own ε and random numbers are not used."""
        device = self.ring.device
        random = torch.rand((2, self.shape[0]), generator=self.generator, device=device)
        preference = torch.zeros(self.shape, device=device)
        if self.expert is not None:
            choice = self.expert().to(device)
            preference.scatter_(1, choice[:, None], 1.0)
            if self.choices is not None:
                self.choices.index_copy_(0, self.ring.head, choice[None])
        return choose_epsilon_greedy(preference, mask, self.eps, random)

    def record(self, action: Tensor, step: Step, outcomes: Tensor) -> None:
        """Let the backend record the step."""
        self._backend.record(action, step, outcomes)


def play_demonstrations(config: Config, parts: Parts, player: Player, stop: Callable[[], bool]) -> None:
    """Play until there are enough episodes; the training continues those that are unfinished."""
    while parts.counts.episodes < config.demos.episodes and not stop():
        parts.collector.collect(player)
        parts.sampler.rows_added()
        parts.counts.publish()
    parts.counts.settle()


def keep_demonstrations(config: Config, parts: Parts, choices: Tensor | None) -> None:
    """Store the demonstrations that must stay."""
    kept, complete = parts.demonstrations, int(parts.ring.filled) >= config.replay.n_step
    if choices is not None and kept is not None and complete:
        generator = make_generator(config.seed, "demonstrations", parts.ring.device)
        kept.take(parts.ring, choices, config.replay.n_step, config.learn.gamma, generator)


def learn_from_demonstrations(config: Config, parts: Parts, engine: Engine, stop: Callable[[], bool]) -> None:
    """The configured number of gradient steps on the demonstrations."""
    complete = int(parts.ring.filled) >= config.replay.n_step
    while complete and parts.learner.updates < config.demos.pretrain_steps and not stop():
        engine.learn(min(engine.largest, config.demos.pretrain_steps - parts.learner.updates))
