"""A problem made ready: fire in each of its scenarios, where breaks may lie, what they cost, where fires start.

A landscape of millions of cells is computed in bands of rows. The rows beside a band belong to the moves that leave
it, so the tables equal those of the whole landscape at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flashdqn.compute.device import format_bytes, free_bytes
from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.fire.behavior import joint_behavior
from flashdqn.envs.fuelbreaks.fire.tables import SpreadTables, spread_tables
from flashdqn.envs.fuelbreaks.fire.weather import Weather
from flashdqn.envs.fuelbreaks.landscape import LAYERS, Landscape
from flashdqn.envs.fuelbreaks.stakes import Stakes
from flashdqn.planning.problem import Problem

#: Tells how much is done, 0 … 1, and what is being done.
Progress = Callable[[float, str], None]

#: Cells that are computed together: more would take more memory, fewer more calls.
CELLS_AT_ONCE = 100_000
#: Rows beside a band whose cells its moves pass or touch.
BORDER = 3
#: Memory of a cell: its tables and open directions in each scenario, and its share of all that is not per scenario.
BYTES_PER_SCENARIO, BYTES_PER_CELL = 180, 400
#: The most cells of a landscape that is planned.
MOST_CELLS = 4_000_000


@dataclass(frozen=True, eq=False)
class Ground:
    """What all policies and the judge share."""

    problem: Problem
    tables: SpreadTables  # one for each scenario
    burnable: NDArray[np.bool_]  # [S, cells]: where fire spreads in a scenario
    allowed: NDArray[np.bool_]  # [cells]: where a break may lie
    cost: NDArray[np.float64]  # [cells]: of a break
    weight: NDArray[np.float64]  # [cells]: what is lost if a cell burns: value, or 1

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.cost)

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of each scenario, [S]."""
        weights = np.array([scenario.weight for scenario in self.problem.scenarios], dtype=np.float64)
        shares: NDArray[np.float64] = weights / weights.sum()
        return shares

    def draw_fires(
        self, count: int, random: np.random.Generator, evenly: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Scenario by weight, and a cell by the chance that a fire starts there, [count] each. `evenly`: spread
        over all chances, which estimates means with less noise."""
        table = random.choice(len(self.shares), count, p=self.shares)
        luck = random.random(count)
        if evenly:
            luck = (random.permutation(count) + luck) / count
        ignition = np.empty(count, dtype=np.int64)
        for s in np.unique(table):
            reached = np.cumsum(self.ignition_weight(int(s)))
            mine = table == s
            ignition[mine] = np.searchsorted(reached, luck[mine] * reached[-1], side="right")
        return table.astype(np.int64), ignition

    @cached_property
    def ignition_totals(self) -> NDArray[np.float64]:
        """The sum of `ignition_weight` in each scenario, [S]."""
        return np.array([self.ignition_weight(s).sum() for s in range(len(self.burnable))])

    @cached_property
    def total_weight(self) -> float:
        """What all cells together are worth."""
        return float(self.weight.sum())

    def ignition_weight(self, scenario: int) -> NDArray[np.float64]:
        """How likely a fire starts in each cell, [cells], in any unit: only where something burns."""
        weight: NDArray[np.float64] = self.burnable[scenario].astype(np.float64)
        if self.problem.stakes.ignition is not None:
            weight *= self.problem.stakes.ignition.reshape(-1)
        if weight.sum() <= 0:
            name = self.problem.scenarios[scenario].name
            raise EnvError(
                f"No fire can start in the scenario {name}: the cells that burn there have an ignition probability "
                "of 0, or nothing burns."
            )
        return weight


_last: list[Ground] = []


def prepare_ground(problem: Problem, progress: Progress | None = None) -> Ground:
    """The ground of a problem; that of the last problem is remembered."""
    if not _last or _last[0].problem is not problem:
        _last.clear()  # before the next one is made: it may be large
        _last.append(build_ground(problem, progress))
    return _last[0]


def build_ground(problem: Problem, progress: Progress | None = None) -> Ground:
    """Check the problem, and compute its fires' tables."""
    check_problem(problem)
    tables = build_tables(problem, progress)
    burnable = tables.burnable.numpy()
    allowed: NDArray[np.bool_] = np.logical_or.reduce(burnable, axis=0)
    if problem.stakes.forbidden is not None:
        allowed &= ~problem.stakes.forbidden.reshape(-1)
    cells = burnable.shape[1]
    cost = np.ones(cells) if problem.cost is None else problem.cost.reshape(-1).astype(np.float64)
    value = problem.stakes.value
    weight = np.ones(cells) if value is None else value.reshape(-1).astype(np.float64)
    return Ground(problem, tables, burnable, allowed, cost, weight)


def check_problem(problem: Problem) -> None:
    """Refuse what cannot be planned, before anything large is computed."""
    shape = problem.landscape.shape
    problem.stakes.check_shape(shape)
    cells = shape[0] * shape[1]
    if cells > MOST_CELLS:
        raise EnvError(
            f"{problem.landscape.name} has {shape[0]} x {shape[1]} cells, and {MOST_CELLS:,} are the most that are "
            "planned at once: crop it, or plan its parts (--window)."
        )
    if not problem.scenarios or any(scenario.weight <= 0 for scenario in problem.scenarios):
        raise EnvError("A problem needs at least one scenario, and every scenario a weight above 0.")
    if problem.cost is not None:
        _check_cost(problem.cost, shape)
    if problem.stakes.value is not None and not (problem.stakes.value > 0).any():
        raise EnvError("The map of value is 0 in every cell: there is nothing to protect.")
    needed = cells * (BYTES_PER_SCENARIO * len(problem.scenarios) + BYTES_PER_CELL)
    free = free_bytes(torch.device("cpu"))
    if needed > 0.9 * free:
        raise EnvError(
            f"Planning on {shape[0]} x {shape[1]} cells in {len(problem.scenarios)} scenarios takes "
            f"{format_bytes(needed)}, but {format_bytes(free)} are free: crop the landscape, or give fewer "
            "scenarios."
        )


def _check_cost(cost: NDArray[Any], shape: tuple[int, int]) -> None:
    if cost.shape != shape:
        raise EnvError(
            f"The map of cost has {cost.shape[0]} x {cost.shape[1]} cells, and the landscape {shape[0]} x "
            f"{shape[1]}."
        )
    bad = ~(np.isfinite(cost) & (cost > 0))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise EnvError(
            f"The map of cost must hold numbers above 0, and holds {cost[row, column]:g} in row {row}, column "
            f"{column}: forbid the cells where no break may lie instead."
        )


def build_tables(
    problem: Problem, progress: Progress | None = None, at_once: int = CELLS_AT_ONCE
) -> SpreadTables:
    """The tables of a problem, one for each scenario, computed in bands of rows."""
    rows, columns = problem.landscape.shape
    band = max(1, at_once // columns)
    starts = range(0, rows, band)
    parts: list[SpreadTables] = []
    for k, start in enumerate(starts):
        if progress is not None:
            progress(k / len(starts), "fire behavior")
        parts.append(_build_band(problem, start, min(rows, start + band)))
    return _join_tables(parts, (rows, columns))


def _build_band(problem: Problem, start: int, end: int) -> SpreadTables:
    """The tables of some rows."""
    rows, columns = problem.landscape.shape
    first, last = max(0, start - BORDER), min(rows, end + BORDER)
    land = cut_landscape(problem.landscape, slice(first, last), slice(0, columns))
    weathers: list[Weather] = [scenario.weather for scenario in problem.scenarios]
    tables = spread_tables([joint_behavior([land], weather) for weather in weathers])
    keep = slice((start - first) * columns, (end - first) * columns)
    return _make_tables((end - start, columns), tables, lambda name: getattr(tables, name)[:, keep].clone())


def _join_tables(parts: list[SpreadTables], shape: tuple[int, int]) -> SpreadTables:
    if len(parts) == 1:
        return parts[0]
    return _make_tables(
        shape, parts[0], lambda name: torch.cat([getattr(part, name) for part in parts], dim=1)
    )


def _make_tables(shape: tuple[int, int], like: SpreadTables, make: Callable[[str], Tensor]) -> SpreadTables:
    """Tables whose tensors, [L, cells, …], `make` gives by name."""
    names = [field.name for field in fields(like) if field.init and field.name not in ("shape", "directions")]
    return SpreadTables(shape, like.directions, **{name: make(name) for name in names})


def cut_landscape(landscape: Landscape, rows: slice, columns: slice) -> Landscape:
    """A rectangle of a landscape."""
    layers: dict[str, Any] = {layer: getattr(landscape, layer)[rows, columns] for layer in LAYERS}
    return Landscape(**layers, cell_size=landscape.cell_size, name=landscape.name)


def cut_stakes(stakes: Stakes, rows: slice, columns: slice) -> Stakes:
    """The maps of a rectangle."""

    def cut(given: NDArray[Any] | None) -> Any:
        return None if given is None else given[rows, columns]

    return Stakes(cut(stakes.value), cut(stakes.ignition), cut(stakes.forbidden))
