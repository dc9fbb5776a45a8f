"""One game and its view, ready to be looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flashdqn.core.contract import VecEnv, close_env, get_decoder, get_parts
from flashdqn.core.drawing.view import View
from flashdqn.core.errors import EnvError
from flashdqn.envs.plain_view import PlainView
from flashdqn.envs.task import EnvConfig
from flashdqn.envs.tasks import build_evaluation_env, find_task


@dataclass
class GameStage:
    """One board and its view; `note` says what cannot be shown, and why."""

    env: VecEnv
    view: View
    note: str = ""

    def close(self) -> EnvError | None:
        """Close the environment and its processes; returns what went wrong in there."""
        return close_env(self.env)


def open_stage(config: EnvConfig) -> GameStage:
    """Open a board on the CPU: pictures are made there, and one game is little work."""
    task = find_task(config.task)
    if task.stage is not None:
        return task.stage(config)
    env = build_evaluation_env(config, 1, torch.device("cpu"))
    return GameStage(env, task.view(env)) if task.view is not None else make_plain_stage(env, task.name)


def make_plain_stage(env: VecEnv, title: str, note: str = "", actions: tuple[str, ...] = ()) -> GameStage:
    """A stage that shows the observations instead of a picture."""
    watched, decoder = WatchedEnv(env), get_decoder(env)
    parts = get_parts(decoder)
    if decoder is None or not parts:
        return GameStage(watched, PlainView(env, lambda: watched.seen, title, actions), note)
    shown = next((k for k, part in enumerate(parts) if part.kind == "image"), 0)
    begin = sum(part.size for part in parts[:shown])

    def look() -> Tensor:  # at one part: the first image
        numbers = decoder(watched.seen)[:, begin : begin + parts[shown].size]
        return numbers.reshape(-1, *parts[shown].shape)

    return GameStage(watched, PlainView(env, look, title, actions, parts[shown].shape), note)


class WatchedEnv:
    """An environment that remembers its last observation, for a view that shows it."""

    def __init__(self, env: VecEnv) -> None:
        self.inner = env
        self.seen: Tensor = torch.zeros(1, *env.obs_spec.shape, dtype=env.obs_spec.dtype)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def reset(self, seed: int) -> Tensor:
        """Start an episode, and remember its first observation."""
        self.seen = self.inner.reset(seed)
        return self.seen

    def step(self, action: Tensor) -> Any:
        """Take one step, and remember its observation."""
        step = self.inner.step(action)
        self.seen = step.obs
        return step
