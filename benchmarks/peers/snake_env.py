"""Our Snake for other libraries: NumPy in and out, and episodes restarted where the caller says.

All boards are played by one call of the compiled kernel, and ended ones are restarted by another: a few
microseconds for eight boards, so that the environment is nobody's bottleneck.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import torch

import flashdqn
from flashdqn.compute.kernels import Array, Kernel, Scalar, scalar
from flashdqn.envs.snake import Snake
from flashdqn.envs.snake.env import _make_params
from flashdqn.envs.snake.features import observe_vector
from flashdqn.envs.snake.rules import OVER, start_episode

FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]

SETTINGS: dict[str, Any] = {"features": "basic", "size": 10}
OBSERVATION_SPACE = gymnasium.spaces.Box(0.0, 1.0, (11,), np.float32)
ACTION_SPACE = gymnasium.spaces.Discrete(3)


@scalar
def restart(i: Scalar, state: Array, body: Array, bits: Array, rng: Array, params: Array, obs: Array) -> None:
    """Start an episode on board `i` if its last one is over."""
    if state[i, OVER] != 0:
        start_episode(i, state, body, bits, rng, params)
        observe_vector(i, state, body, bits, params, obs)


class Boards:
    """`num_boards` games on the CPU; an ended one must be restarted before its next step."""

    def __init__(self, num_boards: int, seed: int = 0) -> None:
        threads = torch.get_num_threads()
        env = flashdqn.make_env("snake", num_boards, "cpu", **SETTINGS)
        assert isinstance(env, Snake)
        self.env, self.num_boards = env, num_boards
        self._obs = env.reset(seed).numpy()  # the kernel writes here
        assert self._obs.shape[1:] == OBSERVATION_SPACE.shape
        assert env.num_actions == ACTION_SPACE.n
        self._restart = Kernel(restart, parallel_from=1024).bind(
            num_boards, env._state, env._body, env._bits, env._rng, _make_params(env.config), env._step.obs
        )
        # Numba's OpenMP layer, when it starts, sets the number of threads of the whole process, PyTorch's too.
        torch.set_num_threads(threads)

    @property
    def obs(self) -> FloatArray:
        """The present observations, a copy. [N, 11]"""
        return self._obs.copy()

    def step(self, action: npt.NDArray[Any]) -> tuple[FloatArray, FloatArray, BoolArray, BoolArray]:
        """Observations, rewards, terminated, truncated, as copies; an ended game shows its last observation."""
        step = self.env.step(torch.from_numpy(action))
        parts = (x.numpy().copy() for x in (step.obs, step.reward, step.terminated, step.truncated))
        obs, reward, terminated, truncated = parts
        return obs, reward, terminated, truncated

    def restart_ended(self) -> FloatArray:
        """Start a new episode on every board whose last one is over; returns all observations, a copy."""
        self._restart()
        return self._obs.copy()

    def restart(self, boards: npt.ArrayLike) -> FloatArray:
        """Start a new episode on these boards, ended or not; returns their observations."""
        self.env._state.numpy()[boards, OVER] = 1
        self._restart()
        picked: FloatArray = self._obs[boards]
        return picked


class SnakeGym(gymnasium.Env[FloatArray, np.int64]):
    """One board as Gymnasium knows environments."""

    observation_space = OBSERVATION_SPACE
    action_space = ACTION_SPACE

    def __init__(self) -> None:
        self.boards = Boards(1)
        self._action = np.zeros(1, np.int64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[FloatArray, dict[str, Any]]:
        super().reset(seed=seed)
        return self.boards.restart([0])[0], {}

    def step(self, action: Any) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        self._action[0] = action
        obs, reward, terminated, truncated = self.boards.step(self._action)
        return obs[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), {}


class SnakeVector(gymnasium.vector.VectorEnv[FloatArray, npt.NDArray[np.int64], BoolArray]):
    """Several boards as Gymnasium knows vectors of environments, with autoreset in the same step."""

    metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.single_observation_space = OBSERVATION_SPACE
        self.single_action_space = ACTION_SPACE
        self.observation_space = gymnasium.vector.utils.batch_space(OBSERVATION_SPACE, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(ACTION_SPACE, num_envs)
        self.boards = Boards(num_envs)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[FloatArray, dict[str, Any]]:
        return self.boards.restart(np.arange(self.num_envs)), {}

    def step(self, actions: Any) -> tuple[FloatArray, FloatArray, BoolArray, BoolArray, dict[str, Any]]:
        obs, reward, terminated, truncated = self.boards.step(actions)
        ended = terminated | truncated
        if not ended.any():
            return obs, reward, terminated, truncated, {}
        return (
            self.boards.restart_ended(),
            reward,
            terminated,
            truncated,
            {"final_obs": obs, "_final_obs": ended},
        )
