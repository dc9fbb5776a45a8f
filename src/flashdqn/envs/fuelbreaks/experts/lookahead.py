"""One step ahead: try a break in every cell, and take the one that saves most. Slow, and strong.

It judges by its own fires, drawn again for every break. It does not know where the environment's fires start.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flashdqn.envs.fuelbreaks.env import FuelBreaks
from flashdqn.envs.fuelbreaks.fire.spread import BURN, Spread

FIRES = 64


class Lookahead:
    """What one more break in each cell would save, over `fires` random fires."""

    def __init__(self, env: FuelBreaks, seed: int, fires: int = FIRES) -> None:
        self.env, self.fires = env, fires
        self.spread = Spread(env.scenes.spread, env.num_envs, fires, env.config.duration)
        self.spread.command.fill_(BURN)
        self.generator = torch.Generator(env.device).manual_seed(seed)

    def scores(self) -> Tensor:
        """[N, cells]: burned cells saved, all fires together."""
        own, theirs = self.spread, self.env.spread
        own.table.copy_(theirs.table)
        own.breaks.copy_(theirs.breaks)
        own.ignition.copy_(self.draw(own.table.to(torch.int64)))
        own.launch()
        return own.savings().to(torch.float64)

    def draw(self, scene: Tensor) -> Tensor:
        """Random burnable cells of each board's scene, [N, fires]; some may hold a break, and burn nothing."""
        scenes = self.env.scenes
        size = (len(scene), self.fires)
        share = torch.rand(size, generator=self.generator, device=self.env.device, dtype=torch.float64)
        nth = (share * scenes.counts[scene][:, None]).to(torch.int64)
        return scenes.places[scene].gather(1, nth)
