"""DomiRank centrality: which nodes dominate their neighbors.

Engsig, Tejedor, Moreno, Foufoula-Georgiou & Kasmi 2024, *DomiRank Centrality reveals structural fragility of
complex networks via node dominance*, Nature Communications 15:56. Its stationary state (eq. 4 with θ = 1) is

    Γ = σ (σ A + I)⁻¹ A 1,        0 < σ < −1 / λ_min(A)

where A is the weighted adjacency matrix. Small σ rank by degree; near the bound neighbors compete, and few of them
come to dominate the rest. Here A is the graph of fire spread in moves per minute, made symmetric, because fire may
come from either side, and divided by its largest entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flashdqn.envs.fuelbreaks.fire.directions import fire_directions
from flashdqn.envs.fuelbreaks.fire.tables import SpreadTables

if TYPE_CHECKING:
    from flashdqn.envs.fuelbreaks.env import FuelBreaks

#: σ as a share of its bound: neighbors compete, short of instability.
SIGMA = 0.9


def domirank_scores(adjacency: Tensor, sigma: float) -> Tensor:
    """Γ of a symmetric adjacency matrix, [N] float64; `sigma` is σ itself."""
    ones = torch.ones(len(adjacency), dtype=adjacency.dtype, device=adjacency.device)
    identity = torch.eye(len(adjacency), dtype=adjacency.dtype, device=adjacency.device)
    ranks: Tensor = torch.linalg.solve(sigma * adjacency + identity, sigma * (adjacency @ ones))
    return ranks


def sigma_bound(adjacency: Tensor) -> float:
    """−1 / λ_min: from this σ on there is no stationary state. 1 where nothing is connected."""
    least = float(torch.linalg.eigvalsh(adjacency)[0])
    return -1.0 / least if least < 0 else 1.0


class DomiRank:
    """Ranks each scene once, as published; existing breaks do not change the order of the other cells.

    `adaptive` ranks again after every break.
    """

    def __init__(self, env: FuelBreaks, sigma: float = SIGMA, adaptive: bool = False) -> None:
        self.env, self.sigma, self.adaptive = env, sigma, adaptive
        self._known: dict[int, Tensor] = {}

    def scores(self) -> Tensor:
        """[N, cells] float64; this reads the device."""
        scenes = self.env.spread.table.tolist()
        if not self.adaptive:
            return torch.stack([self.rank(scene) for scene in scenes])
        breaks = self.env.spread.breaks
        return torch.stack([self._work_out(scene, breaks[i]) for i, scene in enumerate(scenes)])

    def rank(self, scene: int) -> Tensor:
        """Γ of a scene without breaks, [cells], remembered."""
        if scene not in self._known:
            self._known[scene] = self._work_out(scene, None)
        return self._known[scene]

    def _work_out(self, scene: int, breaks: Tensor | None) -> Tensor:
        ways = build_spread_graph(self.env.scenes.spread, scene, breaks)
        adjacency = ways + ways.T
        adjacency /= adjacency.max().clamp(min=1e-300)
        return domirank_scores(adjacency, self.sigma * sigma_bound(adjacency))


def build_spread_graph(tables: SpreadTables, scene: int, breaks: Tensor | None = None) -> Tensor:
    """The graph of fire spread as a weighted adjacency matrix, [cells, cells] float64: moves per minute from row to
    column, 0 where fire cannot go. With breaks, [cells] bool, moves that pass or touch one are closed."""
    rows, columns = tables.shape
    cells, device = rows * columns, tables.device
    matrix = torch.zeros((cells, cells), dtype=torch.float64, device=device)
    blocked = torch.zeros(cells, dtype=torch.bool, device=device) if breaks is None else breaks
    grid = blocked.view(rows, columns)
    row = torch.arange(rows, device=device)[:, None].expand(rows, columns)
    column = torch.arange(columns, device=device)[None, :].expand(rows, columns)
    for k, direction in enumerate(fire_directions(tables.directions)):
        way = (tables.open[scene] >> k) & 1 == 1
        for down, right in (*(cell for cell, _ in direction.passed), *direction.touched):
            r, c = (row + down).clamp(0, rows - 1), (column + right).clamp(0, columns - 1)
            way = way & ~grid[r, c].reshape(-1)
        start = way.nonzero().squeeze(1)
        end = start + direction.offset[0] * columns + direction.offset[1]
        matrix[start, end] = 1.0 / tables.times[scene, start, k].to(torch.float64)
    return matrix
