"""How well every algorithm learns Snake 10x10: algorithms x feature sets, with a 95 % interval over seeds.

    python benchmarks/quality.py --jobs 2 --resume             # 3000 episodes each; continues where it stopped
    python benchmarks/quality.py --algos dqn rainbow --features flood --seeds 5
    python benchmarks/quality.py --algos iqn --device cuda     # on the GPU; several trainings share it with --jobs
    python benchmarks/quality.py --write docs/results.md       # the page, from this and benchmarks/boards.py

Every training runs in its own process, on one CPU thread or the GPU. Results are written after each, so an
interrupted run loses only what was in progress. The score is that of the best checkpoint over 1000 new
games.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

import boards
from flashdqn import load
from flashdqn.learn.algorithms import ALGORITHMS
from measure import context, train_apart, write_json

RESULTS = Path(__file__).parent / "results" / "quality.json"

#: The budget of the public figures, 3000 episodes, and settings that suit it: explore briefly, learn often.
SETTINGS: dict[str, Any] = {
    "episodes": 3000,
    "envs": 64,
    "train_ratio": 0.0625,
    "learn.starts": 2000,
    "explore.over": 50_000,
    "replay.beta_over": 500_000,
    "eval.every": 50_000,
    "eval.max_share": 1.0,
    "log.tensorboard": False,
    "log.checkpoint_every": 0,
    "runtime.threads": 1,
}
PRESETS = {"basic": "snake", "flood": "snake-flood"}

#: Mean scores after 3000 episodes that others have published for the same board, by algorithm and features.
PUBLISHED = {
    ("dqn", "basic"): 16.8,
    ("dqn", "flood"): 25.4,
    ("double", "basic"): 14.2,
    ("double", "flood"): 24.8,
    ("dueling", "basic"): 14.9,
    ("dueling", "flood"): 22.3,
    ("noisy", "basic"): 17.0,
    ("noisy", "flood"): 26.9,
    ("per", "basic"): 14.7,
    ("per", "flood"): 25.1,
    ("rainbow", "basic"): 16.2,
    ("rainbow", "flood"): 37.2,
}


def train(algo: str, features: str, seed: int, device: str) -> dict[str, Any]:
    """One cell of the table, for one seed."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        path = train_apart(PRESETS[features], SETTINGS | {"algo": algo, "seed": seed, "device": device}, out)
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        games = load(path, "cpu").evaluate(1000)
    return {
        "algo": algo,
        "features": features,
        "seed": seed,
        "score": games.mean_score,
        "transitions": summary["steps"],
        "updates": summary["updates"],
        "seconds": summary["seconds"],
        "machine": machine(device),
        "wall": time.perf_counter() - start,
    }


def machine(device: str) -> str:
    """The GPU, or the processor and its number of cores."""
    about = context(device)
    return about["device"] if device == "cuda" else f"{about['device']}, {about['cores']} cores"


def interval(values: list[float]) -> tuple[float, float]:
    """Mean and half-width of a 95 % interval (Student's t)."""
    t = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36}.get(len(values), 2.2)
    if len(values) < 2:
        return values[0], float("nan")
    return statistics.fmean(values), t * statistics.stdev(values) / len(values) ** 0.5


def page(data: dict[str, Any]) -> str:
    """docs/results.md from the results."""
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in data["results"]:
        cells.setdefault((row["algo"], row["features"]), []).append(row)
    machines = " and ".join(sorted({row["machine"] for row in data["results"]}))
    lines = [
        "# How well it learns",
        "",
        "![Scores of every algorithm, beside published ones](images/quality.png)",
        "",
        f"Snake 10x10, 3000 episodes, train ratio {SETTINGS['train_ratio']}, {SETTINGS['envs']} boards. Mean score "
        "of the best checkpoint over 1000 fresh games, with a 95 % interval over seeds. "
        f"{data['date']}, {machines}; one CPU thread or the GPU each; several trainings shared a machine.",
        "",
        "*Published*: the best figures that we know of for this board and budget; the protocol may differ. PQN has "
        "its own ratio, 1/32 here. Trainings shared their machines, so times are upper bounds.",
        "",
        "This page is made by `python benchmarks/quality.py --write docs/results.md`, from "
        "`benchmarks/results/quality.json`.",
        "",
        '<details markdown="1"><summary>All figures</summary>',
        "",
        "| algorithm | features | score | seeds | published | transitions | updates | training time |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (algo, features), rows in sorted(cells.items(), key=lambda item: (item[0][1], item[0][0])):
        mean, half = interval([row["score"] for row in rows])
        public = PUBLISHED.get((algo, features))
        median = {
            name: statistics.median(row[name] for row in rows)
            for name in ("transitions", "updates", "seconds")
        }
        lines.append(
            f"| {algo} | {features} | {mean:.1f}{f' ± {half:.1f}' if len(rows) > 1 else ''} | {len(rows)} | "
            f"{public or '–'} | "
            f"{median['transitions']:,.0f} | {median['updates']:,.0f} | {median['seconds']:.0f} s |"
        )
    lines += ["", "</details>", ""]
    if boards.RESULTS.exists():
        lines += boards.write_section(json.loads(boards.RESULTS.read_text(encoding="utf-8")), interval)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--algos", nargs="+", default=list(ALGORITHMS))
    parser.add_argument("--features", nargs="+", choices=list(PRESETS), default=list(PRESETS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--resume", action="store_true", help="keep the results in the file, and do what is missing"
    )
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--write", type=Path, help="only write the page from the file")
    arguments = parser.parse_args()
    if arguments.write:
        arguments.write.write_text(
            page(json.loads(arguments.json.read_text(encoding="utf-8"))), encoding="utf-8"
        )
        return
    data: dict[str, Any] = {**context(arguments.device), "settings": SETTINGS, "results": []}
    if arguments.resume and arguments.json.exists():
        data["results"] = json.loads(arguments.json.read_text(encoding="utf-8"))["results"]
    done = {(row["algo"], row["features"], row["seed"]) for row in data["results"]}
    work = [
        (algo, features, seed)
        for seed in range(arguments.seeds)
        for features in arguments.features
        for algo in arguments.algos
        if (algo, features, seed) not in done
    ]
    lock = threading.Lock()
    torch.set_num_threads(1)

    def cell(item: tuple[str, str, int]) -> None:
        row = train(*item, arguments.device)
        with lock:
            data["results"].append(row)
            write_json(arguments.json, data)
            name = f"{row['algo']:<11} {row['features']:<6} seed {row['seed']}"
            print(f"{name}  {row['score']:6.2f}  {row['seconds']:.0f} s", flush=True)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(cell, work))
    print(page(data))


if __name__ == "__main__":
    main()
