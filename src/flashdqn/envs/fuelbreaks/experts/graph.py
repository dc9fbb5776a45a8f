"""The graph of fire spread: a cell leads to those that fire can reach from it in one move, in so many minutes."""

from __future__ import annotations

import torch
from torch import Tensor

from flashdqn.envs.fuelbreaks.fire.directions import fire_directions
from flashdqn.envs.fuelbreaks.fire.tables import SpreadTables


def build_spread_graph(tables: SpreadTables, scene: int, breaks: Tensor | None = None) -> Tensor:
    """The weighted adjacency matrix, [cells, cells] float64: moves per minute from row to column, 0 where fire
    cannot go. With breaks, [cells] bool, what passes or touches one is closed."""
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
