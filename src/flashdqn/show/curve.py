"""The learning curve as a picture."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

from flashdqn.core.errors import ConfigError
from flashdqn.core.files import replace_file
from flashdqn.runs.tables import read_evaluations, read_metrics


def draw_curve(run: Path) -> Path | None:
    """Write curve.png into a run folder."""
    figure = make_curve_figure(run)
    if figure is None:
        return None
    path = run / "curve.png"
    with replace_file(path) as temporary:
        figure.savefig(temporary, dpi=130)
    return path


def make_curve_figure(run: Path) -> Any:
    """A figure of matplotlib: score while exploring and in evaluation, and throughput. None before the first
    report."""
    rows, evaluations = read_metrics(run), read_evaluations(run)
    if not rows:
        return None
    figure = _make_empty_figure()
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    steps = [limit_number(row.step / 1e6) for row in rows]
    explored = [limit_number(row.return_ if row.score is None else row.score) for row in rows]
    top.plot(steps, explored, color="#9aa7b5", lw=1, label="while exploring")
    if evaluations:
        at = [limit_number(row.step / 1e6) for row in evaluations]
        scores = [limit_number(row.mean_score) for row in evaluations]
        errors = [abs(limit_number(1.96 * row.score_error)) for row in evaluations]
        label = f"evaluation, {evaluations[0].episodes} games, ε = 0 (95 %)"
        top.errorbar(at, scores, errors, color="#1f6f8b", lw=2, marker="o", ms=4, capsize=2, label=label)
    top.set_ylabel("mean return" if rows[0].score is None else "mean score")
    top.set_title(run.name, loc="left", fontsize=10, parse_math=False)
    top.legend(loc="lower right", frameon=False)
    bottom.plot(steps, [limit_number(row.steps_per_second / 1e3) for row in rows], color="#c8553d", lw=1)
    bottom.set_ylabel("1000 steps/s")
    bottom.set_xlabel("million transitions")
    bottom.set_ylim(bottom=0)
    for axes in (top, bottom):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _make_empty_figure() -> Any:
    """A figure that draws itself in a notebook, without pyplot."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("matplotlib is not installed: pip install matplotlib") from None

    class CurveFigure(Figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=110)
            return buffer.getvalue()

    figure = CurveFigure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def limit_number(value: float) -> float:
    """The value if it can be drawn, else NaN: the sums of a drawing library overflow."""
    return value if abs(value) < 1e30 else math.nan
