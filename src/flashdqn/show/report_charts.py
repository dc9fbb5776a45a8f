"""The charts of a run's report: how it learned, how its games ended, where its time and memory went."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
from flashdqn.show.report_files import RunFiles, float_or_nan
from flashdqn.show.report_series import Series

BLUE, RUST, GREEN, OCHRE, PURPLE, GREY = "#2f8fb0", "#c8553d", "#4c9a6a", "#c9922e", "#8a6bb8", "#8a96a5"
COLOURS = (BLUE, OCHRE, RUST, GREEN, PURPLE, "#7cc0cf", "#d1678f", "#7f8fd1", "#8c6d46", GREY)

ABOUT = {
    "act": "choosing actions",
    "step": "the games",
    "append": "storing transitions",
    "sample": "drawing batches",
    "update": "gradient steps",
    "collect": "act, step and append, as one CUDA graph",
    "learn": "sample and update, as CUDA graphs",
    "rest": "the loop around all that",
}


def draw_learning_charts(run: RunFiles) -> str:
    """Score, loss and values, exploration, episodes: over transitions."""
    series = run.series
    charts = [
        _draw_score_chart(run),
        _draw_column_panels("Loss and values", series, (("loss", RUST), ("q", PURPLE))),
        _draw_episode_chart(series),
    ]
    charts += [_draw_column_panels("Exploration and learning rate", series, (("eps", OCHRE), ("lr", GREEN)))]
    return _arrange_charts(charts)


def draw_outcome_charts(run: RunFiles) -> str:
    """How games ended over time: a stack where each game has one end, else the task's own figures."""
    series, names = run.series, run.series.outcomes
    if not names or not series.length:
        return ""
    if outcomes_sum_to_one(series, names):
        charts = [_draw_endings_chart("While exploring", series, names)]
        evaluated = evaluation_series(run)
        if evaluated.length > 1 and outcomes_sum_to_one(evaluated, names):
            charts.append(_draw_endings_chart("In evaluation, without exploring", evaluated, names))
        return _arrange_charts(charts)
    groups = [names[k : k + 3] for k in range(0, len(names), 3)]
    return _arrange_charts(
        [
            _draw_column_panels(", ".join(group), series, list(zip(group, COLOURS, strict=False)))
            for group in groups
        ]
    )


def outcomes_sum_to_one(series: Series, names: Sequence[str]) -> bool:
    """Whether some outcomes are shares of a whole."""
    totals = [sum(series.get(name)[k] for name in names) for k in range(series.length)]
    known = [total for total in totals if math.isfinite(total)]
    return bool(known) and all(abs(total - 1) < 1e-3 for total in known)


def evaluation_series(run: RunFiles) -> Series:
    """The evaluations as columns."""
    rows = run.evaluations
    names = list(rows[0]) if rows else []
    return Series({name: [float_or_nan(row.get(name)) for row in rows] for name in names}, len(rows))


def _draw_endings_chart(title: str, series: Series, names: Sequence[str]) -> str:
    layers = [
        Layer(name, [value if math.isfinite(value) else 0.0 for value in series.get(name)], colour)
        for name, colour in zip(names, _cycle_colors(len(names)), strict=True)
    ]
    seen = [layer for layer in layers if max(layer.shares) > 0]
    return draw_stacked_chart(title, series.spans(), seen, STEPS, "share of the games")


def draw_cost_charts(run: RunFiles) -> str:
    """Throughput, memory and phases: over transitions."""
    series = run.series
    charts = []
    panels = []
    if series.has("steps_per_second"):
        panels.append(Panel("transitions/s, by window", series.get("steps_per_second"), BLUE, format_rate))
    if series.has("memory_mb"):
        sizes = [value * 1e6 for value in series.get("memory_mb")]
        panels.append(Panel("memory, GB", sizes, PURPLE, format_bytes, 1e9))
    if panels:
        charts.append(draw_line_chart("Throughput and memory", series.spans(), panels, STEPS))
    names, table = compute_phase_shares(series)
    if names:
        layers = [
            Layer(name, [row[k] for row in table], colour)
            for k, (name, colour) in enumerate(zip(names, _cycle_colors(len(names)), strict=True))
        ]
        charts.append(draw_stacked_chart("Time by phase", series.spans(), layers, STEPS))
    return _arrange_charts(charts)


