"""DomiRank on landscapes of any size, without a matrix.

Γ = σ (σ A + I)⁻¹ A 1 as in `envs/fuelbreaks/experts/domirank.py`, where A has an entry for every move of fire. A
matrix of 100x100 cells would take 800 MB; here A is only applied to vectors, direction by direction. Conjugate
gradients (Hestenes & Stiefel 1952) solve for Γ: below its bound σ A + I is positive definite. The bound −1 / λ_min
comes from Lanczos' iteration (1950), whose smallest Ritz value approaches λ_min from above.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from flashdqn.envs.fuelbreaks.experts.domirank import SIGMA
from flashdqn.envs.fuelbreaks.fire.directions import fire_directions
from flashdqn.envs.fuelbreaks.fire.tables import SpreadTables

#: Steps at most, of either iteration.
MOST_STEPS = 300
#: Lanczos steps between two looks at the smallest Ritz value, and its relative change at which they end.
LOOK_EVERY, SETTLED_CHANGE = 10, 1e-5
#: The residual at which conjugate gradients end, as a share of the first one.
SMALL_RESIDUAL = 1e-7


@dataclass(frozen=True)
class SpreadGraph:
    """The symmetric graph of fire spread of one table, in moves per minute, divided by its largest entry."""

    shape: tuple[int, int]
    offsets: tuple[tuple[int, int], ...]  # half of the directions: the others lead back
    rates: Tensor  # [K / 2, H, W] float32: of the edge from a cell to the cell at the offset

    def apply(self, vector: Tensor) -> Tensor:
        """A · vector, [cells] float64."""
        grid = vector.view(self.shape)
        result = torch.zeros_like(grid)
        for offset, rate in zip(self.offsets, self.rates, strict=True):
            here, there = _overlap(self.shape, offset)
            result[here] += rate[here] * grid[there]
            result[there] += rate[here] * grid[here]
        return result.view(-1)


def rank_cells(
    tables: SpreadTables, scene: int, sigma: float = SIGMA, seconds: float = math.inf
) -> tuple[Tensor, bool]:
    """Γ of all cells of a table, [cells] float64, and whether it is exact: both iterations end when their half of
    the time is over. `sigma` is a share of its bound."""
    graph = make_graph(tables, scene)
    bound = find_sigma_bound(graph, seconds / 2)
    return solve_domirank(graph, sigma * bound, seconds / 2)


def make_graph(tables: SpreadTables, scene: int) -> SpreadGraph:
    """The graph of a table."""
    rows, columns = tables.shape
    compass = fire_directions(tables.directions)
    speed = tables.times[scene].view(rows, columns, -1)
    opened = tables.open[scene].view(rows, columns)
    offsets, rates = [], []
    for k in range(0, len(compass), 2):  # k + 1 leads back
        here, there = _overlap(tables.shape, compass[k].offset)
        rate = torch.zeros(rows, columns)
        go = torch.where((opened[here] >> k) & 1 == 1, 1.0 / speed[here][..., k], 0.0)
        come = torch.where((opened[there] >> (k + 1)) & 1 == 1, 1.0 / speed[there][..., k + 1], 0.0)
        rate[here] = go + come
        offsets.append(compass[k].offset)
        rates.append(rate)
    stacked = torch.stack(rates)
    return SpreadGraph(tables.shape, tuple(offsets), stacked / stacked.max().clamp(min=1e-30))


def _overlap(
    shape: tuple[int, int], offset: tuple[int, int]
) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """The cells whose neighbor at an offset lies inside, and these neighbors."""
    here, there = [], []
    for size, step in zip(shape, offset, strict=True):
        here.append(slice(max(0, -step), max(0, size - max(0, step))))
        there.append(slice(max(0, step), max(0, size + min(0, step))))
    return (here[0], here[1]), (there[0], there[1])


def find_sigma_bound(graph: SpreadGraph, seconds: float = math.inf) -> float:
    """−1 / λ_min, by Lanczos' iteration from a fixed random vector; 1 where nothing is connected."""
    cells = graph.shape[0] * graph.shape[1]
    generator = torch.Generator().manual_seed(0)
    vector = torch.randn(cells, generator=generator, dtype=torch.float64)
    vector /= vector.norm()
    before = torch.zeros_like(vector)
    diagonal: list[float] = []
    beside: list[float] = []
    least, end = 0.0, time.monotonic() + seconds
    for step in range(1, min(cells, MOST_STEPS) + 1):
        following = graph.apply(vector)
        diagonal.append(float(vector @ following))
        following -= diagonal[-1] * vector + (beside[-1] * before if beside else 0.0)
        length = float(following.norm())
        if step % LOOK_EVERY == 0 or length < 1e-12 or step == min(cells, MOST_STEPS):
            now = _smallest_ritz_value(diagonal, beside)
            settled = length < 1e-12 or abs(now - least) <= SETTLED_CHANGE * abs(now)
            if settled or time.monotonic() > end:
                least = now
                break
            least = now
        beside.append(length)
        before, vector = vector, following / length
    return -1.0 / least if least < 0 else 1.0


def _smallest_ritz_value(diagonal: list[float], beside: list[float]) -> float:
    around = torch.tensor(beside[: len(diagonal) - 1], dtype=torch.float64)
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    matrix += torch.diag(around, 1) + torch.diag(around, -1)
    return float(torch.linalg.eigvalsh(matrix)[0])


def solve_domirank(graph: SpreadGraph, sigma: float, seconds: float = math.inf) -> tuple[Tensor, bool]:
    """Γ by conjugate gradients, [cells] float64, and whether they ended by themselves; `sigma` is σ itself."""
    end = time.monotonic() + seconds
    ones = torch.ones(graph.shape[0] * graph.shape[1], dtype=torch.float64)
    wanted = sigma * graph.apply(ones)
    ranks = torch.zeros_like(wanted)
    rest, direction = wanted.clone(), wanted.clone()
    size = float(rest @ rest)
    enough = SMALL_RESIDUAL**2 * size
    for _ in range(MOST_STEPS):
        if size <= enough or time.monotonic() > end:
            break
        image = direction + sigma * graph.apply(direction)
        length = size / float(direction @ image)
        ranks += length * direction
        rest -= length * image
        size, last = float(rest @ rest), size
        direction = rest + (size / last) * direction
    return ranks, size <= enough
