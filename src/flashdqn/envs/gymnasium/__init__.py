"""Any Gymnasium environment, under our contract. The package gymnasium is optional."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashdqn.core.errors import EnvError
from flashdqn.envs.gymnasium.config import GymConfig
from flashdqn.envs.live_env import shorten_live_name

if TYPE_CHECKING:
    from flashdqn.envs.gymnasium.env import GymVecEnv

__all__ = ["GymConfig", "build_gym"]


def build_gym_env(config: GymConfig, num_envs: int) -> GymVecEnv:
    """Build the environment that a configuration describes, on the CPU."""
    try:
        import gymnasium  # noqa: F401
    except ImportError:
        raise EnvError("Gymnasium is not installed: pip install 'flashdqn[gym]'") from None
    from flashdqn.envs.gymnasium.env import GymVecEnv
    from flashdqn.envs.gymnasium.make import make_vector

    vector = make_vector(config, num_envs)
    life_loss = config.atari.life_loss and config.vectorization != "envpool"  # EnvPool has it built in
    return GymVecEnv(
        vector,
        shorten_live_name(config.id),
        config.channels,
        config.timeout,
        config.clip_reward,
        life_loss,
        config.action_bins,
        scale=config.scale,
    )
