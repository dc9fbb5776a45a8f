"""Which of several processes this is, by the environment variables that a launcher sets. PyTorch is not needed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from flashdqn.core.errors import ConfigError

#: What torchrun, Kubernetes' PyTorchJob and the script in docs/slurm.md set.
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class RankPlace(NamedTuple):
    """Which of the ranks this process is."""

    rank: int
    world: int
    local_rank: int = 0
    local_world: int = 1


def read_place(environment: Mapping[str, str] = os.environ) -> RankPlace | None:
    """Which rank the environment variables of a launcher say that this is; None if there are none."""
    if "RANK" not in environment and "WORLD_SIZE" not in environment:
        return None
    if missing := [name for name in NEEDED if not environment.get(name)]:
        raise ConfigError(
            f"The environment names a rank, but lacks {', '.join(missing)}: start with torchrun, or unset RANK and "
            "WORLD_SIZE."
        )
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
    defaults = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    try:
        rank, world, local_rank, local_world, _ = (
            int(environment.get(n, defaults.get(n, ""))) for n in names
        )
    except ValueError:
        given = ", ".join(f"{name}={environment[name]}" for name in names if name in environment)
        raise ConfigError(f"The rank's environment variables must be numbers, and are {given}.") from None
    if not (0 <= rank < world and 0 <= local_rank < max(1, local_world) <= world):
        raise ConfigError(
            f"Rank {rank} of {world} (number {local_rank} of {local_world} here) does not exist: RANK must be "
            "below WORLD_SIZE, and LOCAL_RANK below LOCAL_WORLD_SIZE."
        )
    return RankPlace(rank, world, local_rank, local_world)
