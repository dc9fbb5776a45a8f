"""Betweenness: how many of the fastest paths from cell to cell lead through a cell, within the fires' duration.

A fire burns from every cell. The fastest paths from its ignition are a tree, and a cell lies on the paths to all
cells behind it. So its betweenness (Freeman 1977) is the number of cells behind it, summed over all fires except
its own. Where several paths are equally fast, the first direction counts, so the tree follows from the times of
arrival alone.

After one more break only the fires whose tree led past it are counted again. The sums are whole numbers, so they
equal a count of all fires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flashdqn.compute.kernels import Array, Kernel, Scalar, inner
from flashdqn.envs.fuelbreaks.fire.layout import (
    COLUMNS,
    FIRES,
    INFINITE,
    MOVE,
    NO_PARENT,
    ROWS,
    TO_COLUMN,
    TO_ROW,
    Fires,
)
from flashdqn.envs.fuelbreaks.fire.spread import BURN, KEEP, Spread

if TYPE_CHECKING:
    from flashdqn.envs.fuelbreaks.env import FuelBreaks


@inner
def grow_tree(n: Scalar, b: Scalar, tree: Array, fires: Fires) -> None:
    """For each cell of fire `n` the first of the moves that bring the fire there in time."""
    for cell in range(fires.arrival.shape[1]):
        tree[n, cell] = NO_PARENT
        here = fires.arrival[n, cell]
        if here == INFINITE or cell == fires.ignition[n]:
            continue
        ways = fires.passable[b, cell]
        for k in range(fires.step.shape[0]):
            if (ways >> k) & 1 != 0:
                source, time = cell + fires.step[k], fires.into[fires.table[b], cell, k ^ 1]
                if source == fires.ignition[n]:
                    time *= fires.outside[k ^ 1]
                else:
                    time += fires.arrival[n, source]
                if time == here:
                    tree[n, cell] = k ^ 1
                    break


@inner
def add_cells_behind(
    n: Scalar, b: Scalar, sign: Scalar, tree: Array, children: Array, behind: Array, total: Array, step: Array
) -> None:
    """Add `sign` times the number of cells behind each cell of a tree. Leaves are removed one by one."""
    cells = tree.shape[1]
    for c in range(cells):
        children[b, c] = 0
        behind[b, c] = 0
    for c in range(cells):
        if tree[n, c] != NO_PARENT:
            children[b, c - step[tree[n, c]]] += 1
    for c in range(cells):
        leaf = c
        # A leaf passes its count to the cell where the fire came from, which may then be a leaf.
        while children[b, leaf] == 0 and tree[n, leaf] != NO_PARENT:
            before = leaf - step[tree[n, leaf]]
            total[b, leaf] += sign * behind[b, leaf]
            behind[b, before] += behind[b, leaf] + 1
            children[b, leaf] = -1
            children[b, before] -= 1
            leaf = before


@inner
def leads_past(n: Scalar, cell: Scalar, tree: Array, fires: Fires) -> Scalar:
    """Whether a move of a tree is one that a break in `cell` ends."""
    rows, columns = fires.params[ROWS], fires.params[COLUMNS]
    row, column = cell // columns, cell % columns
    for t in range(fires.touching.shape[0]):
        r, c = row + fires.touching[t, TO_ROW], column + fires.touching[t, TO_COLUMN]
        if 0 <= r < rows and 0 <= c < columns and tree[n, r * columns + c] == fires.touching[t, MOVE]:
            return True
    return False


@inner
def count_again(b: Scalar, tree: Array, children: Array, behind: Array, total: Array, *arrays: Array) -> None:
    """Bring the sums of board `b` up to date after its command."""
    fires = Fires(*arrays)
    command, per_board = fires.command[b], fires.params[FIRES]
    if command == KEEP:
        return
    if command == BURN:
        for c in range(total.shape[1]):
            total[b, c] = 0
    for n in range(b * per_board, (b + 1) * per_board):
        if command >= 0:
            if not leads_past(n, command, tree, fires):
                continue
            add_cells_behind(n, b, -1, tree, children, behind, total, fires.step)
        grow_tree(n, b, tree, fires)
        add_cells_behind(n, b, 1, tree, children, behind, total, fires.step)


class Betweenness:
    """Betweenness of the boards in their current state: a fire from every cell, around the existing breaks."""

    def __init__(self, env: FuelBreaks) -> None:
        self.env, n, cells = env, env.num_envs, env.num_actions
        self.spread = Spread(env.scenes.spread, n, cells, env.config.duration)
        self.spread.ignition.copy_(torch.arange(cells, dtype=torch.int32, device=env.device).expand(n, cells))
        self.total = torch.zeros((n, cells), dtype=torch.int64, device=env.device)
        self._tree = torch.zeros((n * cells, cells), dtype=torch.int8, device=env.device)
        work = [torch.zeros((n, cells), dtype=torch.int32, device=env.device) for _ in range(2)]
        self._count = Kernel(count_again, 2).bind(n, self._tree, *work, self.total, *self.spread._arrays)
        self._started = False

    def scores(self) -> Tensor:
        """[N, cells] float64, of whole numbers."""
        self.spread.command.copy_(self._choose_commands())
        self.spread.table.copy_(self.env.spread.table)
        self.spread.breaks.copy_(self.env.spread.breaks)
        self.spread.launch()
        self._count()
        return self.total.to(torch.float64)

    def _choose_commands(self) -> Tensor:
        """What each board needs since the last call: nothing, one more break, or all fires from scratch, [N]."""
        own, now = self.spread, self.env.spread
        if not self._started:
            self._started = True
            return torch.full_like(own.command, BURN)
        placed = now.breaks & ~own.breaks
        count = placed.sum(1)
        other = (own.table != now.table) | (own.breaks & ~now.breaks).any(1) | (count > 1)
        cell = placed.to(torch.int8).argmax(1).to(torch.int32)
        command = torch.where(count == 1, cell, torch.full_like(cell, KEEP))
        return torch.where(other, torch.full_like(command, BURN), command)
