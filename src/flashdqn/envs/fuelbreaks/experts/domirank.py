"""DomiRank centrality: which nodes dominate their neighbours.

Engsig, Tejedor, Moreno, Foufoula-Georgiou & Kasmi 2024, *DomiRank Centrality reveals structural fragility of
complex networks via node dominance*, Nature Communications 15:56. Its stationary state (eq. 4 with θ = 1) is

    Γ = σ (σ A + I)⁻¹ A 1,        0 < σ < −1 / λ_min(A)

where A is the weighted adjacency matrix. Small σ rank by degree; near the bound neighbours compete, and few of them
come to dominate the rest. Here A is the graph of fire spread in moves per minute, made symmetric, for fire may come
from either side, and divided by its largest entry.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flashdqn.envs.fuelbreaks.env import FuelBreaks
from flashdqn.envs.fuelbreaks.experts.graph import build_spread_graph

#: σ as a share of its bound: neighbours compete, short of instability.
SIGMA = 0.9


def domirank_scores(adjacency: Tensor, sigma: float) -> Tensor:
    """Γ of a symmetric adjacency matrix, [N] float64; `sigma` is σ itself."""
    ones = torch.ones(len(adjacency), dtype=adjacency.dtype, device=adjacency.device)
    identity = torch.eye(len(adjacency), dtype=adjacency.dtype, device=adjacency.device)
    ranks: Tensor = torch.linalg.solve(sigma * adjacency + identity, sigma * (adjacency @ ones))
    return ranks


def sigma_bound(adjacency: Tensor) -> float:
    """−1 / λ_min: at this σ the competition has no stationary state any more. 1 where nothing is joined."""
    least = float(torch.linalg.eigvalsh(adjacency)[0])
    return -1.0 / least if least < 0 else 1.0


class DomiRank:
    """Ranks each scene once, as published; breaks that stand change nothing in the order of the others.

    `adaptive` ranks anew after every break.
    """

    def __init__(self, env: FuelBreaks, sigma: float = SIGMA, adaptive: bool = False) -> None:
        self.env, self.sigma, self.adaptive = env, sigma, adaptive
        self._known: dict[int, Tensor] = {}

    def scores(self) -> Tensor:
        """[N, cells] float64; asks the device."""
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
