"""Views: how each task is shown. `open_stage` makes a game of one board, ready to be looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flashdqn.core.contract import VecEnv, close
from flashdqn.core.errors import EnvError
from flashdqn.envs import EnvConfig, GymConfig, build_games, whole_games
from flashdqn.envs.frame_stack import Stacked
from flashdqn.envs.fuelbreaks import FuelBreaks
from flashdqn.envs.sfc import ServiceChains
from flashdqn.envs.snake import Snake
from flashdqn.show.views.fuelbreaks import FuelBreaksView
from flashdqn.show.views.plain import PlainView
from flashdqn.show.views.sfc import SfcView
from flashdqn.show.views.snake import SnakeView
from flashdqn.show.views.view import Facts, Grid, View

__all__ = ["Facts", "Grid", "Stage", "View", "open_stage", "views"]


def views() -> dict[type[Any], Any]:
    """Which view shows which environment; a task adds its line here."""
    return {Snake: SnakeView, ServiceChains: SfcView, FuelBreaks: FuelBreaksView}


@dataclass
class Stage:
    """One board and the view of it; `note` says what cannot be shown, and why."""

    env: VecEnv
    view: View
    note: str = ""

    def close(self) -> None:
        """End what the environment has running."""
        close(self.env)


def open_stage(config: EnvConfig) -> Stage:
    """A board on the CPU: pictures are made there, and one game is no work."""
    if isinstance(config, GymConfig):
        return _gym_stage(config)
    env = build_games(config, 1, torch.device("cpu"))
    make = views().get(type(env))
    return Stage(env, make(env)) if make is not None else plain_stage(env, config.task)


def plain_stage(env: VecEnv, title: str, note: str = "", actions: tuple[str, ...] = ()) -> Stage:
    """The observations instead of a picture."""
    watched = Watched(env)
    return Stage(watched, PlainView(env, lambda: watched.seen, title, actions), note)


def _gym_stage(config: GymConfig) -> Stage:
    from flashdqn.show.views.gym import GymView, drawing, is_frames, known_actions

    config, note = whole_games(config), ""
    if not is_frames(config):
        try:
            env = drawing(config)
            try:
                view = GymView(env, config)
            except EnvError:
                env.close()
                raise
            return Stage(env if config.stack == 1 else Stacked(env, config.stack), view)
        except EnvError as error:
            note = f"{str(error).rstrip('.')}: what the agent sees is shown instead."
    games = build_games(config, 1, torch.device("cpu"))
    return plain_stage(games, config.id, note, known_actions(config, games.num_actions))


class Watched:
    """An environment that remembers its last observation, for a view that shows it."""

    def __init__(self, env: VecEnv) -> None:
        self.inner = env
        self.seen: Tensor = torch.zeros(1, *env.obs_spec.shape)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def reset(self, seed: int) -> Tensor:
        """As the environment's own."""
        self.seen = self.inner.reset(seed)
        return self.seen

    def step(self, action: Tensor) -> Any:
        """As the environment's own."""
        step = self.inner.step(action)
        self.seen = step.obs
        return step
