"""Atari games: ALE's own vector environment, whose C++ threads play and shrink the frames.

It gives single frames. `envs.frame_stack` stacks them, because ALE's stacks start with black frames instead of
repeating the first. It resets by the next-step rule, and rewards are the game's own.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from ale_py.vector_env import AtariVectorEnv
from gymnasium.envs.registration import EnvSpec

from flashdqn.compute.core_count import cores
from flashdqn.envs.gymnasium.config import MAX_FRAMES, GymConfig
from flashdqn.envs.gymnasium.spaces import Array

#: ALE's own limit, in frames.
OUT_OF_REACH = 2**31 - 1


class AtariFrames(AtariVectorEnv):
    """`num_envs` games of single gray frames [1, size, size], on several threads.

    The time limit is applied here. ALE's own limit returns without the newest frame, from which the value of a
    truncated episode is estimated. A row at the limit takes one more hidden step, and is reset.
    """

    takes_seeds = True

    def __init__(self, game: str, config: GymConfig, num_envs: int, threads: int) -> None:
        super().__init__(game, num_envs, **(ale_settings(config, threads) | config.kwargs))
        self.limit = step_limit(config)
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self.late, self._over = np.zeros((2, num_envs), dtype=np.bool_)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Reset as in Gymnasium; seeds of any size, one for each game."""
        if seed is not None:
            seed = np.asarray(seed, dtype=np.int64) % 2**31
        rows = (options or {}).get("reset_mask", np.ones(self.num_envs, dtype=np.bool_))
        for column in (self._steps, self.late, self._over):
            column[rows] = 0
        return super().reset(seed=seed, options=options)

    def step(self, actions: Array) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step as in Gymnasium."""
        starting, late = self._over, self.late.copy()
        obs, reward, terminated, _, info = super().step(np.where(late, 0, actions))
        self._steps = np.where(starting, 0, self._steps + 1)
        if late.any():
            obs, info = self.reset(options={"reset_mask": late})
            reward, terminated = np.where(late, 0, reward), terminated & ~late
        self.late = (self._steps >= self.limit) & ~terminated
        self._over = terminated | self.late
        return obs, reward, terminated, self.late.copy(), info


class OneAtari(gymnasium.Env[Any, Any]):
    """One game of gray frames, for vectors that step environments one by one."""

    def __init__(self, game: str, config: GymConfig) -> None:
        self.frames = AtariFrames(game, config, 1, threads=1)
        self.observation_space = self.frames.single_observation_space
        self.action_space = self.frames.single_action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Reset as in Gymnasium."""
        super().reset(seed=seed)
        if seed is None and self.frames.late.any():  # as in a vector of many games
            obs, _, _, _, info = self.frames.step(np.zeros(1, dtype=np.int64))
        else:
            obs, info = self.frames.reset(seed=None if seed is None else [seed])
        return obs[0], {"lives": int(info["lives"][0])}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step as in Gymnasium."""
        obs, reward, terminated, truncated, info = self.frames.step(np.array([action], dtype=np.int64))
        lives = {"lives": int(info["lives"][0])}
        return obs[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), lives


def ale_settings(config: GymConfig, threads: int) -> dict[str, Any]:
    """Our settings by ALE's names."""
    atari = config.atari
    return {
        "num_threads": threads,
        "img_height": atari.size,
        "img_width": atari.size,
        "stack_num": 1,
        "frameskip": atari.frame_skip,
        "maxpool": True,
        "repeat_action_probability": atari.sticky,
        "noop_max": atari.noops,
        "use_fire_reset": atari.fire,
        "episodic_life": False,  # ALE would start a new game with every life; see autoreset.py
        "reward_clipping": False,  # reports need the true score
        "full_action_space": atari.full_actions,
        "max_num_frames_per_episode": OUT_OF_REACH,
    }


def step_limit(config: GymConfig) -> int:
    """Number of steps after which an episode is truncated."""
    return config.max_steps or MAX_FRAMES // config.atari.frame_skip


def make_atari_frames(found: EnvSpec, config: GymConfig, num_envs: int) -> AtariFrames:
    """Make all games in ALE's own threads."""
    return AtariFrames(found.kwargs["game"], config, num_envs, min(num_envs, cores()))
