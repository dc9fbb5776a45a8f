"""Single fires on a landscape of any size, in several weathers, with breaks that all of them meet.

`Spread` keeps the times of arrival of all its fires, 5 bytes per cell and fire. This keeps those of one fire per
thread, and a fire costs only what it burns::

    fires = SingleFires(tables, duration=240.0)
    fires.place(cells)                                 # more breaks
    burned, lost, hits = fires.measure(table, ignition, weight)
    score = fires.add_up_downstream(table, ignition, weight)

The cells that burn are those of `Spread`, exactly: it is the same code on the same tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flashdqn.compute.kernels import Kernel
from flashdqn.envs.fuelbreaks.fire import trees
from flashdqn.envs.fuelbreaks.fire.spread import Spread
from flashdqn.envs.fuelbreaks.fire.tables import SpreadTables

#: From this number of cells on, the work of threads outweighs what starting them costs.
PARALLEL_FROM_CELLS = 2500
#: More threads than this would mostly wait for memory.
MOST_LANES = 64

Cells = NDArray[np.int64]
Numbers = NDArray[np.float64]


class SingleFires:
    """Fires that are burned one after the other in each thread; see the module's docstring."""

    def __init__(self, tables: SpreadTables, duration: float, most_lanes: int = MOST_LANES) -> None:
        cells = tables.times.shape[1]
        self.tables, self.cells = tables, cells
        threads = int(numba.get_num_threads()) if cells >= PARALLEL_FROM_CELLS else 1
        self.lanes = min(threads, most_lanes)
        spread = Spread(tables, self.lanes, 1, duration)
        self.arrays = spread.arrays  # the room of one fire per lane
        self.breaks = torch.zeros(cells, dtype=torch.bool)
        self.ways = tables.open.clone()  # [L, cells]: open directions, breaks considered
        self.tree = torch.zeros(self.lanes, cells, dtype=torch.int32)  # the cells of a lane's fire
        self._toggled = torch.zeros(1, dtype=torch.int64)
        every = len(tables.open)
        self._set_all = Kernel(trees.set_ways).bind(every, self.ways, self.breaks, *self.arrays)
        self._set_one = Kernel(trees.toggle_break).bind(
            every, self.ways, self.breaks, self._toggled, *self.arrays
        )

    def replace_breaks(self, cells: Cells) -> None:
        """Have breaks in these cells, and in no others."""
        self.breaks.zero_()
        self.breaks[torch.from_numpy(np.asarray(cells, dtype=np.int64))] = True
        self._set_all()

    def place(self, cells: Cells) -> None:
        """Add breaks."""
        for cell in cells:
            self._toggle(int(cell), True)

    def remove(self, cells: Cells) -> None:
        """Take breaks away."""
        for cell in cells:
            self._toggle(int(cell), False)

    def _toggle(self, cell: int, there: bool) -> None:
        self.breaks[cell] = there
        self._toggled[0] = cell
        self._set_one()

    def measure(
        self, table: NDArray[Any], ignition: NDArray[Any], weight: Numbers
    ) -> tuple[Cells, Numbers, NDArray[np.int32]]:
        """Cells [F] and weight [F] that each fire burns, and how many fires burn each cell, [cells]. A fire has a
        table and a cell where it starts."""
        burned = torch.zeros(len(table), dtype=torch.int64)
        lost = torch.zeros(len(table), dtype=torch.float64)
        hits = torch.zeros(self.lanes, self.cells, dtype=torch.int32)
        self._run(trees.measure_fires, table, ignition, _to_tensor(weight), burned, lost, hits)
        return burned.numpy(), lost.numpy(), hits.sum(0, dtype=torch.int32).numpy()

    def add_up_downstream(
        self, table: NDArray[Any], ignition: NDArray[Any], weight: Numbers, inclusive: bool = True
    ) -> Numbers:
        """For each cell the weight of all cells behind it, summed over the fires, [cells]; `inclusive`: its own
        weight and the ignition count too."""
        behind = torch.zeros(self.lanes, self.cells, dtype=torch.float64)
        score = torch.zeros(self.lanes, self.cells, dtype=torch.float64)
        self._run(
            trees.add_downstream, table, ignition, _to_tensor(weight), behind, score, inclusive=inclusive
        )
        return score.sum(0).numpy()

    def add_up_savings(
        self, table: NDArray[Any], ignition: NDArray[Any], weight: Numbers, wanted: NDArray[np.bool_]
    ) -> Numbers:
        """For each wanted cell the weight that one break there would save, summed over the fires that burn it,
        [cells]."""
        trial = torch.zeros(self.lanes, self.cells, dtype=torch.int64)
        score = torch.zeros(self.lanes, self.cells, dtype=torch.float64)
        chosen = torch.from_numpy(np.ascontiguousarray(wanted))
        self._run(trees.add_savings, table, ignition, _to_tensor(weight), chosen, trial, score)
        return score.sum(0).numpy()

    def mark_near(self, table: NDArray[Any], ignition: NDArray[Any], breaks: Cells) -> NDArray[np.bool_]:
        """Which fires might burn differently without each of these breaks, [F, N]."""
        cells = torch.from_numpy(np.asarray(breaks, dtype=np.int64))
        near = torch.zeros(len(table), len(cells), dtype=torch.bool)
        self._run(trees.mark_fires_near, table, ignition, cells, near)
        return near.numpy()

    def _run(
        self,
        function: Callable[..., None],
        table: NDArray[Any],
        ignition: NDArray[Any],
        *own: Tensor,
        inclusive: bool = True,
    ) -> None:
        numbers = torch.zeros(trees.NUMBERS, dtype=torch.int64)
        numbers[trees.COUNT], numbers[trees.LANE_COUNT] = len(table), self.lanes
        numbers[trees.INCLUSIVE] = int(inclusive)
        which = torch.from_numpy(np.ascontiguousarray(table, dtype=np.int64))
        cells = torch.from_numpy(np.ascontiguousarray(ignition, dtype=np.int64))
        launch = Kernel(function, 2).bind(
            self.lanes, numbers, which, cells, self.ways, self.breaks, self.tree, *own, *self.arrays
        )
        launch()


def _to_tensor(weight: Numbers) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(weight, dtype=np.float64))
