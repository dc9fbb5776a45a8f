"""Betweenness: how many of the fastest paths from cell to cell lead through a cell, within the fires' duration.

A fire burns from every cell. The fastest paths from its ignition are a tree, and a cell lies on the paths to all
cells behind it. So its betweenness (Freeman 1977) is the number of cells behind it, summed over all fires except
its own. This is Brandes' sum (2001) if every fastest path is unique, which is nearly certain with float32 times.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flashdqn.compute.kernels import Array, Kernel, Scalar, inner
from flashdqn.envs.fuelbreaks.env import FuelBreaks
from flashdqn.envs.fuelbreaks.fire.layout import NO_PARENT
from flashdqn.envs.fuelbreaks.fire.spread import BURN, Spread


@inner
def count_cells_behind(
    i: Scalar, ignition: Array, arrival: Array, parent: Array, step: Array, children: Array, behind: Array,
    total: Array,
) -> None:  # fmt: skip
    """Cells behind each cell of board `i`, over all its fires. Leaves are removed from the tree one by
    one."""
    fires, cells = ignition.shape[1], arrival.shape[2]
    for c in range(cells):
        total[i, c] = 0
    for f in range(fires):
        for c in range(cells):
            children[i, c] = 0
            behind[i, c] = 0
        for c in range(cells):
            if parent[i, f, c] != NO_PARENT:
                children[i, c - step[parent[i, f, c]]] += 1
        for c in range(cells):
            leaf = c
            # A leaf passes its count to the cell where the fire came from, which may then be a leaf.
            while children[i, leaf] == 0 and parent[i, f, leaf] != NO_PARENT:
                before = leaf - step[parent[i, f, leaf]]
                total[i, leaf] += behind[i, leaf]
                behind[i, before] += behind[i, leaf] + 1
                children[i, leaf] = -1
                children[i, before] -= 1
                leaf = before


class Betweenness:
    """Betweenness of the boards in their current state: a fire from every cell, around the existing breaks."""

    def __init__(self, env: FuelBreaks) -> None:
        self.env, n, cells = env, env.num_envs, env.num_actions
        self.spread = Spread(env.scenes.spread, n, cells, env.config.duration)
        self.spread.ignition.copy_(torch.arange(cells, dtype=torch.int32, device=env.device).expand(n, cells))
        self.spread.command.fill_(BURN)
        self.total = torch.zeros((n, cells), dtype=torch.int64, device=env.device)
        work = [torch.zeros((n, cells), dtype=torch.int32, device=env.device) for _ in range(2)]
        self._count = Kernel(count_cells_behind, 2).bind(
            n,
            self.spread.ignition,
            self.spread.arrival,
            self.spread.parent,
            self.spread.step,
            *work,
            self.total,
        )

    def scores(self) -> Tensor:
        """[N, cells] int64."""
        self.spread.table.copy_(self.env.spread.table)
        self.spread.breaks.copy_(self.env.spread.breaks)
        self.spread.launch()
        self._count()
        return self.total.to(torch.float64)
