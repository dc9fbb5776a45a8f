"""The learning curve as a picture."""

from __future__ import annotations

from pathlib import Path

from flashdqn.runs.folder import read_table


def draw_curve(run: Path) -> Path | None:
    """Write curve.png into a run folder: score while exploring and in evaluation, and throughput."""
    rows = read_table(run / "metrics.csv")
    evaluations = read_table(run / "evaluations.csv")
    if not rows:
        return None
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    steps = [int(row["step"]) / 1e6 for row in rows]
    name = "score" if "score" in rows[0] else "return"
    top.plot(steps, [float(row[name]) for row in rows], color="#9aa7b5", lw=1, label="while exploring")
    if evaluations:
        at = [int(row["step"]) / 1e6 for row in evaluations]
        scores = [float(row["mean_score"]) for row in evaluations]
        errors = [1.96 * float(row["score_error"]) for row in evaluations]
        games = evaluations[0]["episodes"]
        label = f"evaluation, {games} games, ε = 0 (95 %)"
        top.errorbar(at, scores, errors, color="#1f6f8b", lw=2, marker="o", ms=4, capsize=2, label=label)
    top.set_ylabel(f"mean {name}")
    top.set_title(run.name, loc="left", fontsize=10)
    top.legend(loc="lower right", frameon=False)
    bottom.plot(steps, [float(row["steps_per_second"]) / 1e3 for row in rows], color="#c8553d", lw=1)
    bottom.set_ylabel("1000 steps/s")
    bottom.set_xlabel("million transitions")
    bottom.set_ylim(bottom=0)
    for axes in (top, bottom):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    path = run / "curve.png"
    figure.savefig(path, dpi=130)
    return path
