"""A budget, and how it is spent: every policy places its breaks through a purse, under the same rules."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.planning.ground import Ground

#: A share of the budget that may be overspent: sums of costs are rounded.
ROUNDING = 1e-9


class Purse:
    """What is left of a budget, and the cells that it was spent on."""

    def __init__(self, ground: Ground, budget: float) -> None:
        if not np.isfinite(budget) or budget <= 0:
            raise EnvError(f"A budget must be a number above 0, and is {budget:g}.")
        self.ground, self.budget = ground, float(budget)
        self.left = budget * (1.0 + ROUNDING)
        self.free = ground.allowed.copy()  # [cells]: no break lies there, and one may
        self.order: list[int] = []
        self._check_size()

    def _check_size(self) -> None:
        free = self.ground.cost[self.free]
        if not len(free):
            raise EnvError(
                "No break may lie anywhere: every cell is forbidden or does not burn in any scenario."
            )
        if self.left < free.min():
            raise EnvError(
                f"The budget is {self.budget:g}, and the cheapest break costs {free.min():g}: raise it."
            )
        if self.budget > free.sum() * (1.0 + ROUNDING):
            raise EnvError(
                f"The budget is {self.budget:g}, and breaks in all {len(free):,} cells where they may lie cost "
                f"{free.sum():g}: lower it."
            )

    def find_affordable(self) -> NDArray[np.bool_]:
        """Cells where a break may lie that costs no more than what is left, [cells]."""
        return self.free & (self.ground.cost <= self.left)

    @property
    def empty(self) -> bool:
        """Whether no further break is possible."""
        return not self.find_affordable().any()

    def place(self, cell: int) -> bool:
        """Put a break into a cell, if that is possible."""
        cost = float(self.ground.cost[cell])
        if not self.free[cell] or cost > self.left:
            return False
        self.left -= cost
        self.free[cell] = False
        self.order.append(cell)
        return True

    def count_remaining(self) -> int:
        """About how many breaks can still be paid."""
        costs = self.ground.cost[self.find_affordable()]
        return 0 if not len(costs) else max(1, int(self.left / float(costs.mean())))

    def share_left(self) -> float:
        """The breaks that can still be paid, as a share of all cells: by their mean cost."""
        costs = self.ground.cost[self.ground.allowed]
        return self.left / float(costs.mean()) / self.ground.cells


def divide_by_cost(score: NDArray[np.float64], cost: NDArray[np.float64]) -> NDArray[np.float64]:
    """Score per cost. What does harm does more of it where it costs more."""
    return np.where(score > 0, score / cost, score * cost)


def take_best(
    purse: Purse,
    score: NDArray[np.float64],
    count: int,
    apart: int = 1,
    least: float = -np.inf,
    almost: float = 0.0,
    at_least: int = 1,
) -> list[int]:
    """Place up to `count` breaks in the cells with the best score per cost, if their score is above `least`.

    No two of them are less than `apart` rows and columns apart; 1 means any. With `almost`, those after the first
    `at_least` must have this share of the best one's score per cost.
    """
    shape = purse.ground.problem.landscape.shape
    candidates = np.flatnonzero(purse.find_affordable() & (score > least))
    ratio = divide_by_cost(score[candidates], purse.ground.cost[candidates])
    enough = almost * float(ratio.max()) if almost > 0 and len(ratio) else -np.inf
    blocked = np.zeros(shape, dtype=np.bool_)
    placed: list[int] = []
    looked_at = 0
    while looked_at < len(candidates):
        some = _sort_best(ratio, looked_at, max(64, 4 * count * apart))
        looked_at += len(some)
        for i in some:
            if len(placed) == count or (ratio[i] < enough and len(placed) >= at_least):
                return placed
            row, column = divmod(int(candidates[i]), shape[1])
            if blocked[row, column] or not purse.place(int(candidates[i])):
                continue
            placed.append(int(candidates[i]))
            top, left = max(0, row - apart + 1), max(0, column - apart + 1)
            blocked[top : row + apart, left : column + apart] = True
    return placed


def _sort_best(ratio: NDArray[np.float64], start: int, count: int) -> NDArray[np.int64]:
    """The places of the `count` largest numbers after the `start` largest, largest first; equal ones in order."""
    end = min(len(ratio), start + count)
    if end < len(ratio):
        limit = np.partition(ratio, len(ratio) - end)[len(ratio) - end]
        top = np.flatnonzero(ratio >= limit)
    else:
        top = np.arange(len(ratio))
    order = top[np.argsort(-ratio[top], kind="stable")]
    return order[start:end]
