"""Groups of runs: runs with the same settings and different seeds share a mean and an interval."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flashdqn.runs.columns import MEAN_SCORE, SCORE_ERROR, SECONDS, STEP, Column
from flashdqn.runs.rows import float_or_nan
from flashdqn.show.overlay import Curve
from flashdqn.show.page import format_value
from flashdqn.show.report_files import RunFiles

POINTS = 60  # of a mean curve
#: Settings that depend on where and how a run was started: they are not choices about learning.
INCIDENTAL = ("preset", "out", "seed", "device", "runtime.mode", "runtime.threads")


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ only in their seeds."""

    name: str
    runs: tuple[RunFiles, ...]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the runs."""
        return self.runs[0].settings


def group_runs(runs: Sequence[RunFiles]) -> list[RunGroup]:
    """Group the runs, in their given order; the settings that differ name a group."""
    by_settings: dict[str, list[RunFiles]] = {}
    for run in runs:
        chosen = {name: value for name, value in run.settings.items() if not is_incidental_setting(name)}
        by_settings.setdefault(json.dumps(chosen, sort_keys=True, default=str), []).append(run)
    found = list(by_settings.values())
    names = name_groups([members[0].settings for members in found])
    return [RunGroup(name, tuple(members)) for name, members in zip(names, found, strict=True)]


def is_incidental_setting(name: str) -> bool:
    """Whether a setting does not affect learning: where the run ran, and what it logged."""
    return name in INCIDENTAL or name.startswith("log.")


def find_differing_settings(settings: Sequence[dict[str, Any]]) -> list[str]:
    """Settings that are not the same in all runs; one that is missing in an old run counts as different."""
    names = dict.fromkeys(name for one in settings for name in one if not is_incidental_setting(name))
    missing = object()
    return [
        name
        for name in names
        if any(one.get(name, missing) != settings[0].get(name, missing) for one in settings)
    ]


def name_groups(settings: Sequence[dict[str, Any]]) -> list[str]:
    """Name groups by preset, and by the settings that differ between groups of one preset."""
    presets = [str(one.get("preset", "run")) for one in settings]
    found = []
    for preset, one in zip(presets, settings, strict=True):
        kin = [other for name, other in zip(presets, settings, strict=True) if name == preset]
        parts = [f"{name} {format_value(one.get(name))}" for name in find_differing_settings(kin)[:3]]
        found.append(", ".join([preset, *parts]))
    return found if len(set(found)) == len(found) else [f"{n} ({k + 1})" for k, n in enumerate(found)]


def final_score(run: RunFiles) -> tuple[float, float]:
    """A run's score and half of its 95% interval: the best checkpoint's on fresh games, else the last score."""
    score, error = (float_or_nan(run.games.get(column.name)) for column in (MEAN_SCORE, SCORE_ERROR))
    if math.isfinite(score):
        return score, 1.96 * error
    _, scores, spread = run.evaluated()
    if scores:
        return scores[-1], spread[-1]
    explored = [value for value in run.series.get(run.series.score) if math.isfinite(value)]
    return (explored[-1], math.nan) if explored else (math.nan, math.nan)


def evaluation_curve(run: RunFiles, over: Column) -> Curve:
    """Evaluations over transitions or seconds, with their intervals."""
    steps, scores, spread = run.evaluated()
    low = [score - half for score, half in zip(scores, spread, strict=True)]
    high = [score + half for score, half in zip(scores, spread, strict=True)]
    return Curve(run.name, "", _locate_steps(run, steps, over), scores, low, high)


def metric_curve(run: RunFiles, column: Column, over: Column) -> Curve:
    """A column of the metrics over transitions or seconds."""
    return Curve(run.name, "", run.series.get(over), run.series.get(column))


def average_curves(name: str, color: str, curves: Sequence[Curve]) -> Curve:
    """The mean of curves where all have values, in a band from the least to the largest; one curve is unchanged."""
    there = [curve for curve in curves if any(math.isfinite(y) for y in curve.ys)]
    if len(there) == 1:
        one = there[0]
        return Curve(name, color, one.xs, one.ys, one.low, one.high, dots=bool(one.low))
    if not there:
        return Curve(name, color, (), ())
    known = [[x for x, y in zip(c.xs, c.ys, strict=True) if math.isfinite(y)] for c in there]
    left, right = max(xs[0] for xs in known), min(xs[-1] for xs in known)
    if right < left:
        return Curve(name, color, (), ())
    xs = [left + (right - left) * k / (POINTS - 1) for k in range(POINTS)]
    values = [[curve.at(min(x, right)) for curve in there] for x in xs]
    return Curve(
        name,
        color,
        xs,
        [sum(v) / len(v) for v in values],
        [min(v) for v in values],
        [max(v) for v in values],
    )


def _locate_steps(run: RunFiles, steps: Sequence[float], over: Column) -> list[float]:
    """Positions of steps on the axis; evaluations have no times, so the metrics give them."""
    if over == STEP:
        return list(steps)
    clock = Curve("", "", [0.0, *run.series.get(STEP)], [0.0, *run.series.get(SECONDS)])
    last = clock.xs[-1] if run.series.length else 0.0
    return [clock.at(min(step, last)) for step in steps]
