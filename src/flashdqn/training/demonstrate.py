"""Demonstrations: an expert plays through the normal collector into the ring, and the learner learns from that
first.

All of it comes before the clock, and is counted apart: afterwards transitions, episodes and updates stand at 0. An
environment that has experts offers `demonstrator(name, seed)`, which gives something that answers with an
action for every environment as it stands. Chance can show any task.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from flashdqn.compute.seeds import make_generator, purpose_seed
from flashdqn.config import Config
from flashdqn.core.contract import VecEnv
from flashdqn.core.errors import ConfigError
from flashdqn.core.ops import choose_epsilon_greedy
from flashdqn.replay import MixedSampler
from flashdqn.training.assemble import Parts
from flashdqn.training.engine import Engine
from flashdqn.training.interrupt import Interrupt
from flashdqn.training.schedules import Schedules


class Demonstrator(Protocol):
    """An expert on an environment that it knows from the inside."""

    def __call__(self) -> Tensor:
        """An action for every environment, [N] int64, in the state that it is in now."""


def build_demonstrator(env: VecEnv, source: str, seed: int) -> Demonstrator | None:
    """The expert of a name; None for chance."""
    check_expert_source(env, source)
    if source == "random":
        return None
    expert: Demonstrator = _unwrap_env(env).demonstrator(source, seed)
    return expert


def check_expert_source(env: VecEnv, source: str) -> None:
    """Refuse an expert that the task does not have."""
    names = ("none", "random", *getattr(_unwrap_env(env), "demonstrators", ()))
    if source not in names:
        raise ConfigError(
            f"The task {env.name} has no expert '{source}' for demos.source; it has {', '.join(names[1:])}."
        )


def _unwrap_env(env: VecEnv) -> Any:
    """The environment itself, where it is shown on another device."""
    return getattr(env, "env", env)


def run_demonstrations(
    config: Config, parts: Parts, engine: Engine, schedules: Schedules, interrupt: Interrupt
) -> dict[str, Any]:
    """Fill the ring and learn from it; returns what was done, for the summary."""
    schedules.write(0)
    expert = build_demonstrator(parts.env, config.demos.source, purpose_seed(config.seed, "demonstrations"))
    start = time.perf_counter()
    act = parts.collector.act
    wishes = torch.zeros_like(parts.ring.action, dtype=torch.int64) if config.demos.kept else None
    parts.collector.act = make_demonstration_policy(expert, config, parts, wishes)
    try:
        play_demonstrations(config, parts, interrupt)
    finally:
        parts.collector.act = act
    keep_demonstrations(config, parts, wishes)
    shown = parts.metrics.read()
    played = time.perf_counter()
    learn_from_demonstrations(config, parts, engine, interrupt)
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


def make_demonstration_policy(
    expert: Demonstrator | None, config: Config, parts: Parts, wishes: Tensor | None
) -> Callable[..., Tensor]:
    """What stands in the place of the policy: the expert's choice, or now and then chance's. `wishes`, [rows, N],
    hears of the expert's in any case."""
    device, num = parts.ring.device, parts.ring.num_envs
    random = make_generator(config.seed, "demonstrations", device)
    eps = torch.full((num,), config.demos.chance if expert is not None else 1.0, device=device)
    actions = parts.env.num_actions

    def act(obs: Tensor, mask: Tensor | None, _eps: Tensor, _luck: Tensor) -> Tensor:
        luck = torch.rand((2, num), generator=random, device=device)
        wish = torch.zeros((num, actions), device=device)
        if expert is not None:
            choice = expert().to(device)
            wish.scatter_(1, choice[:, None], 1.0)
            if wishes is not None:
                wishes.index_copy_(0, parts.ring.head, choice[None])
        return choose_epsilon_greedy(wish, mask, eps, luck)

    return act


def play_demonstrations(config: Config, parts: Parts, interrupt: Interrupt) -> None:
    """Episodes until there are enough; those that are unfinished then go on as the training's own."""
    while parts.counts.episodes < config.demos.episodes and not interrupt.requested:
        parts.collector.collect()
        parts.sampler.rows_added()
        parts.counts.publish()
    parts.counts.settle()


def keep_demonstrations(config: Config, parts: Parts, wishes: Tensor | None) -> None:
    """Put aside what shall stay."""
    if (
        wishes is not None
        and isinstance(parts.sampler, MixedSampler)
        and int(parts.ring.filled) >= config.replay.n_step
    ):
        luck = make_generator(config.seed, "demonstrations", parts.ring.device)
        parts.sampler.shown.take(parts.ring, wishes, config.replay.n_step, config.learn.gamma, luck)


def learn_from_demonstrations(config: Config, parts: Parts, engine: Engine, interrupt: Interrupt) -> None:
    """Gradient steps on what was shown, as many as were asked for."""
    complete = int(parts.ring.filled) >= config.replay.n_step
    while complete and parts.learner.updates < config.demos.pretrain_steps and not interrupt.requested:
        engine.learn(min(engine.largest, config.demos.pretrain_steps - parts.learner.updates))
