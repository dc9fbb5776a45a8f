"""The learning curve of every algorithm on Snake 10x10: the score without exploration, by transitions.

    python benchmarks/algorithms.py                    # two seeds each; continues where it stopped
    python benchmarks/algorithms.py --algos dqn rainbow --seeds 5 --device cuda
    python benchmarks/algorithms.py --pictures docs/images    # only draw, from what was measured

The settings are those of benchmarks/quality.py, except for the budget. A picture has an algorithm's curves beside
DQN's on the left, and on the right the scores of benchmarks/quality.py after 3000 episodes, a dot for each seed.
Every training runs in its own process, and is written to the file as soon as it is done.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flashdqn.learn.algorithms import ALGORITHMS
from flashdqn.runs.tables import read_evaluations
from measure import context, train_apart, write_json
from quality import RESULTS as QUALITY
from quality import SETTINGS

RESULTS = Path(__file__).parent / "results" / "algorithms.json"
OURS, OTHER, INK = "#3f51b5", "#9aa0a6", "#444444"

Row = dict[str, Any]


def settings(steps: int, every: int) -> Row:
    """The settings of the table, with a budget of transitions and regular evaluations."""
    fixed = {name: value for name, value in SETTINGS.items() if name != "episodes"}
    return fixed | {"steps": steps, "eval.every": every, "eval.episodes": 100, "runtime.mode": "eager"}


def train(algo: str, seed: int, device: str, common: Row) -> Row:
    """The evaluations of one training."""
    with tempfile.TemporaryDirectory() as out:
        path = train_apart("snake", common | {"algo": algo, "seed": seed, "device": device}, out)
        rows = [[row.step, row.mean_score] for row in read_evaluations(path)]
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    return {"algo": algo, "seed": seed, "seconds": summary["seconds"], "evaluations": rows}


def curves(rows: Iterable[Row], algo: str) -> list[tuple[list[float], list[float]]]:
    """Thousand transitions and scores, by seed."""
    return [
        ([step / 1000 for step, _ in row["evaluations"]], [score for _, score in row["evaluations"]])
        for row in rows
        if row["algo"] == algo
    ]


def mean_curve(seeds: list[tuple[list[float], list[float]]]) -> tuple[list[float], list[float]]:
    """Mean over seeds, up to the shortest one: evaluations come after almost the same number of transitions."""
    length = min(len(steps) for steps, _ in seeds)
    steps = [statistics.fmean(run[0][k] for run in seeds) for k in range(length)]
    return steps, [statistics.fmean(run[1][k] for run in seeds) for k in range(length)]


def draw(path: Path, algo: str, rows: list[Row], table: list[Row]) -> None:
    """One algorithm, with DQN in gray behind it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 2.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=[2, 1])
    shown = [("dqn", OTHER)] * (algo != "dqn") + [(algo, OURS)]
    for name, color in shown:
        seeds = curves(rows, name)
        if not seeds:
            continue
        for steps, scores in seeds:
            left.plot(steps, scores, color=color, alpha=0.35, linewidth=1)
        left.plot(*mean_curve(seeds), color=color, linewidth=2, label=name)
    left.set(xlabel="thousand transitions", ylabel="mean score, ε = 0", ylim=(0, None))
    left.legend(frameon=False, loc="best")
    for place, features in enumerate(("basic", "flood")):
        for k, (name, color) in enumerate(shown):
            scores = [row["score"] for row in table if (row["algo"], row["features"]) == (name, features)]
            at = place + (k - (len(shown) - 1) / 2) * 0.28
            right.plot([at] * len(scores), scores, ".", color=color, alpha=0.8)
            if scores:
                right.plot([at - 0.1, at + 0.1], [statistics.fmean(scores)] * 2, color=color, linewidth=2)
    right.set(xlim=(-0.6, 1.6), ylim=(0, None), title="after 3000 episodes")
    right.set_xticks([0, 1], ["basic", "flood"])
    right.title.set(fontsize=9, color=INK)
    for axes in (left, right):
        axes.grid(alpha=0.2)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=9, color=INK)
    figure.savefig(path, dpi=110)


def report(rows: list[Row]) -> None:
    """The curves as numbers: the mean over seeds at every quarter."""
    print(f"{'algorithm':<11} seeds   score at every quarter of the budget, mean over seeds")
    for algo in ALGORITHMS:
        seeds = curves(rows, algo)
        if not seeds:
            continue
        steps, scores = mean_curve(seeds)
        places = sorted({max(0, round(len(steps) * q / 4) - 1) for q in range(1, 5)})
        print(
            f"{algo:<11} {len(seeds):>5}   "
            + "  ".join(f"{scores[k]:5.1f} at {steps[k]:.0f}k" for k in places)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--algos", nargs="+", choices=list(ALGORITHMS), default=list(ALGORITHMS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=120_000)
    parser.add_argument("--every", type=int, default=10_000)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--pictures", type=Path, help="only draw, into this folder")
    given = parser.parse_args()
    data = json.loads(given.json.read_text(encoding="utf-8")) if given.json.exists() else {"results": []}
    if given.pictures:
        table = json.loads(QUALITY.read_text(encoding="utf-8"))["results"]
        for algo in ALGORITHMS:
            draw(given.pictures / f"learns-{algo}.png", algo, data["results"], table)
        report(data["results"])
        return
    common = settings(given.steps, given.every)
    if data.get("settings", common) != common:
        raise SystemExit(f"{given.json} has other settings: give another file with --json.")
    data |= context(given.device) | {"command": sys.argv[1:], "settings": common}
    done = {(row["algo"], row["seed"]) for row in data["results"]}
    for seed in range(given.seeds):
        for algo in given.algos:
            if (algo, seed) not in done:
                data["results"].append(train(algo, seed, given.device, common))
                write_json(given.json, data)
                print(algo, seed, data["results"][-1]["evaluations"][-1], flush=True)
    report(data["results"])


if __name__ == "__main__":
    main()
