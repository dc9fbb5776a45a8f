"""The charts of a run's report: how it learned, how its games ended, where its time and memory went."""

from __future__ import annotations

import math
from collections.abc import Sequence

from flashdqn.runs.columns import (
    EPS,
    GPU_PERCENT,
    LENGTH,
    LOSS,
    LR,
    MEMORY_MB,
    PHASE_ABOUT,
    PHASE_PREFIX,
    POLICY_LAG,
    RETURN,
    SCORE,
    STEP,
    STEPS_PER_SECOND,
    US_TOTAL,
    Column,
    ColumnKind,
    Q,
)
from flashdqn.show.chart_axis import STEPS
from flashdqn.show.charts import (
    Layer,
    Panel,
    draw_legend_patch,
    draw_line_chart,
    draw_stacked_bar,
    draw_stacked_chart,
)
from flashdqn.show.numbers import format_bytes, format_duration, format_percent, format_rate
from flashdqn.show.overlay import Curve, draw_overlay_chart
from flashdqn.show.page import escape
from flashdqn.show.report_files import RunFiles
from flashdqn.show.report_series import Series

BLUE, RUST, GREEN, OCHRE, PURPLE, GREY = "#2f8fb0", "#c8553d", "#4c9a6a", "#c9922e", "#8a6bb8", "#8a96a5"
COLORS = (BLUE, OCHRE, RUST, GREEN, PURPLE, "#7cc0cf", "#d1678f", "#7f8fd1", "#8c6d46", GREY)

REST = "rest"  # the rest of a window's time
REST_ABOUT = "the loop around all that"


def draw_learning_charts(run: RunFiles) -> str:
    """Draw score, loss, values, exploration and episodes over transitions."""
    series = run.series
    charts = [
        _draw_score_chart(run),
        _draw_column_panels("Loss and values", series, ((LOSS, RUST), (Q, PURPLE))),
        _draw_episode_chart(series),
    ]
    charts += [_draw_column_panels("Exploration and learning rate", series, ((EPS, OCHRE), (LR, GREEN)))]
    return _arrange_charts(charts)


def draw_outcome_charts(run: RunFiles) -> str:
    """Draw the outcomes of the games over time: a stack of how they ended, and the task's own figures."""
    series = run.series
    if not series.length:
        return ""
    causes = series.columns.of_kind(ColumnKind.CAUSE)
    if not are_shares(series, causes):
        return _arrange_charts(
            _draw_figure_charts(series, series.columns.of_kind(ColumnKind.CAUSE, ColumnKind.OUTCOME))
        )
    charts = [_draw_endings_chart("While exploring", series, causes)]
    evaluated = run.evaluation_series
    endings = evaluated.columns.of_kind(ColumnKind.CAUSE)
    if evaluated.length > 1 and are_shares(evaluated, endings):
        charts.append(_draw_endings_chart("In evaluation, without exploring", evaluated, endings))
    return _arrange_charts(
        [*charts, *_draw_figure_charts(series, series.columns.of_kind(ColumnKind.OUTCOME))]
    )


def draw_other_charts(run: RunFiles) -> str:
    """Draw unknown columns, for example those of a later version."""
    return _arrange_charts(_draw_figure_charts(run.series, run.series.columns.of_kind(ColumnKind.OTHER)))


def are_shares(series: Series, columns: Sequence[Column]) -> bool:
    """Whether columns can be drawn as parts of a whole: not all are empty, and their sum is never above 1."""
    rows = list(zip(*map(series.get, columns), strict=True))
    known = [row for row in rows if all(map(math.isfinite, row))]
    return any(map(any, known)) and all(min(row) >= 0 and sum(row) <= 1 + 1e-3 for row in known)


def _draw_figure_charts(series: Series, columns: Sequence[Column]) -> list[str]:
    """Draw three columns per chart."""
    groups = [columns[k : k + 3] for k in range(0, len(columns), 3)]
    return [
        _draw_column_panels(
            ", ".join(column.name for column in group), series, list(zip(group, COLORS, strict=False))
        )
        for group in groups
    ]


def _draw_endings_chart(title: str, series: Series, columns: Sequence[Column]) -> str:
    layers = [
        Layer(column.name, [v if math.isfinite(v) else 0.0 for v in series.get(column)], color)
        for column, color in zip(columns, _cycle_colors(len(columns)), strict=True)
    ]
    seen = [layer for layer in layers if max(layer.shares) > 0]
    return draw_stacked_chart(title, series.spans, seen, STEPS, "share of the games")


