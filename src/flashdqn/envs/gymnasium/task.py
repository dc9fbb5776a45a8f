"""Gymnasium's environments as a task. The package gymnasium is optional, and imported when it is needed."""

from __future__ import annotations

import dataclasses
import re
import warnings
from typing import TYPE_CHECKING

from flashdqn.core.errors import EnvError
from flashdqn.envs.gymnasium import build_gym_env
from flashdqn.envs.gymnasium.config import GymConfig
from flashdqn.envs.gymnasium.presets import PRESETS, find_gym_start
from flashdqn.envs.live_env import name_copies
from flashdqn.envs.task import Naming, ReadObservation, Task
from flashdqn.envs.user_env import takes_num_envs

# The settings of a task are known without PyTorch, which is imported when an environment is made.
if TYPE_CHECKING:
    import torch

    from flashdqn.core.contract import VecEnv
    from flashdqn.envs.stage import GameStage

#: Every copy costs memory: a trial has at most this many times the copies of the training.
MOST_TIMES = 4
#: Bytes of a copy's Python objects, at least.
PYTHON_OBJECTS = 20_000


def make_gym(config: GymConfig, num_envs: int, device: torch.device, held_out: bool) -> VecEnv:
    """Make copies of an environment on the CPU, for a learner on `device`."""
    from flashdqn.envs.frame_stack import FrameStack
    from flashdqn.envs.host_env import HostEnv
    from flashdqn.envs.reward_scale import RewardScale

    if held_out and "async" in (config.vectorization, config.collect):
        from flashdqn.envs.gymnasium.make import try_in_process

        try_in_process(config)
    games: VecEnv = build_gym_env(make_evaluation_config(config) if held_out else config, num_envs)
    games = games if device.type == "cpu" else HostEnv(games, device)
    if config.normalize_reward and not held_out:
        games = RewardScale(games)
    return games if config.stack == 1 else FrameStack(games, config.stack)


def make_evaluation_config(config: GymConfig) -> GymConfig:
    """The settings for evaluation: no worker processes, and whole games instead of single lives."""
    atari = dataclasses.replace(config.atari, life_loss=False)
    vectorization = "sync" if config.vectorization == "async" else config.vectorization
    return dataclasses.replace(
        config, id=name_copies(config.id), vectorization=vectorization, collect="lockstep", atari=atari
    )


def open_gym_stage(config: GymConfig) -> GameStage:
    """Open a copy that draws itself; if it cannot, show what the agent sees."""
    import torch

    from flashdqn.envs.frame_stack import FrameStack
    from flashdqn.envs.gymnasium.view import GymView, is_atari_frames, look_up_action_names, make_drawing_env
    from flashdqn.envs.stage import GameStage, make_plain_stage

    config, note = make_evaluation_config(config), ""
    if not is_atari_frames(config):
        try:
            with warnings.catch_warnings():  # a note says in one sentence what cannot be drawn
                warnings.simplefilter("ignore")
                env = make_drawing_env(config)
                try:
                    view = GymView(env, config)
                except EnvError:
                    env.close()
                    raise
            return GameStage(env if config.stack == 1 else FrameStack(env, config.stack), view)
        except EnvError as error:
            note = f"{str(error).rstrip('.')}: what the agent sees is shown instead."
    games = make_gym(config, 1, torch.device("cpu"), held_out=True)
    names = getattr(games, "action_names", ()) or look_up_action_names(config, games.num_actions)
    return make_plain_stage(games, config.id, note, names)


def find_gym_reader(env: VecEnv) -> ReadObservation | None:
    """The function that reads an environment's raw observations, also inside wrappers."""
    from flashdqn.envs.gymnasium.reading import find_reader

    reader = find_reader(env)
    return reader.read if reader is not None else None


def limit_gym_envs(config: GymConfig, envs: int) -> int:
    """The most copies in a trial, because each costs memory; 0 with worker processes: no trial changes them."""
    return 0 if "async" in (config.vectorization, config.collect) else MOST_TIMES * envs


GYMNASIUM = Task(
    about="any Gymnasium environment: gym:CartPole-v1, or your own: gym:my_module:make_env",
    config=GymConfig,
    make=make_gym,
    presets=PRESETS,
    stage=open_gym_stage,
    naming=Naming(
        noun="a Gymnasium environment",
        start=find_gym_start,
        claims=lambda name: not takes_num_envs(name),  # those are batched games
        resembles=lambda name: re.search(r"-v\d+$", name) is not None,
    ),
    reader=find_gym_reader,
    most_envs=limit_gym_envs,
    bytes_per_env=lambda config: PYTHON_OBJECTS,
)
