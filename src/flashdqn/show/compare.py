"""Several runs on one page: curves over each other, scores with intervals, and the settings that differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from flashdqn.show import charts
from flashdqn.show.chart_axis import STEPS, TIME, Axis
from flashdqn.show.compare_groups import (
    Group,
    differing,
    evaluation_curve,
    final_score,
    grouped,
    mean_and_half,
    metric_curve,
    score_column,
    score_text,
    together,
)
from flashdqn.show.numbers import count, duration, rate
from flashdqn.show.overlay import Curve, overlay_chart
from flashdqn.show.page import escape, make_page, section, table, value_text
from flashdqn.show.report import STYLE
from flashdqn.show.report_charts import COLOURS
from flashdqn.show.report_files import RunFiles, number, read_run


def write_comparison(paths: Sequence[Path], out: Path) -> Path:
    """Write the page to a file."""
    out.write_text(comparison_page([read_run(path) for path in paths]), encoding="utf-8")
    return out


def comparison_page(runs: Sequence[RunFiles]) -> str:
    """The page itself."""
    groups = grouped(runs)
    title = f"{len(runs)} runs, {len(groups)} {'setting' if len(groups) == 1 else 'settings'}"
    note = "Runs of the same settings are drawn as their mean, in a band from the least to the largest."
    body = [
        f'<header><p class="brand">flashdqn report</p><h1>{escape(title)}</h1><p class="soft">{note}</p></header>',
        section("Scores", scores(groups)),
        section("Curves", curves(groups)),
        section("Settings that differ", settings(groups)),
        section("Runs", members(groups)),
    ]
    return make_page(f"{title}: flashdqn", body, charts.STYLE + STYLE, charts.SCRIPT)


def scores(groups: Sequence[Group]) -> str:
    """One row for each group: its mean with a 95% interval over seeds, or of its one run's games."""
    rows = []
    for group in groups:
        finals = [final_score(run) for run in group.runs]
        alone = len(group.runs) == 1
        mean = finals[0] if alone else mean_and_half([score for score, _ in finals])
        known = [score for score, _ in finals if math.isfinite(score)]
        spread = f"{rate(min(known))} to {rate(max(known))}" if len(known) > 1 else "–"
        over = "games" if alone else "seeds"
        rows.append((group.name, str(len(group.runs)), score_text(*mean), over, spread, *_costs(group)))
    head = (
        "settings",
        "runs",
        "score (95%)",
        "interval over",
        "least to largest",
        "transitions",
        "time",
        "transitions/s",
    )
    return table(head, rows)


def curves(groups: Sequence[Group]) -> str:
    """Score against transitions and against time, in evaluation and while exploring; and throughput."""
    column = score_column(groups[0].runs[0])
    explored = lambda run, over: metric_curve(run, column, over)  # noqa: E731
    drawn = [
        _chart("Evaluation, against transitions", "mean score", groups, evaluation_curve, "step", STEPS),
        _chart("Evaluation, against training time", "mean score", groups, evaluation_curve, "seconds", TIME),
        _chart("While exploring, against transitions", f"mean {column}", groups, explored, "step", STEPS),
        _chart("While exploring, against training time", f"mean {column}", groups, explored, "seconds", TIME),
        _chart(
            "Throughput",
            "transitions/s",
            groups,
            lambda run, over: metric_curve(run, "steps_per_second", over),
            "step",
            STEPS,
        ),
    ]
    return (
        f'<div class="charts">{"".join(drawn)}</div>'
        if any(drawn)
        else "<p>There is nothing to draw yet.</p>"
    )


def settings(groups: Sequence[Group]) -> str:
    """A row for each setting that is not the same in all groups."""
    names = differing([group.settings for group in groups])
    if not names:
        return "<p>None but the seeds.</p>"
    rows = [(name, *(value_text(group.settings.get(name)) for group in groups)) for name in names]
    return table(("setting", *(group.name for group in groups)), rows)


def members(groups: Sequence[Group]) -> str:
    """Every run with its own score."""
    rows = [
        (
            run.name,
            group.name,
            value_text(run.settings.get("seed")),
            score_text(*final_score(run)),
            "yes" if run.summary.get("finished") else "no",
            value_text(run.hardware.get("device")),
        )
        for group in groups
        for run in group.runs
    ]
    return table(("run", "settings", "seed", "score (95%, games)", "finished", "device"), rows)


def _chart(
    title: str,
    name: str,
    groups: Sequence[Group],
    curve: Callable[[RunFiles, str], Curve],
    over: str,
    axis: Axis,
) -> str:
    merged = [
        together(group.name, COLOURS[k % len(COLOURS)], [curve(run, over) for run in group.runs])
        for k, group in enumerate(groups)
    ]
    seen = [one for one in merged if any(math.isfinite(y) for y in one.ys)]
    return overlay_chart(title, name, seen, axis, rate) if seen else ""


def _costs(group: Group) -> tuple[str, str, str]:
    steps = [number(run.summary.get("steps", run.series.last("step"))) for run in group.runs]
    seconds = [number(run.summary.get("seconds", run.series.last("seconds"))) for run in group.runs]
    speeds = sorted(v for run in group.runs for v in run.series.get("steps_per_second") if math.isfinite(v))
    speed = rate(speeds[len(speeds) // 2]) if speeds else "–"
    return count(_mean(steps)), duration(_mean(seconds)), speed


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return sum(known) / len(known) if known else math.nan
