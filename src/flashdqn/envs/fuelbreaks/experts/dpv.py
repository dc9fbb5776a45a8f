"""Downstream Protection Value: what burns behind a cell.

Pais, Carrasco, Elimbi Moudio & Shen 2021, *Downstream Protection Value: Detecting critical zones for effective
fuel-treatment under wildfire risk*, Computers & Operations Research 131. Every fire spreads along a tree, from each
cell to those that it lights. The value downstream of a cell is what it and all cells behind it are worth, averaged
over the fires. The rule takes the cell with the largest one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flashdqn.compute.kernels import Kernel
from flashdqn.envs.fuelbreaks.experts.draws import draw_ignitions
from flashdqn.envs.fuelbreaks.fire.downstream import add_up_downstream
from flashdqn.envs.fuelbreaks.fire.spread import BURN, Spread

if TYPE_CHECKING:
    from flashdqn.envs.fuelbreaks.env import FuelBreaks

FIRES = 64


class DownstreamValue:
    """The value downstream of each cell, over `fires` fires of its own. With `once` the first values are kept, as
    published; otherwise they are worked out again for the breaks that lie now, over new fires."""

    def __init__(self, env: FuelBreaks, seed: int, fires: int = FIRES, once: bool = False) -> None:
        self.env, self.fires, self.once = env, fires, once
        self.spread = Spread(env.scenes.spread, env.num_envs, fires, env.config.duration)
        self.spread.command.fill_(BURN)
        self.generator = torch.Generator(env.device).manual_seed(seed)
        n, cells = env.num_envs, env.num_actions
        self.total = torch.zeros((n, cells), dtype=torch.int64, device=env.device)
        work = [torch.zeros((n, cells), dtype=torch.int32, device=env.device) for _ in range(2)]
        spread = self.spread
        self._add_up = Kernel(add_up_downstream, 2).bind(
            n, spread.table, spread.ignition, spread.arrival, spread.parent, spread.step, spread.tables.worth,
            *work, self.total,
        )  # fmt: skip
        self._known = False

    def scores(self) -> Tensor:
        """[N, cells] float64."""
        if not (self.once and self._known):
            own, theirs = self.spread, self.env.spread
            own.table.copy_(theirs.table)
            own.breaks.copy_(theirs.breaks)
            own.ignition.copy_(draw_ignitions(self.env.scenes, own.table, self.fires, self.generator))
            own.launch()
            self._add_up()
            self._known = True
        return self.total.to(torch.float64)
