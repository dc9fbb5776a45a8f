"""EnvPool's environments as a Gymnasium vector environment; the package envpool is optional.

EnvPool steps in C++ threads and resets by the next-step rule: the step after an end ignores its action and returns
the first observation. Its seeds are given when a pool is made, so a reset with seeds makes a new pool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from flashdqn.compute.core_count import cores
from flashdqn.core.blame import call_user_code
from flashdqn.core.errors import EnvError
from flashdqn.envs.gymnasium.config import MAX_FRAMES, GymConfig


class PoolVector(VectorEnv[Any, Any, Any]):
    """A pool that `make(seeds)` makes, with as many environments as there are seeds."""

    takes_seeds = True

    def __init__(self, make: Callable[[list[int]], Any], num_envs: int) -> None:
        self.make, self.num_envs = make, num_envs
        self.pool = make(list(range(num_envs)))
        self.single_observation_space = self.pool.observation_space
        self.single_action_space = self.pool.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Reset as in Gymnasium, always all environments."""
        if seed is not None:
            self.pool.close()
            self.pool = self.make([int(one) for one in seed])
        obs, info = self.pool.reset()
        return obs, _keep_arrays(info)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step as in Gymnasium."""
        obs, reward, terminated, truncated, info = self.pool.step(as_pool_actions(actions))
        return obs, reward, terminated, truncated, _keep_arrays(info)

    def close_extras(self, **kwargs: Any) -> None:
        """End the pool's threads."""
        self.pool.close()


def as_pool_actions(actions: Any) -> Any:
    """Actions in the types that EnvPool takes."""
    return np.asarray(actions, dtype=np.float32 if np.asarray(actions).dtype.kind == "f" else np.int32)


def make_pool(config: GymConfig, num_envs: int) -> PoolVector:
    """Make the environment of a configuration with EnvPool: ALE/Pong-v5 is its Pong-v5."""
    try:
        import envpool
    except ImportError:
        raise EnvError(
            "EnvPool is not installed: pip install envpool, or leave out --env.vectorization envpool."
        ) from None
    name = config.id.rpartition("/")[2]
    if name not in envpool.list_all_envs():
        raise EnvError(f"EnvPool has no environment '{name}': leave out --env.vectorization envpool.")
    more = envpool_atari_settings(config) if config.id.startswith("ALE/") else time_limit_settings(config)

    def make(seeds: list[int]) -> Any:
        numbers = [seed % 2**31 for seed in seeds]
        count = len(numbers)
        threads = min(count, cores())
        given = more | config.kwargs
        return envpool.make(
            name, env_type="gymnasium", num_envs=count, num_threads=threads, seed=numbers, **given
        )

    return call_user_code(
        lambda: PoolVector(make, num_envs),
        lambda failure: EnvError(f"{config.id} cannot be made by EnvPool: {failure}"),
    )


def envpool_atari_settings(config: GymConfig) -> dict[str, Any]:
    """Our settings by EnvPool's names."""
    atari = config.atari
    return {
        "img_height": atari.size,
        "img_width": atari.size,
        "stack_num": 1,
        "frame_skip": atari.frame_skip,
        "repeat_action_probability": atari.sticky,
        "noop_max": max(1, atari.noops),  # it takes at least one
        "use_fire_reset": atari.fire,
        "episodic_life": atari.life_loss,  # its own also continues the game, as ours does
        "reward_clip": False,
        "full_action_space": atari.full_actions,
        "max_episode_steps": config.max_steps or MAX_FRAMES // atari.frame_skip,
    }


def time_limit_settings(config: GymConfig) -> dict[str, Any]:
    """The time limit, if one is set."""
    return {"max_episode_steps": config.max_steps} if config.max_steps else {}


def _keep_arrays(info: dict[str, Any]) -> dict[str, Any]:
    """Keep the arrays of EnvPool's infos; nested entries are not needed here."""
    return {name: value for name, value in info.items() if isinstance(value, np.ndarray)}
