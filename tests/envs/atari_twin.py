"""An Atari game by definition: ALE's emulator, one frame at a time, and arithmetic in NumPy."""

from __future__ import annotations

from typing import Any

import ale_py
import numpy as np
from ale_py import roms

from flashdqn.envs.gymnasium.config import AtariConfig


class AtariTwin:
    """One game, from its first reset. No-op starts are drawn inside ALE's vector, and are not twinned."""

    def __init__(self, game: str, config: AtariConfig, seed: int) -> None:
        self.config, self.ale = config, ale_py.ALEInterface()
        self.ale.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale.setInt("random_seed", seed)
        self.ale.setFloat("repeat_action_probability", config.sticky)
        self.ale.loadROM(roms.get_rom_path(game))
        self.actions = self.ale.getMinimalActionSet()
        self.ale.reset_game()

    def observe(self) -> Any:
        return shrink(self.ale.getScreenGrayscale(), self.config.size)

    def step(self, action: int) -> tuple[Any, float, bool]:
        """The smaller picture of the brighter of the last two frames; the rewards of all of them."""
        reward, screens = 0.0, []
        for _ in range(self.config.frame_skip):
            reward += self.ale.act(self.actions[action])
            screens.append(self.ale.getScreenGrayscale())
            if self.ale.game_over(with_truncation=False):
                break
        return shrink(np.max(screens[-2:], axis=0), self.config.size), reward, self.ale.game_over()


def shrink(screen: Any, size: int) -> Any:
    """Every pixel is the mean of the area that it covers."""
    rows, columns = (coverage(side, size) for side in screen.shape)
    half = np.einsum("ij,jk->ik", rows, screen.astype(np.float64))  # no threads, as `@` would start
    return np.einsum("ik,lk->il", half, columns)


def coverage(many: int, few: int) -> Any:
    """[few, many]: the share of each of `many` old pixels in each of `few` new ones; rows sum to 1."""
    scale = many / few
    edges = np.arange(few + 1) * scale
    old = np.arange(many)
    overlap = np.minimum(edges[1:, None], old + 1) - np.maximum(edges[:-1, None], old)
    return np.clip(overlap, 0, None) / scale
