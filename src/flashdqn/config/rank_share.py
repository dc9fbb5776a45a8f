"""Whether a training can be dealt out to several ranks."""

from __future__ import annotations

from flashdqn.config.training import Config
from flashdqn.core.errors import ConfigError


def check_share(config: Config, world: int) -> None:
    """Refuse a training that cannot be dealt out to so many ranks."""
    if world == 1:
        return
    envs, batch = config.envs, config.learn.batch_size
    if world > envs:
        raise ConfigError(
            f"{world} ranks need at least {world} boards, and --envs is {envs}: use fewer ranks."
        )
    if envs % world:
        raise ConfigError(
            f"{envs} boards do not divide among {world} ranks: use --envs {envs - envs % world} or "
            f"{envs + world - envs % world}."
        )
    whole = config.learn.method == "replay" and not config.learn.batch_per_rank
    if whole and batch % world:
        raise ConfigError(
            f"A batch of {batch} does not divide among {world} ranks: use --learn.batch-size "
            f"{max(world, batch - batch % world)}, or --learn.batch-per-rank."
        )
    rollout = config.pqn.rollout * envs // world
    if config.learn.method == "pqn" and rollout % config.pqn.minibatches:
        raise ConfigError(
            f"A rank's rollout of {rollout} transitions does not divide into {config.pqn.minibatches} minibatches: "
            "make --pqn.rollout a multiple of --pqn.minibatches."
        )
    if config.env.collectors is not None:
        raise ConfigError(
            f"Workers that collect by themselves are for one rank, and there are {world}: use --env.collect "
            "lockstep, or train with one rank."
        )
    if config.demos.asked_for:
        raise ConfigError(
            f"Demonstrations are for one rank, and there are {world}: use --demos.source none, or train with one "
            "rank."
        )