def draw_cost_charts(run: RunFiles) -> str:
    """Draw throughput, memory and phases over transitions."""
    series = run.series
    charts = []
    panels = []
    if series.has(STEPS_PER_SECOND):
        panels.append(Panel("transitions/s, by window", series.get(STEPS_PER_SECOND), BLUE, format_rate))
    if series.has(MEMORY_MB):
        sizes = [value * 1e6 for value in series.get(MEMORY_MB)]
        panels.append(Panel("memory, GB", sizes, PURPLE, format_bytes, 1e9))
    if series.has(GPU_PERCENT):
        panels.append(Panel("GPU busy, %", series.get(GPU_PERCENT), GREEN, format_rate))
    if series.has(POLICY_LAG):
        panels.append(Panel("policy lag, updates", series.get(POLICY_LAG), RUST, format_rate))
    if panels:
        charts.append(draw_line_chart("Throughput and memory", series.spans, panels, STEPS))
    names, table = compute_phase_shares(series)
    if names:
        layers = [
            Layer(name, [row[k] for row in table], color)
            for k, (name, color) in enumerate(zip(names, _cycle_colors(len(names)), strict=True))
        ]
        charts.append(draw_stacked_chart("Time by phase", series.spans, layers, STEPS))
    return _arrange_charts(charts)


def draw_phase_summary(run: RunFiles) -> str:
    """Draw the whole run's time by phase, with a table of the numbers."""
    series = run.series
    names, table = compute_phase_shares(series)
    if not names:
        return ""
    transitions = [span.end - span.start for span in series.spans]
    totals = series.get(US_TOTAL)
    seconds = [
        sum(row[k] * total * n for row, total, n in zip(table, totals, transitions, strict=True) if total > 0)
        / 1e6
        for k in range(len(names))
    ]
    whole = sum(seconds) or 1.0
    abouts = PHASE_ABOUT | {REST: REST_ABOUT}
    layers = [Layer(n, [s], c) for n, s, c in zip(names, seconds, _cycle_colors(len(names)), strict=True)]
    rows = "".join(
        f"<tr><td>{draw_legend_patch(layer.color)}{escape(layer.name)}</td>"
        f"<td>{format_duration(layer.shares[0])}</td>"
        f"<td>{escape(format_percent(layer.shares[0] / whole))}</td>"
        f'<td class="about">{escape(abouts.get(layer.name, ""))}</td></tr>'
        for layer in layers
    )
    head = "<tr><th>phase</th><th>time</th><th>share</th><th>what it is</th></tr>"
    return draw_stacked_bar("Time by phase", layers) + f"<table>{head}{rows}</table>"


def compute_phase_shares(series: Series) -> tuple[list[str], list[list[float]]]:
    """Names of the phases, and their shares of each window's training time; the remainder is `rest`."""
    phases, totals = series.phases, series.get(US_TOTAL)
    if not phases or not series.has(US_TOTAL):
        return [], []
    rows = []
    for k, total in enumerate(totals):
        times = [series.get(phase)[k] for phase in phases]
        parts = [max(0.0, time) if math.isfinite(time) else 0.0 for time in times]
        whole = max(total if math.isfinite(total) else 0.0, sum(parts), 1e-12)
        shares = [part / whole for part in parts]
        rows.append([*shares, max(0.0, 1 - sum(shares))])
    return [*(phase.name.removeprefix(PHASE_PREFIX) for phase in phases), REST], rows


def _draw_score_chart(run: RunFiles) -> str:
    series = run.series
    curves = []
    if series.has(series.score):
        curves.append(Curve("while exploring", GREY, series.get(STEP), series.get(series.score), faint=True))
    steps, scores, spread = run.evaluated()
    if steps:
        low = [score - half for score, half in zip(scores, spread, strict=True)]
        high = [score + half for score, half in zip(scores, spread, strict=True)]
        curves.append(
            Curve("evaluation, ε = 0, with its 95% interval", BLUE, steps, scores, low, high, dots=True)
        )
    measured = f"mean {series.score.name} of a game"
    return draw_overlay_chart("Score", measured, curves, STEPS, format_rate) if curves else ""


def _draw_episode_chart(series: Series) -> str:
    panels = []
    if series.has(LENGTH):
        panels.append(Panel("mean episode length, steps", series.get(LENGTH), OCHRE, format_rate))
    if series.has(RETURN) and series.has(SCORE):
        panels.append(Panel(RETURN.label, series.get(RETURN), GREEN, format_rate))
    return draw_line_chart("Episodes", series.spans, panels, STEPS) if panels else ""


def _draw_column_panels(title: str, series: Series, columns: Sequence[tuple[Column, str]]) -> str:
    panels = [
        Panel(column.label, series.get(column), color, format_rate)
        for column, color in columns
        if series.has(column)
    ]
    return draw_line_chart(title, series.spans, panels, STEPS) if panels else ""


def _cycle_colors(count: int) -> list[str]:
    return [COLORS[k % len(COLORS)] for k in range(count)]


def _arrange_charts(charts: Sequence[str]) -> str:
    drawn = [chart for chart in charts if chart]
    return f'<div class="charts">{"".join(drawn)}</div>' if drawn else ""
