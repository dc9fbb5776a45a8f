"""Several runs on one page: curves in one chart, scores with intervals, and the settings that differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from flashdqn.core.files import write_output
from flashdqn.runs.columns import SECONDS, STEP, STEPS_PER_SECOND, Column
from flashdqn.runs.rows import float_or_nan
from flashdqn.show import charts
from flashdqn.show.bars import mean_of_finite
from flashdqn.show.chart_axis import STEPS, TIME, Axis
from flashdqn.show.compare_groups import (
    RunGroup,
    average_curves,
    evaluation_curve,
    final_score,
    find_differing_settings,
    group_runs,
    metric_curve,
)
from flashdqn.show.intervals import format_score_interval, mean_with_interval
from flashdqn.show.numbers import format_count, format_duration, format_rate
from flashdqn.show.overlay import Curve, draw_overlay_chart
from flashdqn.show.page import escape, format_value, make_page, make_section, make_stacked_table
from flashdqn.show.report import STYLE, make_problem_list
from flashdqn.show.report_charts import COLORS
from flashdqn.show.report_files import RunFiles, read_run


def write_comparison(paths: Sequence[Path], out: Path) -> Path:
    """Write the page to a file."""
    write_output(out, make_comparison_page([read_run(path) for path in paths]))
    return out


def make_comparison_page(runs: Sequence[RunFiles]) -> str:
    """The page as HTML."""
    groups = group_runs(runs)
    title = f"{len(runs)} runs, {len(groups)} {'setting' if len(groups) == 1 else 'settings'}"
    note = "Runs of the same settings are drawn as their mean, in a band from the least to the largest."
    body = [
        f'<header><p class="brand">flashdqn report</p><h1>{escape(title)}</h1><p class="soft">{note}</p>'
        + make_problem_list([f"{run.name}: {problem}" for run in runs for problem in run.problems])
        + "</header>",
        make_section("Scores", make_score_table(groups)),
        make_section("Curves", draw_comparison_curves(groups)),
        make_section("Settings that differ", make_differences_table(groups)),
        make_section("Runs", make_run_table(groups)),
    ]
    return make_page(f"{title}: flashdqn", body, charts.STYLE + STYLE, charts.SCRIPT)


def make_score_table(groups: Sequence[RunGroup]) -> str:
    """One row for each group: its mean with a 95% interval over seeds, or over the games of a single run."""
    rows = []
    for group in groups:
        finals = [final_score(run) for run in group.runs]
        alone = len(group.runs) == 1
        mean = finals[0] if alone else mean_with_interval([score for score, _ in finals])
        known = [score for score, _ in finals if math.isfinite(score)]
        spread = f"{format_rate(min(known))} to {format_rate(max(known))}" if len(known) > 1 else "–"
        over = "games" if alone else "seeds"
        rows.append(
            (
                group.name,
                format_score_interval(*mean),
                str(len(group.runs)),
                over,
                spread,
                *_format_costs(group),
            )
        )
    head = (
        "settings",
        "score (95%)",
        "runs",
        "interval over",
        "least to largest",
        "transitions",
        "time",
        "transitions/s",
        "by wall clock",
        "reuse",
    )
    return make_stacked_table(head, rows)


def draw_comparison_curves(groups: Sequence[RunGroup]) -> str:
    """Draw scores over transitions and over time, in evaluation and while exploring; and throughput."""
    column = groups[0].runs[0].series.score
    explored = lambda run, over: metric_curve(run, column, over)  # noqa: E731
    drawn = [
        _draw_group_chart(
            "Evaluation, against transitions", "mean score", groups, evaluation_curve, STEP, STEPS
        ),
        _draw_group_chart(
            "Evaluation, against training time", "mean score", groups, evaluation_curve, SECONDS, TIME
        ),
        _draw_group_chart(
            "While exploring, against transitions", f"mean {column.name}", groups, explored, STEP, STEPS
        ),
        _draw_group_chart(
            "While exploring, against training time", f"mean {column.name}", groups, explored, SECONDS, TIME
        ),
        _draw_group_chart(
            "Throughput, against transitions",
            "transitions/s",
            groups,
            lambda run, over: metric_curve(run, STEPS_PER_SECOND, over),
            STEP,
            STEPS,
        ),
    ]
    return (
        f'<div class="charts">{"".join(drawn)}</div>'
        if any(drawn)
        else "<p>There is nothing to draw yet.</p>"
    )


def make_differences_table(groups: Sequence[RunGroup]) -> str:
    """A row for each setting that is not the same in all groups."""
    names = find_differing_settings([group.settings for group in groups])
    if not names:
        return "<p>Only the seeds.</p>"
    rows = [(name, *(format_value(group.settings.get(name)) for group in groups)) for name in names]
    return make_stacked_table(("setting", *(group.name for group in groups)), rows, long_names=True)


def make_run_table(groups: Sequence[RunGroup]) -> str:
    """Every run with its own score."""
    rows = [
        (
            run.name,
            format_score_interval(*final_score(run)),
            group.name,
            format_value(run.settings.get("seed")),
            "yes" if run.summary.get("finished") else "no",
            format_value(run.hardware.get("device")),
        )
        for group in groups
        for run in group.runs
    ]
    return make_stacked_table(("run", "score (95%, games)", "settings", "seed", "finished", "device"), rows)


def _draw_group_chart(
    title: str,
    name: str,
    groups: Sequence[RunGroup],
    curve: Callable[[RunFiles, Column], Curve],
    over: Column,
    axis: Axis,
) -> str:
    merged = [
        average_curves(group.name, COLORS[k % len(COLORS)], [curve(run, over) for run in group.runs])
        for k, group in enumerate(groups)
    ]
    seen = [one for one in merged if any(math.isfinite(y) for y in one.ys)]
    return draw_overlay_chart(title, name, seen, axis, format_rate) if seen else ""


def _format_costs(group: RunGroup) -> tuple[str, ...]:
    steps = [float_or_nan(run.summary.get("steps", run.series.last(STEP))) for run in group.runs]
    seconds = [float_or_nan(run.summary.get("seconds", run.series.last(SECONDS))) for run in group.runs]
    speeds = sorted(v for run in group.runs for v in run.series.get(STEPS_PER_SECOND) if math.isfinite(v))
    speed = format_rate(speeds[len(speeds) // 2]) if speeds else "–"
    whole, reuse = (
        mean_of_finite([float_or_nan(run.summary.get(name)) for run in group.runs])
        for name in ("wall_steps_per_second", "reuse")
    )
    return (
        format_count(mean_of_finite(steps)),
        format_duration(mean_of_finite(seconds)),
        speed,
        format_rate(whole),
        format_rate(reuse),
    )
