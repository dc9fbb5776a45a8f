"""Agents for planning: the one that comes with the package, or the user's own."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from flashdqn.core.errors import ConfigError
from flashdqn.core.user_code import Permission
from flashdqn.envs.fuelbreaks.config import FuelBreaksConfig

if TYPE_CHECKING:
    from flashdqn.agent.agent import Agent
    from flashdqn.config import Config

#: The agent's file in the folder `planning/agents` of the package.
SHIPPED = "fuelbreaks.zip"


def load_shipped_agent(device: str = "auto") -> Agent:
    """The trained agent that comes with the package."""
    file = resources.files("flashdqn.planning") / "agents" / SHIPPED
    if not file.is_file():
        raise ConfigError(
            "This installation has no trained agent for fuel breaks: give one that `flashdqn train fuelbreaks` "
            "made."
        )
    with resources.as_file(file) as path:
        return load_planning_agent(path, device)


def load_planning_agent(path: str | os.PathLike[str], device: str = "auto") -> Agent:
    """An agent of a run folder or a file. The landscapes that it was trained on are not made again."""
    from flashdqn.agent.agent import load_agent

    return load_agent(Path(path), device, Permission(everything=False), change=_drop_landscapes)


def _drop_landscapes(config: Config) -> Config:
    """The settings of a run with one generated landscape: planning uses none of them."""
    env = config.env
    if not isinstance(env, FuelBreaksConfig):
        raise ConfigError(
            f"Planning needs an agent of the task fuelbreaks, and this one was trained on {env.task}."
        )
    few = replace(
        env, landscapes=1, held_out=0, fires=1, rasters="", ignitions=(), budget=1.0, least_budget=0.0
    )
    return replace(config, env=few)
