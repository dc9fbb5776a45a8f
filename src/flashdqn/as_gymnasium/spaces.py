"""Our specifications as Gymnasium's spaces, and the code that one game and many games share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from torch import Tensor

from flashdqn.config.settings import apply_settings
from flashdqn.core.contract import VecEnv, get_decoder
from flashdqn.core.errors import ConfigError
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.envs.tasks import TASKS, build_env, find_task

Array = npt.NDArray[Any]

MASK_KEY = "action_mask"
DECODED = 1000.0


def build_task_env(task: str, num_envs: int, settings: dict[str, Any]) -> VecEnv:
    """The task with settings by name, as on our command line: `size=12, features="flood"`."""
    # Tasks with a naming import code by its name: not from here.
    if task not in TASKS or find_task(task).naming is not None:
        ours = [name for name in TASKS if find_task(name).naming is None]
        raise ConfigError(f"Gymnasium's arguments cannot make the task {task!r}{suggest_nearest(task, ours)}")
    config = apply_settings(find_task(task).config(), settings, "env.")
    return build_env(config, num_envs, torch.device("cpu"))


def observation_space(env: VecEnv) -> spaces.Box:
    """Bytes, or numbers from 0 to 1; decoded observations may be larger, but stay within these bounds."""
    spec, decoding = env.obs_spec, get_decoder(env)
    if decoding is not None:
        return spaces.Box(-DECODED, DECODED, decoding.shape, np.float32)
    if spec.dtype == torch.uint8:
        return spaces.Box(0, 255, spec.shape, np.uint8)
    return spaces.Box(0.0, 1.0, spec.shape, np.float32)


def convert_observations(env: VecEnv, obs: Tensor) -> Array:
    """Copies for the caller, [N, …]; observations that are stored in another form are decoded as for a network."""
    decoding = get_decoder(env)
    return obs.numpy().copy() if decoding is None else decoding(obs).numpy()


def action_space(env: VecEnv) -> spaces.Discrete:
    """A discrete space of actions that start at 0."""
    return spaces.Discrete(env.num_actions)
