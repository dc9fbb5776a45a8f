"""Wildfire fuel breaks as a task."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from flashdqn.envs.fuelbreaks.config import FuelBreaksConfig
from flashdqn.envs.fuelbreaks.presets import PRESETS
from flashdqn.envs.task import Demonstrator, Task

# The settings of a task are known without PyTorch, which is imported when an environment is made.
if TYPE_CHECKING:
    import torch

    from flashdqn.core.contract import VecEnv
    from flashdqn.core.drawing.view import View
    from flashdqn.envs.fuelbreaks.env import FuelBreaks


def make_fuel_breaks(config: FuelBreaksConfig, num_envs: int, device: torch.device, held_out: bool) -> VecEnv:
    """Landscapes; training never sees those for evaluation."""
    from flashdqn.envs.fuelbreaks.env import FuelBreaks
    from flashdqn.envs.host_env import place_env

    return place_env(lambda place: FuelBreaks(config, num_envs, place, held_out), device)


def count_fire_bytes(config: FuelBreaksConfig) -> int:
    """Bytes of a board's fires: of each, time and parent of every cell; and the open directions."""
    return config.size**2 * (5 * (config.fires + config.scouts) + 13)


def view_fuel_breaks(env: FuelBreaks) -> View:
    """The view of the landscape, its fires and its breaks."""
    from flashdqn.envs.fuelbreaks.view import FuelBreaksView

    return FuelBreaksView(env)


def make_expert(name: str, env: FuelBreaks, seed: int) -> Demonstrator:
    """The expert with this name."""
    from flashdqn.envs.fuelbreaks.experts import EXPERTS

    return EXPERTS[name](env, seed)


FUEL_BREAKS = Task(
    about="place fuel breaks so that wildfires burn less (docs/fuelbreaks.md)",
    config=FuelBreaksConfig,
    make=make_fuel_breaks,
    presets=PRESETS,
    view=view_fuel_breaks,
    experts={name: partial(make_expert, name) for name in ("domirank", "betweenness", "dpv", "lookahead")},
    kernels=lambda config: (
        *("prepare_board", "run_fire", "place_break", "finish_step"),
        *(("observe_flow",) if config.scouts else ()),
    ),
    smallest=lambda config: replace(
        config, landscapes=2, held_out=2, rasters="", ignitions=(), budget=1, least_budget=0
    ),
    bytes_per_env=count_fire_bytes,
)