def draw_phase_summary(run: RunFiles) -> str:
    """The whole run's time by phase, and the same in numbers."""
    series = run.series
    names, table = compute_phase_shares(series)
    if not names:
        return ""
    transitions = [span.end - span.start for span in series.spans()]
    totals = series.get("us_total")
    seconds = [
        sum(row[k] * total * n for row, total, n in zip(table, totals, transitions, strict=True) if total > 0)
        / 1e6
        for k in range(len(names))
    ]
    whole = sum(seconds) or 1.0
    layers = [Layer(n, [s], c) for n, s, c in zip(names, seconds, _cycle_colors(len(names)), strict=True)]
    rows = "".join(
        f"<tr><td>{draw_legend_patch(layer.colour)}{escape(layer.name)}</td>"
        f"<td>{format_duration(layer.shares[0])}</td>"
        f"<td>{escape(format_percent(layer.shares[0] / whole))}</td>"
        f"<td>{escape(ABOUT.get(layer.name, ''))}</td></tr>"
        for layer in layers
    )
    head = "<tr><th>phase</th><th>time</th><th>share</th><th>what it is</th></tr>"
    return draw_stacked_bar("Time by phase", layers) + f"<table>{head}{rows}</table>"


def compute_phase_shares(series: Series) -> tuple[list[str], list[list[float]]]:
    """Names of the phases, and for each window their shares of its training time; what is left is `rest`."""
    phases, totals = series.phases, series.get("us_total")
    if not phases or not series.has("us_total"):
        return [], []
    rows = []
    for k, total in enumerate(totals):
        parts = [
            max(0.0, series.get(name)[k]) if math.isfinite(series.get(name)[k]) else 0.0 for name in phases
        ]
        whole = max(total if math.isfinite(total) else 0.0, sum(parts), 1e-12)
        shares = [part / whole for part in parts]
        rows.append([*shares, max(0.0, 1 - sum(shares))])
    return [*(name.removeprefix("us_") for name in phases), "rest"], rows


def _draw_score_chart(run: RunFiles) -> str:
    series = run.series
    name = "score" if series.has("score") else "return"
    curves = []
    if series.has(name):
        curves.append(Curve("while exploring", GREY, series.get("step"), series.get(name), faint=True))
    steps, scores, spread = run.evaluated()
    if steps:
        low = [score - half for score, half in zip(scores, spread, strict=True)]
        high = [score + half for score, half in zip(scores, spread, strict=True)]
        curves.append(
            Curve("evaluation, ε = 0, with its 95% interval", BLUE, steps, scores, low, high, dots=True)
        )
    return draw_overlay_chart("Score", f"mean {name} of a game", curves, STEPS, format_rate) if curves else ""


def _draw_episode_chart(series: Series) -> str:
    panels = []
    if series.has("length"):
        panels.append(Panel("mean episode length, steps", series.get("length"), OCHRE, format_rate))
    if series.has("return") and series.has("score"):
        panels.append(Panel("mean return of an episode", series.get("return"), GREEN, format_rate))
    return draw_line_chart("Episodes", series.spans(), panels, STEPS) if panels else ""


NAMES = {
    "loss": "loss",
    "q": "mean Q-value of a batch",
    "eps": "ε, mean over the boards",
    "lr": "learning rate",
}


def _draw_column_panels(title: str, series: Series, columns: Sequence[tuple[str, str]]) -> str:
    panels = [
        Panel(NAMES.get(n, n), series.get(n), colour, format_rate) for n, colour in columns if series.has(n)
    ]
    return draw_line_chart(title, series.spans(), panels, STEPS) if panels else ""


def _cycle_colors(count: int) -> list[str]:
    return [COLOURS[k % len(COLOURS)] for k in range(count)]


def _arrange_charts(charts: Sequence[str]) -> str:
    drawn = [chart for chart in charts if chart]
    return f'<div class="charts">{"".join(drawn)}</div>' if drawn else ""
