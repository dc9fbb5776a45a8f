"""A whole task in one file: the walk of `toy_envs.Chain` with a config, a view, names, an expert and presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from rich.text import Text
from torch import Tensor
from toy_envs import Chain

from flashdqn.core.contract import VecEnv
from flashdqn.core.drawing.scene import Disc, Rect, Scene
from flashdqn.core.drawing.view import Facts, Grid
from flashdqn.core.errors import ConfigError
from flashdqn.envs.host_env import HostEnv
from flashdqn.envs.task import Demonstrator, EnvConfig, Preset, Task, Trial

LIMIT, HELD_OUT_LIMIT = 20, 30


@dataclass(frozen=True)
class WalkConfig(EnvConfig):
    """A walk to the right."""

    task: ClassVar[str] = "walk"

    states: int = 5
    """Places in a row."""

    def __post_init__(self) -> None:
        if self.states < 2:
            raise ConfigError(f"env.states must be at least 2, and is {self.states}.")


def make_walk(config: WalkConfig, num_envs: int, device: torch.device, held_out: bool) -> VecEnv:
    """Evaluation has more time."""
    env = Chain(num_envs, config.states, HELD_OUT_LIMIT if held_out else LIMIT)
    return env if device.type == "cpu" else HostEnv(env, device)


class WalkView:
    """A disc on a line."""

    value_name = "expected return"
    heat: Grid | None = None

    def __init__(self, env: Chain) -> None:
        self.env, self.title = env, f"A walk over {env.num_states} places"
        self.actions, self.size = ("left", "right"), (10.0 * env.num_states, 10.0)
        self.ground: Scene = (Rect(0, 4, self.size[0], 2, "faint"),)

    @property
    def place(self) -> int:
        """Where the first walker is."""
        return int(self.env.position[0])

    def scene(self) -> Scene:
        """The walker."""
        return (Disc(10.0 * self.place + 5, 5, 4, "accent"),)

    def text(self) -> Text:
        """The walker as a character."""
        return Text("." * self.place + "@" + "." * (self.env.num_states - 1 - self.place))

    def facts(self) -> Facts:
        """Where it is."""
        return [("place", str(self.place))]

    def ending(self, outcomes: Mapping[str, float], truncated: bool) -> str:
        """Home or not."""
        return "lost" if truncated else "home"


def walk_right(env: Chain, seed: int) -> Demonstrator:
    """Always the right way."""

    def choose() -> Tensor:
        return torch.ones(env.num_envs, dtype=torch.int64)

    return choose


class GuidedWalk(Chain):
    """A user's own game, `toy_task:GuidedWalk`, with its own expert."""

    demonstrators = ("own-guide",)

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)

    def demonstrator(self, name: str, seed: int) -> Demonstrator:
        """The guide."""
        assert name == "own-guide"
        return walk_right(self, seed)


TINY = Preset(
    "a walk in a second",
    {
        "steps": 400,
        "envs": 8,
        "network": {"hidden": (16,)},
        "replay": {"capacity": 1000},
        "learn": {"batch_size": 16, "starts": 64, "target_every": 20},
        "explore": {"over": 200},
        "eval": {"every": 200, "episodes": 4},
        "log": {"every": 100, "tensorboard": False},
        "runtime": {"threads": 1, "warmup": False, "mode": "eager"},
    },
)

WALK = Task(
    about="walk to the right",
    config=WalkConfig,
    make=make_walk,
    presets={"walk": TINY, "walk-far": Preset("a longer walk", {"env": {"states": 7}}, base=TINY)},
    view=WalkView,
    actions=lambda config: ("left", "right"),
    experts={"walks-right": walk_right},
    most_envs=lambda config, envs: 8 * envs,
    trials=lambda config: (Trial("shorter", {"states": config.states - 1}, "another walk"),),
)
