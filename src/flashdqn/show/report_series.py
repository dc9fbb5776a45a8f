"""The rows of a run's metrics.csv as series for charts: few enough to be told apart, whatever columns there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from flashdqn.runs.folder import read_table
from flashdqn.show.bars import split_into_slices
from flashdqn.show.charts import Span

MOST = 100  # windows in a chart: more cannot be told apart

#: columns that every task has; the others are the task's own outcomes
KNOWN = (
    "step", "updates", "episodes", "seconds", "steps_per_second", "ratio", "eps", "lr", "loss", "q", "grad_norm",
    "window_episodes", "return", "length", "score", "memory_mb",
)  # fmt: skip


@dataclass(frozen=True)
class Series:
    """Columns of the same length; one that a run does not have is all NaN."""

    columns: dict[str, list[float]]
    length: int

    def get(self, name: str) -> list[float]:
        """One column."""
        return self.columns.get(name, [math.nan] * self.length)

    def last(self, name: str) -> float:
        """How it stood at the end."""
        return self.get(name)[-1] if self.length else math.nan

    def has(self, name: str) -> bool:
        """Whether there is anything in it."""
        return any(math.isfinite(value) for value in self.columns.get(name, ()))

    @property
    def outcomes(self) -> list[str]:
        """The task's own columns."""
        return [name for name in self.columns if name not in KNOWN and not name.startswith("us_")]

    @property
    def phases(self) -> list[str]:
        """Phases that took any time."""
        names = [name for name in self.columns if name.startswith("us_") and name != "us_total"]
        return [name for name in names if any(value > 0 for value in self.columns[name])]

    def spans(self, name: str = "step") -> list[Span]:
        """From each row to the next, over transitions or seconds."""
        ends = self.get(name)
        return [Span(start, end) for start, end in pairwise((0.0, *ends))]


def read_series(run: Path, most: int = MOST) -> Series:
    """The metrics of a run, with neighbouring rows taken together where there are too many."""
    rows = read_table(run / "metrics.csv")
    names = list(rows[0]) if rows else []
    columns = {name: [_cell_to_float(row.get(name)) for row in rows] for name in names}
    return downsample_series(Series(columns, len(rows)), most)


def downsample_series(series: Series, most: int) -> Series:
    """At most so many rows: counters as they stood at the end of each, the rest as means over what they count."""
    cuts = split_into_slices(series.length, most)
    transitions = [span.end - span.start for span in series.spans()]
    episodes = series.get("window_episodes") if series.has("window_episodes") else [1.0] * series.length
    columns = {}
    for name, values in series.columns.items():
        if name in ("step", "updates", "episodes", "seconds", "ratio", "memory_mb", "eps", "lr"):
            columns[name] = [values[cut][-1] for cut in cuts]
        elif name == "window_episodes":
            columns[name] = [math.fsum(v for v in values[cut] if math.isfinite(v)) for cut in cuts]
        elif name == "steps_per_second":
            columns[name] = [_combined_rate(values[cut], transitions[cut]) for cut in cuts]
        else:
            per_episode = name in ("return", "length", "score") or name in series.outcomes
            weights = episodes if per_episode else transitions
            columns[name] = [_weighted_mean(values[cut], weights[cut]) for cut in cuts]
    return Series(columns, len(cuts))


def _weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    known = [
        (value, weight)
        for value, weight in zip(values, weights, strict=True)
        if math.isfinite(value) and weight > 0
    ]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total > 0 else math.nan


def _combined_rate(values: Sequence[float], transitions: Sequence[float]) -> float:
    """All transitions over all the time that they took: no mean of rates."""
    known = [(v, n) for v, n in zip(values, transitions, strict=True) if math.isfinite(v) and v > 0 and n > 0]
    seconds = sum(number / value for value, number in known)
    return sum(number for _, number in known) / seconds if seconds > 0 else math.nan


def _cell_to_float(text: str | None) -> float:
    try:
        return float(text) if text is not None else math.nan
    except ValueError:
        return math.nan
