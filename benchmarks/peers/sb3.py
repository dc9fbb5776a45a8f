"""Stable-Baselines3's DQN (plain, not double), with a native batched environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import stable_baselines3
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from peers import task
from peers.snake_env import ACTION_SPACE, OBSERVATION_SPACE, Boards

FOREVER = 10**9


class SnakeVecEnv(VecEnv):
    """All boards in one kernel call; autoreset in the same step, with the last observation in `infos`."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs, OBSERVATION_SPACE, ACTION_SPACE)
        self.boards = Boards(num_envs)
        self.actions = np.zeros(num_envs, np.int64)

    def reset(self) -> Any:
        return self.boards.restart(np.arange(self.num_envs))

    def step_async(self, actions: Any) -> None:
        self.actions = np.asarray(actions, np.int64)  # SBX hands over 32 bits

    def step_wait(self) -> Any:
        obs, reward, terminated, truncated = self.boards.step(self.actions)
        ended = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if ended.any():
            for i in np.flatnonzero(ended):
                infos[i] = {"terminal_observation": obs[i], "TimeLimit.truncated": bool(truncated[i])}
            obs = self.boards.restart_ended()
        return obs, reward, ended, infos

    def close(self) -> None:
        """Nothing runs besides."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError(method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> Sequence[bool]:
        return [False] * self.num_envs


class Measure(BaseCallback):
    """Feeds the window and stops the training at its end."""

    def __init__(self, window: task.Window) -> None:
        super().__init__()
        self.window = window

    def _on_step(self) -> bool:
        return not self.window.over(self.num_timesteps, self.model._n_updates)


def settings(num_envs: int) -> dict[str, Any]:
    """What SB3 and SBX are both given: two gradient steps after each step of eight environments."""
    assert num_envs % task.EVERY == 0
    return {
        "learning_rate": task.LR,
        "buffer_size": task.REPLAY,
        "learning_starts": task.STARTS,
        "batch_size": task.BATCH,
        "gamma": task.GAMMA,
        "train_freq": 1,
        "gradient_steps": num_envs // task.EVERY,
        "target_update_interval": task.TARGET_EVERY * task.EVERY,  # in transitions
        "exploration_initial_eps": task.EPS,
        "exploration_final_eps": task.EPS,
        "policy_kwargs": {"net_arch": list(task.HIDDEN)},
    }


def main() -> None:
    asked = task.arguments()
    window = task.Window(asked.seconds)
    model = DQN("MlpPolicy", SnakeVecEnv(asked.envs), device=asked.device, **settings(asked.envs))
    model.learn(FOREVER, callback=Measure(window))
    about = {"envs": asked.envs, "version": stable_baselines3.__version__}
    task.report(window.result(), algorithm="DQN", **about)


if __name__ == "__main__":
    main()
