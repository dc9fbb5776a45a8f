"""Demonstrations: an expert plays through the normal collector into the ring, and the learner learns from that
first.

All of it comes before the clock, and is counted apart: afterwards transitions, episodes and updates stand at 0. The
task lists its experts. A user's environment may have its own: `demonstrators` names them, and `demonstrator(name,
seed)` makes one. Chance can show any task.
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
from flashdqn.envs.task import Demonstrator
from flashdqn.envs.tasks import find_task
from flashdqn.replay import MixedSampler
from flashdqn.training.assemble import Parts
from flashdqn.training.engine import Engine
from flashdqn.training.interrupt import Interrupt
from flashdqn.training.schedules import Schedules


def build_demonstrator(config: Config, env: VecEnv) -> Demonstrator | None:
    """The expert that `demos.source` names; None for chance."""
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
    """The environment itself, where it is shown on another device."""
    return getattr(env, "env", env)


def run_demonstrations(
    config: Config, parts: Parts, engine: Engine, schedules: Schedules, interrupt: Interrupt
) -> dict[str, Any]:
    """Fill the ring and learn from it; returns what was done, for the summary."""
    schedules.write(0)
    expert = build_demonstrator(config, parts.env)
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
        "mean_return": shown["return"],
        **({"mean_score": shown["score"]} if "score" in shown else {}),
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
