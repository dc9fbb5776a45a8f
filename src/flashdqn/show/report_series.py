"""The rows of a run's tables as series for charts, with few enough points to tell them apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from flashdqn.runs.columns import RETURN, SCORE, STEP, WINDOW_EPISODES, Column, ColumnKind, Columns
from flashdqn.runs.rows import float_or_nan
from flashdqn.runs.tables import METRICS_FILE, Cells, read_columns, read_table
from flashdqn.show.bars import split_into_slices
from flashdqn.show.charts import Span

MOST = 100  # windows in a chart: more cannot be told apart

#: Kinds whose last value stands for several windows.
STANDING = (ColumnKind.COUNTER, ColumnKind.SETTING, ColumnKind.MEMORY)
#: Kinds that are means over episodes.
PER_EPISODE = (ColumnKind.EPISODE, ColumnKind.SCORE, ColumnKind.OUTCOME, ColumnKind.CAUSE)


@dataclass(frozen=True)
class Series:
    """Values by column name, all of one length; a column that a run does not have is all NaN."""

    values: dict[str, list[float]]
    columns: Columns
    length: int

    def get(self, column: Column) -> list[float]:
        """The values of a column."""
        return self.values.get(column.name, [math.nan] * self.length)

    def last(self, column: Column) -> float:
        """The last value of a column."""
        return self.get(column)[-1] if self.length else math.nan

    def has(self, column: Column) -> bool:
        """Whether a column has any finite value."""
        return any(math.isfinite(value) for value in self.values.get(column.name, ()))

    @property
    def score(self) -> Column:
        """The column that measures a game: the score, or else the return."""
        return SCORE if self.has(SCORE) else RETURN

    @property
    def phases(self) -> list[Column]:
        """Phases that took any time."""
        return [
            column
            for column in self.columns.of_kind(ColumnKind.PHASE)
            if any(value > 0 for value in self.get(column))
        ]

    @property
    def spans(self) -> list[Span]:
        """The transitions from each row to the next."""
        return [Span(start, end) for start, end in pairwise((0.0, *self.get(STEP)))]


def make_series(rows: Sequence[Cells], columns: Columns) -> Series:
    """The rows of a table by column."""
    names = [column.name for column in columns.all]
    return Series({name: [float_or_nan(row.get(name)) for row in rows] for name in names}, columns, len(rows))


def read_series(run: Path, most: int = MOST) -> Series:
    """The metrics of a run; neighboring rows are combined if there are too many."""
    rows = read_table(run / METRICS_FILE)
    return downsample_series(make_series(rows, read_columns(run / METRICS_FILE, rows)), most)


def downsample_series(series: Series, most: int) -> Series:
    """At most `most` rows; the kind of a column decides how its values are combined."""
    cuts = split_into_slices(series.length, most)
    transitions = [span.end - span.start for span in series.spans]
    counted = series.has(WINDOW_EPISODES)
    episodes = series.get(WINDOW_EPISODES) if counted else [1.0] * series.length
    values = {}
    for column in series.columns.all:
        weights = episodes if column.kind in PER_EPISODE else transitions
        whole = series.get(column)
        values[column.name] = [_combine_windows(column.kind, whole[cut], weights[cut]) for cut in cuts]
    return Series(values, series.columns, len(cuts))


def _combine_windows(kind: ColumnKind, values: Sequence[float], weights: Sequence[float]) -> float:
    if kind in STANDING:
        return values[-1]
    if kind is ColumnKind.COUNT:
        return math.fsum(value for value in values if math.isfinite(value))
    return _combined_rate(values, weights) if kind is ColumnKind.RATE else _weighted_mean(values, weights)


def _weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    known = [
        (value, weight)
        for value, weight in zip(values, weights, strict=True)
        if math.isfinite(value) and weight > 0
    ]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total > 0 else math.nan


def _combined_rate(values: Sequence[float], transitions: Sequence[float]) -> float:
    """All transitions divided by their total time, which is not the mean of the rates."""
    known = [(v, n) for v, n in zip(values, transitions, strict=True) if math.isfinite(v) and v > 0 and n > 0]
    seconds = sum(number / value for value, number in known)
    return sum(number for _, number in known) / seconds if seconds > 0 else math.nan
