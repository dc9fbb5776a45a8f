"""What each rank has of a training: its boards, its part of the batch, of the ring and of the evaluation games."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import torch

from flashdqn import __version__
from flashdqn.compute.ranks import Ranks
from flashdqn.config import Config
from flashdqn.config.rank_share import check_share
from flashdqn.config.settings import to_dict
from flashdqn.core.errors import ConfigError, FlashDQNError, RankLostError, ToldByLeaderError

T = TypeVar("T")

#: Settings that may differ between ranks: where rank 0 writes.
MAY_DIFFER = ("out",)


def share_config(config: Config, ranks: Ranks) -> Config:
    """The settings of this rank's parts: its boards and evaluation games, its part of the batch and of the ring."""
    if not ranks.many:
        return config
    check_share(config, ranks.world)
    boards = config.envs // ranks.world
    batch = config.learn.batch_size // (1 if config.learn.batch_per_rank else ranks.world)
    rows = -(-config.replay.capacity // config.envs)  # every rank's ring is as long as that of one process
    _, games = share_games(config.eval.episodes, ranks)
    return replace(
        config,
        envs=boards,
        learn=replace(config.learn, batch_size=batch),
        replay=replace(config.replay, capacity=rows * boards),
        eval=replace(config.eval, episodes=max(1, games)),
    )


def share_games(games: int, ranks: Ranks) -> tuple[int, int]:
    """The first of this rank's evaluation games, and how many it plays; 0 if there are fewer games than ranks."""
    first, end = (games * rank // ranks.world for rank in (ranks.rank, ranks.rank + 1))
    return first, end - first


def check_same_settings(config: Config, ranks: Ranks) -> None:
    """Refuse ranks with other versions or other settings, on all of them; the leader says which."""
    told = ranks.gather([[__version__, torch.__version__], to_dict(config)])
    problem = next(
        filter(None, (describe_mismatch(told[0], other, rank) for rank, other in enumerate(told))), ""
    )
    if not problem:
        return
    if ranks.leads:
        raise ConfigError(problem)
    raise ToldByLeaderError(ConfigError.exit_code)


def describe_mismatch(one: list[Any], other: list[Any], rank: int) -> str:
    """Which version or settings another rank has differently; empty if none."""
    if one[0] != other[0]:
        return (
            f"All ranks need the same versions: rank 0 has flashdqn {one[0][0]} and torch {one[0][1]}, rank {rank} "
            f"has {other[0][0]} and {other[0][1]}; install the same everywhere."
        )
    names = [name for name in list_unequal(one[1], other[1]) if name not in MAY_DIFFER]
    if names:
        return (
            f"All ranks need the same settings, and rank {rank} has another {', '.join(names[:5])}: start all "
            "of them with the same command."
        )
    return ""


def list_unequal(one: Any, other: Any, prefix: str = "") -> list[str]:
    """The dotted names of values that two nested dictionaries have differently."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return [] if one == other else [prefix.rstrip(".")]
    names = [*one, *(name for name in other if name not in one)]
    return [
        found for name in names for found in list_unequal(one.get(name), other.get(name), f"{prefix}{name}.")
    ]


def lead(ranks: Ranks, act: Callable[[], Any]) -> Any:
    """Let the leader do something that gives a JSON value, and tell all ranks. An error of the leader's ends all of
    them, and only the leader says it."""
    if not ranks.many:
        return act()
    if not ranks.leads:
        told = ranks.share(None)
        if told["code"] is not None:
            raise ToldByLeaderError(told["code"])
        return told["value"]
    try:
        value = act()
    except Exception as error:
        ranks.share({"code": getattr(error, "exit_code", 1), "value": None})
        raise
    ranks.share({"code": None, "value": value})
    return value


def lead_first(ranks: Ranks, act: Callable[[], T]) -> T | None:
    """What the leader finds, which only it has; the others wait for it, get None, and end if the leader fails."""
    found: list[T] = []
    lead(ranks, lambda: found.append(act()))
    return found[0] if found else None


def agree_on_failures(ranks: Ranks, failure: FlashDQNError | None) -> None:
    """All ranks are here, perhaps with an error: it ends all of them, and the leader says it."""
    if not ranks.many:
        if failure is not None:
            raise failure
        return
    told = ranks.gather(None if failure is None else [getattr(failure, "exit_code", 1), str(failure)])
    failed = [(rank, *said) for rank, said in enumerate(told) if said is not None]
    if not failed:
        return
    rank, code, text = failed[0]
    if not ranks.leads:
        raise ToldByLeaderError(code)
    if failure is not None:
        raise failure
    raise RankLostError(f"Rank {rank}: {text}", code)
