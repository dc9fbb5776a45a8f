"""What burns behind each cell, with the breaks so far, as an agent with scouts sees it.

In a training a few scouts burn on one small landscape. Here they burn on the whole landscape, one for each cell
of a small one, and a window's share of them stands for the fires that start in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flashdqn.envs.fuelbreaks.fire.downstream import BITS, FINEST, STEPS
from flashdqn.envs.fuelbreaks.fire.downstream_sums import DownstreamSums
from flashdqn.planning.ground import Ground
from flashdqn.planning.judge import PLANNING, make_random
from flashdqn.planning.tiles import MapWindow
from flashdqn.planning.window_view import cut_cells

#: Scouts of a scenario: one for each cell, but at least and at most so many.
FEWEST, MOST = 256, 20_000
#: At first there is one for so many cells. That is enough as long as fires are large; what small ones do, few
#: scouts would miss.
COARSE = 4
#: All scouts burn once less than this many cells burn behind every cell, per fire that starts in 2,500 cells.
SMALL, AREA = 8.0, 2500


class FlowMap:
    """The weight of all cells behind each cell, summed over the scouts of every scenario."""

    def __init__(self, ground: Ground, seed: int = 0) -> None:
        self.ground = ground
        self._random = make_random(seed, PLANNING, "scouts")
        self._breaks: list[int] = []
        self._all = min(MOST, max(FEWEST, ground.cells))
        self._light(min(MOST, max(FEWEST, ground.cells // COARSE)))
        self._refine()

    def _light(self, count: int) -> None:
        """Burn so many scouts in every scenario, with the breaks so far."""
        self.count, scenarios = count, len(self.ground.shares)
        self.ignition = np.stack([self._draw(s) for s in range(scenarios)])  # [S, count]
        self.sums = DownstreamSums(
            self.ground.tables,
            self.ground.problem.duration,
            np.repeat(np.arange(scenarios), count),
            self.ignition.reshape(-1),
            self.ground.weight,
            self._breaks,
        )
        self.total = self.sums.total

    def _draw(self, scenario: int) -> NDArray[np.int64]:
        reached = np.cumsum(self.ground.ignition_weight(scenario))
        luck = (np.arange(self.count) + self._random.random(self.count)) / self.count
        cells: NDArray[np.int64] = np.searchsorted(reached, luck * reached[-1], side="right")
        return cells

    def place(self, cells: Sequence[int]) -> None:
        """Add breaks."""
        self._breaks += cells
        self.sums.place(cells)
        self.total = self.sums.total
        self._refine()

    def _refine(self) -> None:
        """Burn all scouts if fires have become small."""
        if self.count < self._all:
            mean = self.ground.weight.mean()
            fires = self.count * AREA / self.ground.cells
            if self.total.max() < SMALL * mean * fires:
                self._light(self._all)

    def measure(self, window: MapWindow) -> NDArray[np.float64]:
        """What burns behind each cell of a window in every scenario, [S, cells of the window]: the mean over the
        fires that start in it, counted in cells of mean worth."""
        shape = self.ground.problem.landscape.shape
        mean = cut_cells(self.ground.weight, shape, window).mean()
        found = np.zeros((len(self.total), window.shape[0] * window.shape[1]))
        for s in range(len(self.total)):
            share = self._share_of_fires(s, window)
            if share > 0 and mean > 0:
                found[s] = cut_cells(self.total[s], shape, window) / (self.count * share * mean)
        return found

    def remaining(self, window: MapWindow) -> NDArray[np.float64]:
        """What burns in every scenario, [S], as a share of a window's weight: the mean over the fires that start in
        the window, wherever they burn."""
        shape = self.ground.problem.landscape.shape
        row, column = np.divmod(self.ignition, shape[1])
        inside = (window.rows.start <= row) & (row < window.rows.stop)
        inside &= (window.columns.start <= column) & (column < window.columns.stop)
        weight = cut_cells(self.ground.weight, shape, window).sum()
        burned = np.where(inside, self.sums.burned.reshape(inside.shape), 0.0)
        found = np.zeros(len(burned))
        for s in range(len(burned)):
            share = self._share_of_fires(s, window)
            if share > 0 and weight > 0:
                found[s] = burned[s].sum() / (self.count * share * weight)
        return found

    def _share_of_fires(self, scenario: int, window: MapWindow) -> float:
        """The share of a scenario's fires that start in a window."""
        lit = cut_cells(self.ground.ignition_weight(scenario), self.ground.problem.landscape.shape, window)
        return float(lit.sum() / self.ground.ignition_totals[scenario])


def flow_bytes(behind: NDArray[np.float64]) -> NDArray[np.uint8]:
    """`fire.downstream.flow_byte` for arrays, in units."""
    amount = np.floor(np.maximum(behind, 0.0) * FINEST).astype(np.int64) + 1
    power = np.frexp(amount.astype(np.float64))[1] - 1
    found = STEPS * power + ((amount << BITS) >> power) - STEPS
    seen: NDArray[np.uint8] = np.minimum(found, 255).astype(np.uint8)
    return seen
