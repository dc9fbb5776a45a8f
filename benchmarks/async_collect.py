"""Collectors that do not wait, beside lock-step: transitions per second at the same ratio, and what is learned.

    python benchmarks/async_collect.py --parts sleeping --json benchmarks/results/async-sleeping-2cores.json
    python benchmarks/async_collect.py --parts learning --json benchmarks/results/async-learning-2cores.json
    .venv-packages/bin/python benchmarks/async_collect.py --parts simulators --json …/async-simulators-2cores.json

sleeping    steps of 5 ms, one in 50 of 200 ms: the environment sleeps, so 8 workers do not need 8 cores
learning    CartPole with a tenth of these times, trained to the preset's end: scores at equal transitions
simulators  SUMO (sumo-rl, eclipse-sumo) and a power grid (grid2op): they compute, so cores are the limit

The ways take turns, each training in a process of its own, and the median of the rounds counts. Both have the same
environments, worker processes, ratio and batch. A rate is that of a run's windows, without start-up and evaluation.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from measure import context, train_apart, write_json

WAYS = {
    "lock-step": {"env.vectorization": "async", "env.collect": "lockstep"},
    "async": {"env.vectorization": "async", "env.collect": "async"},
}
COMMON: dict[str, Any] = {
    "device": "cpu",
    "runtime.mode": "eager",
    "learn.starts": 200,
    "eval.every": 0,
    "eval.episodes": 2,
    "log.tensorboard": False,
    "log.game": False,
    "log.checkpoint_every": 0,
}
BEFORE = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["sleeping"], choices=list(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of training, per round")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--simulators", nargs="+", default=["SUMO", "grid2op"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = {part: PARTS[part](options) for part in options.parts}
    if options.json:
        write_json(options.json, {**context("cpu"), "workers": options.workers, **found})


def train(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The summary of a training in a process of its own."""
    folder = tempfile.mkdtemp(prefix="flashdqn-async-")
    try:
        train_apart(name, COMMON | settings, folder, BEFORE)  # simulators print, too: the folder is asked
        (written,) = Path(folder).glob("*/summary.json")
        summary: dict[str, Any] = json.loads(written.read_text(encoding="utf-8"))
        return summary
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compare(title: str, name: str, settings: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Transitions per second of both ways."""
    settings = {"max_time": options.seconds, "env.workers": options.workers} | settings
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    told: dict[str, Any] = {}
    for number in range(options.rounds):
        for way, own in WAYS.items():
            summary = train(name, settings | own | {"seed": number})
            rates[way].append(summary["window_steps_per_second"] or 0.0)
            told = summary.get("collectors", told)
            print(f"  round {number + 1}  {way:<10} {rates[way][-1]:>8,.0f} transitions/s", flush=True)
    medians = {way: statistics.median(found) for way, found in rates.items()}
    times = medians["async"] / max(1e-9, medians["lock-step"])
    print(
        f"{title}: lock-step {medians['lock-step']:,.0f}, async {medians['async']:,.0f} transitions/s: {times:.1f} "
        f"times; policy lag {told['mean_lag']} updates, at most {told['most_lag']}",
        flush=True,
    )
    found = {"title": title, "rates": rates, "medians": medians, "times": times}
    return found | {"settings": settings, "collectors": told}


def measure_sleeping(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One environment for each worker, and two."""
    rows = []
    for envs in (options.workers, 2 * options.workers):
        settings = {"envs": envs, "train_ratio": 0.25, "log.every": 500, "env.max_steps": 100}
        title = f"{envs} environments that sleep, {options.workers} workers"
        rows.append(compare(title, "gym:async_envs:make_sleepy", settings, options))
    return rows


def measure_learning(options: argparse.Namespace) -> dict[str, Any]:
    """Scores after the same number of transitions, by the settings of the preset cartpole."""
    scores: dict[str, list[float]] = {way: [] for way in WAYS}
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    lags = []
    for seed in range(options.seeds):
        for way, own in WAYS.items():
            settings = own | {
                "seed": seed,
                "env.id": "async_envs:make_sleepy",
                "env.max_steps": 500,
                "env.kwargs": {"seconds": 0.0005, "tail": 0.02, "every": 50},
                "env.workers": options.workers,
                "learn.starts": 1000,
                "eval.every": 10_000,
                "eval.episodes": 10,
                "eval.max_share": 1.0,
                "runtime.mode": "auto",
            }
            summary = train("cartpole", settings)
            scores[way].append(summary["evaluation"]["mean_score"])
            seconds[way].append(summary["time"]["training"])
            if "collectors" in summary:
                lags.append(summary["collectors"]["mean_lag"])
            print(
                f"  seed {seed}  {way:<10} score {scores[way][-1]:.1f}, {seconds[way][-1]:.0f} s", flush=True
            )
    return {"scores": scores, "training_seconds": seconds, "mean_lags": lags}


def measure_simulators(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Real simulators, one in each worker."""
    settings = {"envs": options.workers, "train_ratio": 0.25, "learn.starts": 100, "log.every": 200}
    makers = {"SUMO": "make_traffic", "grid2op": "make_power_grid"}
    return [compare(name, f"gym:async_envs:{makers[name]}", settings, options) for name in options.simulators]


PARTS = {"sleeping": measure_sleeping, "learning": measure_learning, "simulators": measure_simulators}


if __name__ == "__main__":
    main()
