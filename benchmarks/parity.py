"""Does the way of computing change what is learned? The same training by every mode and precision, over seeds.

    python benchmarks/parity.py --jobs 2                              # eager, compiled and hand-written, on the CPU
    python benchmarks/parity.py --device cuda --jobs 4                # graphs, TF32 and bf16, on the GPU
    python benchmarks/parity.py --ways native bf16 --seeds 8 --resume
    python benchmarks/parity.py --variants                            # every algorithm, eager and fast
    python benchmarks/parity.py --variants rainbow c51 --device cuda --jobs 8

Snake 10x10 with flood-fill features, double DQN, 2x256, batch 64, 64 boards, one gradient step per 16 transitions,
400,000 transitions. Two figures count: the score of the last weights (not of the best checkpoint) over 1000 new
games; and the mean score over the evaluations during training, which shows how fast it learned. Each training is a
separate process. The intervals are Student's, 95 %; the last column compares with the first way.

`--variants` compares two ways for every algorithm, and for kept demonstrations: operation by operation, and the
fastest that there is (hand-written on the CPU where it fits, else compiled; `auto` on CUDA). These trainings are
small: 2x128, 100,000 transitions.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table

from flashdqn import load
from flashdqn.compute.device import choose_device
from flashdqn.learn.algorithms import ALGORITHMS
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
#: What trainings of variants have instead.
SMALL: dict[str, Any] = {
    "steps": 100_000,
    "network.hidden": (128, 128),
    "explore.over": 20_000,
    "replay.beta_over": 100_000,
    "eval.every": 10_000,
    "eval.episodes": 100,
}
#: Double DQN that also learns from an expert's episodes, which stay for the whole training.
SHOWN = "demonstrations"
DEMONSTRATIONS: dict[str, Any] = {
    "algo": "double",
    "demos.source": "reader",
    "demos.episodes": 64,
    "demos.keep": 10_000,
    "demos.pretrain_steps": 500,
}
VARIANTS = (*ALGORITHMS, SHOWN)
#: The expert is in a file of its own, which the training's process imports first.
WITH_EXPERT = f"import sys; sys.path.insert(0, {str(HERE)!r}); import snake_expert"
FAST = {"cpu": "native", "cuda": "auto"}
#: Student's t for 95 %, by degrees of freedom from 1 on.
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
#: Variants that are not hand-written on the CPU.
COMPILED = ("iqn",)


class Training(NamedTuple):
    """One training: of a variant, or of the plain settings, whose name is empty."""

    variant: str
    way: str
    seed: int
    steps: int = SMALL["steps"]

    def list_settings(self, device: str) -> dict[str, Any]:
        """All settings."""
        common = SETTINGS | {"seed": self.seed, "device": device}
        if not self.variant:
            return common | WAYS[device][self.way]
        chosen = DEMONSTRATIONS if self.variant == SHOWN else {"algo": self.variant}
        fast = "compile" if device == "cpu" and self.variant in COMPILED else FAST[device]
        return (
            common
            | SMALL
            | {"steps": self.steps}
            | chosen
            | {"runtime.mode": "eager" if self.way == "eager" else fast}
        )


def train(training: Training, device: str) -> dict[str, Any]:
    """One training and its results."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        before = WITH_EXPERT if training.variant == SHOWN else ""
        path = train_apart("snake-flood", training.list_settings(device), out, before)
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        last = sorted(folder for folder in (path / "checkpoints").iterdir() if folder.is_dir())[-1]
        games = load(last, "cpu").evaluate(1000)
        scores = [row.mean_score for row in read_evaluations(path)]
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    return {
        **{name: getattr(training, name) for name in ("variant", "way", "seed")},
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


def tabulate_variants(rows: list[dict[str, Any]], title: str) -> Table:
    """A line for every variant: both ways, and their difference; its interval is that of Welch's test."""
    grid = Table(title=title)
    grid.caption = "a difference is more than chance if its interval does not contain 0"
    for name in ("variant", "mode"):
        grid.add_column(name)
    for name in ("seeds", "eager", "fast", "fast - eager", "on the way", "eager s", "fast s"):
        grid.add_column(name, justify="right")
    for variant in dict.fromkeys(row["variant"] for row in rows):
        own = {
            way: [r for r in rows if (r["variant"], r["way"]) == (variant, way)] for way in ("eager", "fast")
        }
        if not all(own.values()):
            continue
        scores, early = ({w: [r[key] for r in own[w]] for w in own} for key in ("score", "on_the_way"))
        cells = ["{:.1f} ± {:.1f}".format(*interval(scores[way])) for way in own]
        cells += [
            "{:+.1f} ± {:.1f}".format(*compare_means(found["eager"], found["fast"]))
            for found in (scores, early)
        ]
        seconds = [f"{statistics.median(row['seconds'] for row in own[way]):.0f}" for way in own]
        seeds = str(min(map(len, own.values())))
        grid.add_row(variant, own["fast"][0]["mode"], seeds, *cells, *seconds)
    return grid


def compare_means(first: list[float], second: list[float]) -> tuple[float, float]:
    """The difference of two means, and half of its 95 % interval: the spreads may differ."""
    difference = statistics.fmean(second) - statistics.fmean(first)
    if min(len(first), len(second)) < 2:
        return difference, math.nan
    errors = [statistics.variance(values) / len(values) for values in (first, second)]
    total = sum(errors)
    if total == 0.0:
        return difference, 0.0
    freedom = total**2 / sum(e**2 / (len(v) - 1) for e, v in zip(errors, (first, second), strict=True))
    return difference, STUDENT[min(int(freedom), len(STUDENT)) - 1] * math.sqrt(total)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--ways", nargs="+", help="all, if not given")
    parser.add_argument(
        "--variants",
        nargs="*",
        metavar="NAME",
        help=f"algorithms instead of ways; all, if none is named: {', '.join(VARIANTS)}",
    )
    parser.add_argument(
        "--steps", type=int, default=SMALL["steps"], help="transitions of a variant's training"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once")
    parser.add_argument("--resume", action="store_true", help="keep the results in the file")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    trainings = list_trainings(arguments, parser)
    kind = "parity" if arguments.variants is None else "parity-variants"
    path = arguments.json or HERE / "results" / f"{kind}-{machine(choose_device(arguments.device))}.json"
    rows: list[dict[str, Any]] = []
    if arguments.resume and path.exists():
        rows = [{"variant": "", **row} for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]
    done = {(row["variant"], row["way"], row["seed"]) for row in rows}
    work = [training for training in trainings if training[:3] not in done]
    lock, console = threading.Lock(), Console(width=130)
    torch.set_num_threads(1)

    def run(training: Training) -> None:
        row = train(training, arguments.device)
        with lock:
            rows.append(row)
            rows.sort(key=place_of)
            small = SMALL | {"steps": arguments.steps}
            settings = SETTINGS if arguments.variants is None else SETTINGS | small
            write_json(path, {**context(arguments.device), "settings": settings, "rows": rows})
            name = f"{row['variant']} {row['way']}".strip()
            about = f"{name:<22} seed {row['seed']}: {row['score']:.2f} in {row['seconds']:.0f} s"
            console.print(about, highlight=False)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(run, work))
    title = "Snake 10x10, flood-fill, train ratio 1/16"
    if arguments.variants is None:
        console.print(table(rows, f"{title}, double DQN, 400,000 transitions"))
    else:
        budget = f"{arguments.steps:,} transitions"
        console.print(tabulate_variants(rows, f"{title}, {budget}, last score of 1000 games"))


def list_trainings(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> list[Training]:
    """All trainings that were asked for, seed by seed."""
    if arguments.variants is None:
        ways = check_names("ways", arguments.ways, list(WAYS[arguments.device]), parser)
        return [Training("", way, seed) for seed in range(arguments.seeds) for way in ways]
    if arguments.ways:
        parser.error("--variants compares eager and the fastest way: leave --ways out")
    names = check_names("variants", arguments.variants, VARIANTS, parser)
    both = ("eager", "fast")
    seeds, steps = range(arguments.seeds), arguments.steps
    return [Training(name, way, seed, steps) for seed in seeds for name in names for way in both]


def check_names(
    what: str, names: list[str] | None, known: Sequence[str], parser: argparse.ArgumentParser
) -> Sequence[str]:
    """The names that were given, or all."""
    if unknown := set(names or ()) - set(known):
        parser.error(f"unknown {what} {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    return names or known


def place_of(row: dict[str, Any]) -> tuple[int, int, int]:
    """Where a row stands in the file."""
    ways = [*WAYS["cpu"], "fast"]
    return ["", *VARIANTS].index(row["variant"]), ways.index(row["way"]), row["seed"]


if __name__ == "__main__":
    main()
