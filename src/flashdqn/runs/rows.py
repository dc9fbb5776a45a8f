"""Rows of a run's tables as objects: fields for fixed columns, mappings for columns that a task names.

Fields have the order of the columns. A field has its column's name, except `return_`: `return` is a keyword.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from flashdqn.runs.columns import PHASE_PREFIX, RESERVED, SCORE, ColumnKind, Columns

#: Columns that not every run has.
OPTIONAL = ("gpu_percent", "policy_lag", "longest_lag")

Row = TypeVar("Row", "MetricsRow", "EvaluationRow")


@dataclass(frozen=True)
class MetricsRow:
    """A window of training: one row of metrics.csv."""

    step: int
    updates: int
    episodes: int
    seconds: float
    steps_per_second: float
    ratio: float
    eps: float
    lr: float
    loss: float
    q: float
    grad_norm: float
    window_episodes: int
    return_: float
    length: float
    outcomes: Mapping[str, float]  # as the task names them, the score among them
    phases: Mapping[str, float]  # µs per transition
    memory_mb: float
    us_total: float
    gpu_percent: float | None = None  # None: not measured, as on a CPU
    policy_lag: float | None = None  # None: all environments take their steps together
    longest_lag: float | None = None

    @property
    def score(self) -> float | None:
        """The mean score; None if the task has none."""
        return self.outcomes.get(SCORE.name)


@dataclass(frozen=True)
class EvaluationRow:
    """An evaluation: one row of evaluations.csv."""

    step: int
    episodes: int
    unfinished: int
    mean_score: float
    score_error: float
    mean_return: float
    mean_length: float
    outcomes: Mapping[str, float]  # as the task names them, without the score


def row_to_cells(row: MetricsRow | EvaluationRow) -> dict[str, float]:
    """A row as a mapping from column names to values, in their order."""
    cells: dict[str, float] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        if field.name == "phases":
            cells |= {f"{PHASE_PREFIX}{name}": part for name, part in value.items()}
        elif field.name == "outcomes":
            cells |= value
        elif value is not None:
            cells[field.name.rstrip("_")] = value
    return cells


def parse_row(row: type[Row], cells: Mapping[str, Any], columns: Columns) -> Row:
    """Read a row of a file; what is missing becomes NaN, or 0 for a whole number."""
    values: dict[str, Any] = {}
    for field in fields(row):
        if field.name == "phases":
            names = [column.name for column in columns.of_kind(ColumnKind.PHASE)]
            values["phases"] = {n.removeprefix(PHASE_PREFIX): float_or_nan(cells.get(n)) for n in names}
        elif field.name == "outcomes":
            found = columns.of_kind(ColumnKind.SCORE, ColumnKind.OUTCOME, ColumnKind.CAUSE)
            own = [column.name for column in found if column.name not in RESERVED]
            values["outcomes"] = {name: float_or_nan(cells.get(name)) for name in own}
        elif field.name not in OPTIONAL or field.name in cells:
            read = int_or_zero if field.type == "int" else float_or_nan
            values[field.name] = read(cells.get(field.name.rstrip("_")))
    return row(**values)


def float_or_nan(value: Any) -> float:
    """The value as a number; NaN if it is not one."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def int_or_zero(value: Any) -> int:
    """The value as a whole number; 0 if it is not one, or has more digits than any count."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        read = float_or_nan(value)
        number = int(read) if math.isfinite(read) else 0
    return number if abs(number) < 2**63 else 0
