"""Draw the charts of the docs from the files in benchmarks/results: python docs/make_charts.py [NAME …].

Each chart shows what its result file holds, and nothing else. The names are those of the pictures in docs/images.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
IMAGES, RESULTS = ROOT / "docs" / "images", ROOT / "benchmarks" / "results"
OURS, PLAIN, DARK = "#d95f02", "#7a8ca3", "#4a5a70"

sys.path.append(str(ROOT / "benchmarks"))  # for their own functions: intervals, the table of published scores


def read(name: str) -> dict[str, Any]:
    """A result file."""
    data: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return data


def new_figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.tick_params(labelsize=9)


def draw_peers(path: Path) -> None:
    """Transitions per second beside other libraries."""
    from throughput import draw

    data = read("throughput-2cores")
    draw(data["results"], f"{data['device']}, {data['cores']} cores", path)


def draw_quality(path: Path) -> None:
    """Scores of every algorithm with their intervals, and what others have published."""
    from quality import PUBLISHED, SETTINGS, interval

    rows = read("quality")["results"]
    figure = new_figure(10, 4.2)
    panels = figure.subplots(1, 2, sharey=True)
    names = sorted({row["algo"] for row in rows}, reverse=True)
    for axes, features in zip(panels, ("basic", "flood"), strict=True):
        for place, algo in enumerate(names):
            cell = [row["score"] for row in rows if (row["algo"], row["features"]) == (algo, features)]
            mean, half = interval(cell)
            axes.errorbar(mean, place, xerr=half, fmt="o", color=OURS, capsize=3, label="here")
            if (algo, features) in PUBLISHED:
                axes.plot(PUBLISHED[algo, features], place, "D", color=PLAIN, ms=5, label="published")
        axes.set_yticks(range(len(names)), names)
        axes.set_xlim(left=0)
        axes.set_title(f"{features} features", fontsize=10, loc="left")
        axes.set_xlabel("mean score over 1000 fresh games, 95 % interval over 5 seeds", fontsize=9)
        tidy(axes)
    labels = dict(zip(*panels[0].get_legend_handles_labels()[::-1], strict=True))
    panels[0].legend(labels.values(), labels.keys(), frameon=False, fontsize=9, loc="upper left")
    figure.suptitle(f"Snake 10x10 after 3000 episodes, train ratio {SETTINGS['train_ratio']}", fontsize=10)
    figure.savefig(path, dpi=150)


def draw_curves(path: Path) -> None:
    """Learning curves of snake-flood: plain settings, and those of the preset."""
    plain = read("curves-sag-1")["results"]["device=cpu,learn.huber=1"]
    preset = read("curves-sag-2")["results"][
        "device=cpu,learn.huber=10,learn.gamma=0.995,learn.lr_end=0.00005,learn.lr_over=3000000"
    ]
    figure = new_figure(8, 3.8)
    axes = figure.subplots()
    named = (("the preset: the learning rate falls", preset, OURS), ("constant learning rate", plain, DARK))
    for label, runs, color in named:
        curves = [list(zip(*run["evaluations"], strict=True)) for run in runs]
        for steps, scores in curves:
            axes.plot([step / 1e6 for step in steps], scores, color=color, lw=0.8, alpha=0.4)
        mean = [statistics.fmean(scores) for scores in zip(*(scores for _, scores in curves), strict=True)]
        axes.plot([step / 1e6 for step in curves[0][0]], mean, color=color, lw=2.2, marker=".", label=label)
    axes.axvline(2.5, color=PLAIN, lw=1, ls="--")
    axes.annotate("the preset stops here", (2.5, 27.5), xytext=(4, 0), textcoords="offset points", fontsize=9)
    axes.set_xlabel("million transitions")
    axes.set_ylabel("mean score over 100 games")
    axes.set_title("snake-flood, train ratio 1/32: three seeds and their mean", fontsize=10, loc="left")
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 0.1))
    tidy(axes)
    figure.savefig(path, dpi=150)


def draw_envs(path: Path) -> None:
    """The games alone, by features and machine."""
    figure = new_figure(10, 3)
    machines = (("envs-2cores", 4096, "eager", "two cores"), ("envs-h200", 65_536, "graph", "H200"))
    for axes, (name, boards, mode, machine) in zip(figure.subplots(1, 2), machines, strict=True):
        wanted = (boards, "random", mode)
        rows = [row for row in read(name)["results"] if (row["boards"], row["player"], row["mode"]) == wanted]
        names = [row["features"] for row in rows][::-1]
        speeds = [row["transitions_per_second"] / 1e6 for row in rows][::-1]
        bars = axes.barh(names, speeds, color=OURS)
        axes.bar_label(bars, [f"{speed:,.0f}" for speed in speeds], padding=4, fontsize=9)
        axes.margins(x=0.15)
        axes.set_title(f"{machine}, {boards:,} boards, random play", fontsize=10, loc="left")
        axes.set_xlabel("million transitions per second", fontsize=9)
        tidy(axes)
        axes.grid(visible=False)
    figure.savefig(path, dpi=150)


def draw_turns(path: Path) -> None:
    """The start of a run and the end of 50,000 episodes, round by round."""
    rounds = read("flatness_turns")["rounds"]
    figure = new_figure(8, 3.2)
    axes = figure.subplots()
    for name, label, color in (("first", "first 1,000 episodes", PLAIN), ("last", "last 1,000", OURS)):
        costs = [turn[name] for turn in rounds]
        axes.plot(range(1, len(costs) + 1), costs, "o", color=color, label=label)
        axes.axhline(statistics.median(costs), color=color, lw=1.4)
    axes.set_ylim(0, 1.15 * max(turn[name] for turn in rounds for name in ("first", "last")))
    axes.set_xticks(range(1, len(rounds) + 1))
    axes.set_xlabel("round (lines: medians)")
    axes.set_ylabel("µs per transition")
    axes.set_title("snake-flood, 50,000 episodes, one thread of two cores", fontsize=10, loc="left")
    axes.legend(frameon=False, loc="lower right")
    tidy(axes)
    figure.savefig(path, dpi=150)


def draw_ratios(path: Path) -> None:
    """Snake with flood-fill by train ratio: after so many transitions, and after so many seconds on two cores."""
    from ratios import PRESETS, RATIOS, read_rates, score_at

    runs, speed = read("ratios")["runs"], read("ratios-speed-2cores")
    figure = new_figure(10, 6.4)
    panels = figure.subplots(2, 2, sharey="row")
    colors = [matplotlib.colormaps["viridis"](k / len(RATIOS)) for k in range(len(RATIOS))]
    for row, preset in zip(panels, PRESETS, strict=True):
        rates = read_rates(speed, preset)
        for ratio, color in zip(RATIOS, colors, strict=True):
            own = [run for run in runs if run["preset"] == preset and run["ratio"] == ratio]
            steps = [step for step, _ in own[0]["evaluations"]]
            scores = [statistics.fmean(score_at(run, step * 0.999) for run in own) for step in steps[:-1]]
            row[0].plot([step / 1e6 for step in steps[:-1]], scores, color=color, label=f"{ratio:g}")
            row[1].plot([step / rates[ratio] for step in steps[:-1]], scores, color=color)
        row[0].set_ylabel(f"{preset}: mean score")
        for axes, label in zip(row, ("million transitions", "seconds of training on two cores"), strict=True):
            axes.set(xscale="log", xlabel=label)
            tidy(axes)
    panels[0, 0].legend(title="train ratio", fontsize=8, title_fontsize=8)
    figure.savefig(path, dpi=110)


CHARTS: dict[str, Callable[[Path], None]] = {
    "throughput": draw_peers,
    "quality": draw_quality,
    "snake-curves": draw_curves,
    "envs": draw_envs,
    "flatness-turns": draw_turns,
    "ratios": draw_ratios,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CHARTS))
    for name in parser.parse_args().names or CHARTS:
        CHARTS[name](IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
