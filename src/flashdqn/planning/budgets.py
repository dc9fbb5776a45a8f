"""Budgets as people write them: 40ha, 5%, 12km, or a number of cells or of units of cost."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.core.ranges import describe_value
from flashdqn.planning.problem import Problem

_BUDGET = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*(ha|%|km)?", re.IGNORECASE)
#: What a budget may look like, for messages.
FORMS = "40ha, 5%, 12km or a number of cells"
#: The shares of the budget at which the curve has points, where the user names none.
CURVE_SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class BreakBudget:
    """What may be spent on breaks."""

    text: str  # as the user wrote it
    amount: float  # in units of cost: cells, where there is no map of costs
    meaning: str  # in words: "444 cells (40.0 ha)"


def find_allowed_cells(problem: Problem) -> NDArray[np.bool_]:
    """Where a break may lie and is of use: burnable cells that are not forbidden, [H, W]."""
    allowed = problem.landscape.burnable.copy()
    if problem.stakes.forbidden is not None:
        allowed &= ~problem.stakes.forbidden
    return allowed


def sum_allowed_cost(problem: Problem) -> float:
    """What breaks in all cells where they may lie cost together."""
    allowed = find_allowed_cells(problem)
    return float(allowed.sum() if problem.cost is None else problem.cost[allowed].sum(dtype=np.float64))


def cell_hectares(problem: Problem) -> float:
    """The area of a cell, in hectares."""
    return problem.landscape.cell_size**2 / 10_000.0


def parse_budget(text: str, problem: Problem) -> BreakBudget:
    """A budget in units of cost; one that cannot be spent is refused."""
    number, unit = split_budget(text)
    if not find_allowed_cells(problem).any():
        raise EnvError(f"In {problem.landscape.name} there is no cell that burns and where a break may lie.")
    if problem.cost is not None:
        return _check_cost_budget(text, number, unit, problem)
    cells = _count_cells(number, unit, problem)
    if cells < 1:
        raise ConfigError(
            f"The budget {describe_value(text)} is less than one cell, and a cell has "
            f"{cell_hectares(problem):.3g} ha: raise it."
        )
    most = int(sum_allowed_cost(problem))
    if cells > most:
        raise ConfigError(
            f"The budget {describe_value(text)} is {cells:,} cells, and in {problem.landscape.name} a break may "
            f"lie in {most:,} cells: lower it."
        )
    return BreakBudget(text.strip(), float(cells), _describe_cells(cells, unit, problem))


def split_budget(text: str) -> tuple[float, str]:
    """The number of a budget, and its unit: ha, %, km or none. What is not written so is refused."""
    found = _BUDGET.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"A budget is written as {FORMS}, and {describe_value(text)} is not.")
    return float(found[1]), (found[2] or "").lower()


def _count_cells(number: float, unit: str, problem: Problem) -> int:
    if unit == "ha":
        return math.floor(number / cell_hectares(problem) + 1e-9)
    if unit == "%":
        return math.floor(number / 100.0 * problem.landscape.fuel_model.size + 1e-9)
    if unit == "km":
        return math.floor(1000.0 * number / problem.landscape.cell_size + 1e-9)
    if number != int(number):
        raise ConfigError(f"A budget without a unit is a whole number of cells, and is {number:g}.")
    return int(number)


def _describe_cells(cells: int, unit: str, problem: Problem) -> str:
    words = f"{cells:,} {'cell' if cells == 1 else 'cells'}, {cells * cell_hectares(problem):,.1f} ha"
    side = problem.landscape.cell_size
    return f"{words}: lines one cell ({side:g} m) wide" if unit == "km" else words


def _check_cost_budget(text: str, number: float, unit: str, problem: Problem) -> BreakBudget:
    assert problem.cost is not None
    if unit:
        raise ConfigError(
            f"With a map of costs, a budget is a number in its units, such as 250, and {describe_value(text)} "
            "is not."
        )
    costs = problem.cost[find_allowed_cells(problem)]
    least, most = float(costs.min(initial=math.inf)), sum_allowed_cost(problem)
    if number <= 0 or number < least:
        raise ConfigError(
            f"The budget {describe_value(text)} buys no break, and the cheapest costs {least:g}: raise it."
        )
    if number > most:
        raise ConfigError(
            f"The budget {describe_value(text)} is more than all breaks in {problem.landscape.name} cost together, "
            f"which is {most:,.6g}: lower it."
        )
    return BreakBudget(text.strip(), number, f"{number:,.6g} units of the map of costs")


def choose_budgets(full: BreakBudget, texts: tuple[str, ...], problem: Problem) -> tuple[float, ...]:
    """The budgets of the curve, growing; the last is the full one."""
    if texts:
        amounts = {parse_budget(text, problem).amount for text in texts}
        if max(amounts) > full.amount:
            raise ConfigError(
                f"The largest of --budgets is {max(amounts):g}, more than --budget, which is {full.amount:g}: "
                "raise --budget."
            )
    elif problem.cost is None:
        amounts = {float(max(1, round(share * full.amount))) for share in CURVE_SHARES}
    else:
        amounts = {share * full.amount for share in CURVE_SHARES}
    return tuple(sorted(amounts | {full.amount}))
