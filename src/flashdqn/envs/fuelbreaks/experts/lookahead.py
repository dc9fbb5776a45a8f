"""One step ahead: try a break in every cell, and take the one that saves most. Slow, and strong.

It judges by its own fires, drawn again for every break. It does not know where the environment's fires start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flashdqn.envs.fuelbreaks.experts.draws import draw_ignitions
from flashdqn.envs.fuelbreaks.fire.spread import BURN, Spread

if TYPE_CHECKING:
    from flashdqn.envs.fuelbreaks.env import FuelBreaks

FIRES = 64


class Lookahead:
    """What one more break in each cell would save, over `fires` random fires."""

    def __init__(self, env: FuelBreaks, seed: int, fires: int = FIRES) -> None:
        self.env, self.fires = env, fires
        self.spread = Spread(env.scenes.spread, env.num_envs, fires, env.config.duration)
        self.spread.command.fill_(BURN)
        self.generator = torch.Generator(env.device).manual_seed(seed)

    def scores(self) -> Tensor:
        """[N, cells]: what a break would save, all fires together."""
        own, theirs = self.spread, self.env.spread
        own.table.copy_(theirs.table)
        own.breaks.copy_(theirs.breaks)
        own.ignition.copy_(draw_ignitions(self.env.scenes, own.table, self.fires, self.generator))
        own.launch()
        return own.savings().to(torch.float64)
