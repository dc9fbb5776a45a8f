"""Service function chains as a task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flashdqn.envs.sfc.config import SfcConfig
from flashdqn.envs.sfc.presets import PRESETS
from flashdqn.envs.task import Demonstrator, Task

# The settings of a task are known without PyTorch, which is imported when an environment is made.
if TYPE_CHECKING:
    import torch

    from flashdqn.core.contract import VecEnv
    from flashdqn.core.drawing.view import View
    from flashdqn.envs.sfc.env import ServiceChains


def make_service_chains(config: SfcConfig, num_envs: int, device: torch.device, held_out: bool) -> VecEnv:
    """Networks of data centers; evaluation uses the same kind."""
    from flashdqn.envs.host_env import place_env
    from flashdqn.envs.sfc.env import ServiceChains

    return place_env(lambda place: ServiceChains(config, num_envs, place), device)


def view_service_chains(env: ServiceChains) -> View:
    """The view of the network and its requests."""
    from flashdqn.envs.sfc.view import SfcView

    return SfcView(env)


def write_service_plan(env: ServiceChains, folder: Path) -> list[Path]:
    """Which VNF ran where and when, as a table and a picture."""
    from flashdqn.envs.sfc.plan import write_plan

    return write_plan(env, folder)


def make_heuristic(env: ServiceChains, makes_room: bool) -> Demonstrator:
    """The rule that serves what is most urgent."""
    from flashdqn.envs.sfc.baselines import Heuristic

    return Heuristic(env, makes_room=makes_room).choose


SERVICE_CHAINS = Task(
    about="provision service function chains over 2 to 16 data centers (docs/sfc.md)",
    config=SfcConfig,
    make=make_service_chains,
    presets=PRESETS,
    view=view_service_chains,
    write_plan=write_service_plan,
    actions=lambda config: config.read().action_names,
    kernels=lambda config: ("step_network",),
    experts={
        "heuristic": lambda env, seed: make_heuristic(env, makes_room=False),
        "makes-room": lambda env, seed: make_heuristic(env, makes_room=True),
    },
)
