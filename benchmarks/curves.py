"""Learning curves side by side: the same preset on several devices, or with one setting changed, over seeds.

    python benchmarks/curves.py --preset snake --steps 1000000 --seeds 3 --variants device=cpu device=cuda
    python benchmarks/curves.py --preset snake-flood --variants learn.lr=5e-4 learn.lr=2e-4,learn.gamma=0.98

Each variant is a list of settings joined by commas. All trainings run in their own processes, `--jobs` at
a time. Prints the evaluation score by step, mean ± 95 % over seeds, and writes JSON and a picture.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from flashdqn.runs.tables import read_evaluations
from measure import context, describe_work, train_apart, write_json


def parse_variant(text: str) -> dict[str, Any]:
    """Parse 'a.b=1,c=x' into settings."""
    settings: dict[str, Any] = {}
    for pair in text.split(","):
        name, _, value = pair.partition("=")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def train(preset: str, settings: dict[str, Any]) -> dict[str, Any]:
    """One training in its own process: its evaluations and its summary."""
    with tempfile.TemporaryDirectory() as out:
        path = train_apart(preset, settings, out)
        rows = [(row.step, row.mean_score) for row in read_evaluations(path)]
        return {
            "evaluations": rows,
            "summary": json.loads((path / "summary.json").read_text(encoding="utf-8")),
        }


def interval(values: list[float]) -> str:
    """Mean ± 95 % (normal)."""
    error = 1.96 * statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{statistics.fmean(values):6.2f} ± {error:4.2f}"


def draw(path: Path, results: dict[str, list[dict[str, Any]]], title: str) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for k, (name, runs) in enumerate(results.items()):
        for number, run in enumerate(runs):
            steps, scores = zip(*run["evaluations"], strict=True)
            label = name if number == 0 else None
            axes.plot([s / 1e6 for s in steps], scores, color=f"C{k}", alpha=0.7, marker=".", label=label)
    axes.set(xlabel="million transitions", ylabel="mean score, ε = 0", title=title)
    axes.legend(frameon=False)
    axes.grid(alpha=0.25)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--preset", default="snake")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--every", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--variants", nargs="+", default=["device=cpu"])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    common = {"steps": arguments.steps, "eval.every": arguments.every, "log.tensorboard": False}
    common["eval.max_share"] = 1.0  # every point of the curve
    work = [
        (variant, common | {"seed": seed} | parse_variant(variant))
        for seed in range(arguments.seeds)
        for variant in arguments.variants
    ]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        done = list(pool.map(lambda item: train(arguments.preset, item[1]), work))
    results: dict[str, list[dict[str, Any]]] = {variant: [] for variant in arguments.variants}
    for (variant, _), result in zip(work, done, strict=True):
        results[variant].append(result)
    print(f"{arguments.preset}: evaluation score by transitions, {arguments.seeds} seeds, mean ± 95 %")
    for variant, runs in results.items():
        print(f"\n{variant}")
        for k in range(min(len(run["evaluations"]) for run in runs)):
            scores = [run["evaluations"][k][1] for run in runs]
            print(
                f"  {runs[0]['evaluations'][k][0]:>10,}  {interval(scores)}   {[round(s, 1) for s in scores]}"
            )
        final = [run["summary"]["evaluation"]["mean_score"] for run in runs]
        rates = [run["summary"]["steps"] / run["summary"]["seconds"] for run in runs]
        ratio = runs[0]["summary"]["train_ratio"]
        print(f"  best checkpoint, fresh games {interval(final)}")
        work = describe_work(ratio, runs[0]["summary"]["batch"])
        wall = statistics.median(run["summary"]["wall_steps_per_second"] for run in runs)
        print(
            f"  {statistics.median(rates):,.0f} steps/s with evaluations, {wall:,.0f} since its start, {work}"
        )
    if arguments.json:
        write_json(arguments.json, {**context("auto"), "command": sys.argv[1:], "results": results})
    if arguments.picture:
        draw(arguments.picture, results, f"{arguments.preset}, {arguments.seeds} seeds")


if __name__ == "__main__":
    main()
