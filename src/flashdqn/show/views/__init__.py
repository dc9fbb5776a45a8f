"""Views: how each task is shown. `open_stage` makes a game of one board, ready to be looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flashdqn.core.contract import VecEnv, close_env
from flashdqn.core.errors import EnvError
from flashdqn.envs import EnvConfig, GymConfig, build_evaluation_env, make_evaluation_config
from flashdqn.envs.frame_stack import FrameStack
from flashdqn.envs.fuelbreaks import FuelBreaks
from flashdqn.envs.sfc import ServiceChains
from flashdqn.envs.snake import Snake
from flashdqn.show.views.fuelbreaks import FuelBreaksView
from flashdqn.show.views.plain import PlainView
from flashdqn.show.views.sfc import SfcView
from flashdqn.show.views.snake import SnakeView
from flashdqn.show.views.view import Facts, Grid, View

__all__ = ["Facts", "Grid", "Stage", "View", "open_stage", "views"]


def list_view_classes() -> dict[type[Any], Any]:
    """Which view shows which environment; a task adds its line here."""
    return {Snake: SnakeView, ServiceChains: SfcView, FuelBreaks: FuelBreaksView}


@dataclass
class GameStage:
    """One board and the view of it; `note` says what cannot be shown, and why."""

    env: VecEnv
    view: View
    note: str = ""

    def close(self) -> None:
        """End what the environment has running."""
        close_env(self.env)


def open_stage(config: EnvConfig) -> GameStage:
    """A board on the CPU: pictures are made there, and one game is no work."""
    if isinstance(config, GymConfig):
        return _open_gym_stage(config)
    env = build_evaluation_env(config, 1, torch.device("cpu"))
    make = list_view_classes().get(type(env))
    return GameStage(env, make(env)) if make is not None else make_plain_stage(env, config.task)


def make_plain_stage(env: VecEnv, title: str, note: str = "", actions: tuple[str, ...] = ()) -> GameStage:
    """The observations instead of a picture."""
    watched = Watched(env)
    return GameStage(watched, PlainView(env, lambda: watched.seen, title, actions), note)


def _open_gym_stage(config: GymConfig) -> GameStage:
    from flashdqn.show.views.gym import GymView, is_atari_frames, look_up_action_names, make_drawing_env

    config, note = make_evaluation_config(config), ""
    if not is_atari_frames(config):
        try:
            env = make_drawing_env(config)
            try:
                view = GymView(env, config)
            except EnvError:
                env.close()
                raise
            return GameStage(env if config.stack == 1 else FrameStack(env, config.stack), view)
        except EnvError as error:
            note = f"{str(error).rstrip('.')}: what the agent sees is shown instead."
    games = build_evaluation_env(config, 1, torch.device("cpu"))
    return make_plain_stage(games, config.id, note, look_up_action_names(config, games.num_actions))


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
