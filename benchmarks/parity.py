"""Does the way of computing change what is learned? The same training by every mode and precision, over seeds.

    python benchmarks/parity.py --jobs 2                              # eager, compiled and hand-written, on the CPU
    python benchmarks/parity.py --device cuda --jobs 4                # graphs, TF32 and bf16, on the GPU
    python benchmarks/parity.py --ways native bf16 --seeds 8 --resume

Snake 10x10 with flood-fill features, double DQN, 2x256, batch 64, 64 boards, one gradient step per 16 transitions,
400,000 transitions. Two figures count: the score of the last weights (not of the best checkpoint) over 1000 new
games; and the mean score over the evaluations during training, which shows how fast it learned. Each training is a
separate process. The intervals are Student's, 95 %; the last column compares with the first way.
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
from rich.console import Console
from rich.table import Table

from flashdqn import load
from flashdqn.compute.device import choose_device
from flashdqn.runs.tables import read_evaluations
from measure import context, train_apart, write_json
from quality import interval
from scaling import machine

HERE = Path(__file__).parent
SETTINGS: dict[str, Any] = {
    "algo": "double",
    "steps": 400_000,
    "envs": 64,
    "train_ratio": 0.0625,
    "network.hidden": (256, 256),
    "learn.batch_size": 64,
    "learn.starts": 2000,
    "explore.over": 50_000,
    "eval.every": 25_000,
    "eval.max_share": 1.0,
    "log.tensorboard": False,
    "log.checkpoint_every": 0,
    "runtime.threads": 1,
}
WAYS: dict[str, dict[str, dict[str, Any]]] = {
    "cpu": {
        "eager": {"runtime.mode": "eager"},
        "compile": {"runtime.mode": "compile"},
        "native": {"runtime.mode": "native"},
        "bf16": {"runtime.mode": "compile", "runtime.precision": "bf16"},
    },
    "cuda": {
        "eager": {"runtime.mode": "eager"},
        "native": {"runtime.mode": "auto"},
        "bf16": {"runtime.mode": "auto", "runtime.precision": "bf16"},
    },
}


def train(way: str, seed: int, device: str) -> dict[str, Any]:
    """One training and its results."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        settings = SETTINGS | WAYS[device][way] | {"seed": seed, "device": device}
        path = train_apart("snake-flood", settings, out)
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        last = sorted(folder for folder in (path / "checkpoints").iterdir() if folder.is_dir())[-1]
        games = load(last, "cpu").evaluate(1000)
        scores = [row.mean_score for row in read_evaluations(path)]
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    return {
        "way": way,
        "seed": seed,
        "mode": config["hardware"]["mode"].split(" (")[0],
        "score": games.mean_score,
        "on_the_way": statistics.fmean(scores),
        "updates": summary["updates"],
        "seconds": summary["seconds"],
        "wall": time.perf_counter() - start,
    }


def table(rows: list[dict[str, Any]], title: str) -> Table:
    """A table with a line for every way."""
    grid = Table(title=title)
    for name in ("way", "mode"):
        grid.add_column(name)
    for name in ("seeds", "last score", "on the way", "against the first", "training s"):
        grid.add_column(name, justify="right")
    ways = list(dict.fromkeys(row["way"] for row in rows))
    first = {row["seed"]: row["score"] for row in rows if row["way"] == ways[0]}
    for way in ways:
        own = [row for row in rows if row["way"] == way]
        cells = []
        for key in ("score", "on_the_way"):
            mean, half = interval([row[key] for row in own])
            cells.append(f"{mean:.2f} ± {half:.2f}")
        differences = [row["score"] - first[row["seed"]] for row in own if row["seed"] in first]
        mean, half = interval(differences) if differences else (float("nan"), float("nan"))
        against = "–" if way == ways[0] else f"{mean:+.2f} ± {half:.2f}"
        seconds = statistics.median(row["seconds"] for row in own)
        grid.add_row(way, own[0]["mode"], str(len(own)), *cells, against, f"{seconds:.1f}")
    return grid


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--ways", nargs="+", help="all, if not given")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once")
    parser.add_argument("--resume", action="store_true", help="keep the results in the file")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    known = WAYS[arguments.device]
    ways = arguments.ways or list(known)
    if unknown := set(ways) - known.keys():
        parser.error(f"unknown ways {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    path = arguments.json or HERE / "results" / f"parity-{machine(choose_device(arguments.device))}.json"
    rows: list[dict[str, Any]] = []
    if arguments.resume and path.exists():
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    done = {(row["way"], row["seed"]) for row in rows}
    work = [(way, seed) for seed in range(arguments.seeds) for way in ways if (way, seed) not in done]
    lock, console = threading.Lock(), Console(width=116)
    torch.set_num_threads(1)

    def run(item: tuple[str, int]) -> None:
        row = train(*item, arguments.device)
        with lock:
            rows.append(row)
            rows.sort(key=lambda row: (list(known).index(row["way"]), row["seed"]))
            write_json(path, {**context(arguments.device), "settings": SETTINGS, "rows": rows})
            about = f"{row['way']:<8} seed {row['seed']}: {row['score']:.2f} in {row['seconds']:.0f} s"
            console.print(about, highlight=False)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(run, work))
    console.print(table(rows, "Snake 10x10, flood-fill, double DQN, 400,000 transitions, train ratio 1/16"))


if __name__ == "__main__":
    main()
