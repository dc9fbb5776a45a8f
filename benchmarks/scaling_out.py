"""What several ranks give: throughput, efficiency, learning curves, time in the all-reduce; a simulation of more.

    python benchmarks/scaling_out.py                    # 1, 2 and 4 ranks on the CPU, by gloo
    python benchmarks/scaling_out.py --device cuda      # 1 and 2 on one GPU, by gloo: NCCL refuses one GPU twice
    python benchmarks/scaling_out.py --ranks 1 2 --share 0.2 --rounds 1   # a quick look

Two works: `small`, a preset as it is, and `large`, a network and a batch that keep a processor busy. Each point is
`flashdqn train` in processes of its own, for a fixed number of transitions. The numbers of ranks take turns, round
by round; the median rate of the rounds counts, and the mean of their curves. A round has its own seed, the same for
all numbers of ranks, and boards, batch and ratio are the same: only the time should differ, and the curves by
chance. Ranks on one machine share its cores: beyond them, efficiency must fall.

The simulation takes the measured time of an update and of a step of the boards, by their size, and an all-reduce by
its usual formula on assumed connections. No such machine was used: the table says so.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table

from flashdqn.compute.device import choose_device, synchronize_device
from flashdqn.compute.precision import allow_tf32
from flashdqn.config import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.envs import build_env
from flashdqn.training.assemble import assemble_parts
from flashdqn.training.autotune import prepare_engine
from flashdqn.training.prepared import check_settings, use_run_threads
from measure import context, write_json

HERE = Path(__file__).parent
#: The works: settings on top of the preset, and transitions of a training.
WORKS: dict[str, tuple[dict[str, Any], int]] = {
    "small": ({}, 150_000),
    "large": ({"network.hidden": (512, 512), "learn.batch_size": 1024, "train_ratio": 1 / 16}, 60_000),
}
COMMON: dict[str, Any] = {
    "envs": 256,
    "learn.starts": 5_000,
    "replay.capacity": 100_000,
    "eval.episodes": 100,
    "eval.max_share": 1.0,
    "log.tensorboard": False,
    "log.game": False,
}
#: Shares of the boards and of the batch whose time is measured for the simulation.
SHARES = (1, 2, 4, 8)


class Wires(NamedTuple):
    """Assumed connections: seconds of one message, bytes in a second for each rank."""

    name: str
    ranks: int
    latency: float
    bandwidth: float


#: What the simulation assumes: guesses on the careful side, not measurements. The network has 400 Gbit/s, of which
#: 80 % are used.
ASSUMED = (Wires("8 GPUs, NVLink", 8, 8e-6, 200e9), Wires("64 machines, 400 Gbit/s", 64, 15e-6, 40e9))
#: The only published table of synchronous data parallelism for this family: Stooke and Abbeel 2018, 8 GPUs.
ANCHOR = {"DQN, batch 512": 3.2, "categorical, batch 2048": 5.9}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--preset", default="snake-flood")
    parser.add_argument("--ranks", type=int, nargs="+")
    parser.add_argument("--works", nargs="+", default=list(WORKS), choices=list(WORKS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="of the transitions of a work")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    arguments.ranks = arguments.ranks or ([1, 2, 4] if arguments.device == "cpu" else [1, 2])
    arguments.out = arguments.out or HERE / "results" / f"scaling-out-{arguments.device}.json"
    return arguments


def make_config(arguments: argparse.Namespace, work: str, seed: int = 0) -> Config:
    """The training of a work."""
    changes, steps = WORKS[work]
    steps = int(steps * arguments.share)
    budget = {"steps": steps, "eval.every": steps // 5, "log.every": steps // 10}
    budget |= {"device": arguments.device, "seed": seed}
    return apply_settings(base_config(arguments.preset), COMMON | changes | budget)


def train_once(config: Config, ranks: int) -> dict[str, Any]:
    """One training by the command line; its rates, times and curve."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "settings.json"
        settings.write_text(json.dumps(read_settings(config)), encoding="utf-8")
        words = [config.preset, "--config", str(settings), "--out", folder, "--ranks", str(ranks)]
        done = subprocess.run(
            [sys.executable, "-m", "flashdqn", "train", *words], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{ranks} ranks: {done.stderr or done.stdout}")
        (run,) = (path.parent for path in Path(folder).glob("*/summary.json"))
        return read_training(run, ranks)


def read_settings(config: Config) -> dict[str, Any]:
    """What differs from the preset, as a file has it."""
    names = {**COMMON, "steps": 0, "eval.every": 0, "log.every": 0, "device": 0, "seed": 0}
    names |= {name: 0 for changes, _ in WORKS.values() for name in changes}

    def find(name: str) -> Any:
        value: Any = config
        for part in name.split("."):
            value = getattr(value, part)
        return list(value) if isinstance(value, tuple) else value

    return {name: find(name) for name in names}


def read_training(run: Path, ranks: int) -> dict[str, Any]:
    """The figures of one training, from its folder."""
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    with (run / "evaluations.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    curve = [[int(row["step"]), float(row["mean_score"])] for row in rows]
    found = {
        "ranks": ranks,
        "steps_per_second": summary["window_steps_per_second"],
        "seconds": summary["seconds"],
        "training_seconds": summary["time"]["training"],
        "mode": summary["mode"],
        "train_ratio": summary["train_ratio"],
        "batch": summary["batch"],
        "reuse": summary["reuse"],
        "score": summary["evaluation"]["mean_score"],
        "score_error": summary["evaluation"]["score_error"],
        "curve": curve,
    }
    if "ranks" in summary:
        waits = summary["ranks"]
        found["waited_seconds"] = waits["waited_seconds"]
        found["all_reduce_us"] = 1e6 * statistics.mean(waits["gradient_seconds"]) / max(1, waits["exchanges"])
        found["counts_seconds"] = statistics.mean(waits["count_seconds"])
        found["exchange_share"] = statistics.mean(waits["waited_seconds"]) / summary["time"]["training"]
    return found


def measure_work(arguments: argparse.Namespace, work: str, console: Console) -> list[dict[str, Any]]:
    """All numbers of ranks, round by round; the round with the median rate stands for each."""
    every: dict[int, list[dict[str, Any]]] = {ranks: [] for ranks in arguments.ranks}
    for turn in range(arguments.rounds):
        for ranks in arguments.ranks:
            every[ranks].append(train_once(make_config(arguments, work, turn), ranks))
            rate = every[ranks][-1]["steps_per_second"]
            console.print(f"{work}, {ranks} ranks, round {turn + 1}: {rate:,.0f} transitions/s")
    points = []
    for found in every.values():
        scores = [point["score"] for point in found]
        curves = [[score for _, score in point["curve"]] for point in found]
        curve = [
            [step, statistics.mean(at)]
            for (step, _), *at in zip(found[0]["curve"], *curves, strict=False)  # the last may be one more
        ]
        found.sort(key=lambda point: point["steps_per_second"])
        rates = [point["steps_per_second"] for point in found]
        spread = statistics.stdev(scores) / len(scores) ** 0.5 if len(scores) > 1 else found[0]["score_error"]
        means = {"rates": rates, "scores": scores, "score": statistics.mean(scores), "score_error": spread}
        points.append(found[len(found) // 2] | means | {"curve": curve})
    first = points[0]
    for point in points:
        point["speedup"] = point["steps_per_second"] / first["steps_per_second"] * first["ranks"]
        point["efficiency"] = point["speedup"] / point["ranks"]
    return points


def show_points(console: Console, work: str, points: list[dict[str, Any]]) -> None:
    table = Table(title=f"{work}: ratio {points[0]['train_ratio']:.4g}, batch {points[0]['batch']:,}")
    for name in (
        "ranks",
        "mode",
        "transitions/s",
        "speedup",
        "efficiency",
        "all-reduce µs",
        "in exchanges",
        "score",
    ):
        table.add_column(name, justify="right")
    for point in points:
        table.add_row(
            str(point["ranks"]),
            point["mode"],
            f"{point['steps_per_second']:,.0f}",
            f"{point['speedup']:.2f}",
            f"{point['efficiency']:.0%}",
            f"{point['all_reduce_us']:,.0f}" if "all_reduce_us" in point else "–",
            f"{point['exchange_share']:.0%}" if "exchange_share" in point else "–",
            f"{point['score']:.2f} ± {point['score_error']:.2f}",
        )
    console.print(table)


# ---- the simulation


def measure_parts(config: Config) -> dict[str, Any]:
    """Seconds of an update by its batch, of a step by its boards, and the number of gradients, in one process."""
    device = choose_device(config.device)
    updates: dict[int, float] = {}
    steps: dict[int, float] = {}
    gradients = 0
    for share in SHARES:
        own = apply_settings(
            config,
            {
                "envs": config.envs // share,
                "learn.batch_size": config.learn.batch_size // share,
                "replay.capacity": config.replay.capacity // share,
            },
        )
        threads, _ = check_settings(own, device)
        with use_run_threads(own, threads), allow_tf32(device):
            parts = assemble_parts(own, build_env(own.env, own.envs, device))
            engine, _ = prepare_engine(own, parts, lambda text: None)
            parts.start()
            for _ in range(parts.sampler.least_rows + 20):
                engine.collect()
            learn = lambda: engine.learn(engine.largest)  # noqa: B023, E731
            updates[own.learn.batch_size] = time_median(learn, device) / engine.largest
            steps[own.envs] = time_median(engine.collect, device)
            gradients = parts.learner.flat.gradient.numel()
    return {"update_seconds": updates, "step_seconds": steps, "gradients": gradients}


def time_median(work: Callable[[], object], device: torch.device, rounds: int = 41) -> float:
    """The median time of a piece of work, after some warm-up."""
    times = []
    for turn in range(rounds + 5):
        start = time.perf_counter()
        work()
        synchronize_device(device)
        if turn >= 5:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def fit_line(points: dict[int, float]) -> tuple[float, float]:
    """Fixed cost and cost for each item, by least squares; neither is below 0."""
    sizes, times = list(points), list(points.values())
    slope, fixed = statistics.linear_regression(sizes, times)
    return max(0.0, fixed), max(0.0, slope)


def simulate(config: Config, parts: dict[str, Any], wires: Wires) -> dict[str, Any]:
    """The speedup that ranks would have over one, at the same batch, boards and ratio. An all-reduce sends
    2 (N − 1) / N of the gradient through every rank, in 2 log₂ N messages; the counts go once in each step."""
    update, step = fit_line(parts["update_seconds"]), fit_line(parts["step_seconds"])
    due = config.train_ratio * config.envs
    batch, boards, size = config.learn.batch_size, config.envs, 4 * parts["gradients"]

    def iteration(ranks: int) -> tuple[float, float]:
        messages = 2 * math.ceil(math.log2(ranks)) * wires.latency if ranks > 1 else 0.0
        exchange = messages + 2 * (ranks - 1) / ranks * size / wires.bandwidth
        work = step[0] + step[1] * boards / ranks + due * (update[0] + update[1] * batch / ranks)
        sent = due * exchange + (messages if ranks > 1 else 0.0)
        return work + sent, sent

    (one, _), (many, sent) = iteration(1), iteration(wires.ranks)
    return {
        "connection": wires.name,
        "ranks": wires.ranks,
        "speedup": one / many,
        "efficiency": one / many / wires.ranks,
        "exchange_share": sent / many,
        "latency_us": 1e6 * wires.latency,
        "bandwidth_gb": wires.bandwidth / 1e9,
    }


def show_simulation(console: Console, found: dict[str, list[dict[str, Any]]]) -> None:
    table = Table(title="SIMULATION, not a measurement: computed from one process and assumed connections")
    for name in ("work", "connection", "speedup", "efficiency", "in exchanges", "assumed"):
        table.add_column(name, justify="right")
    for work, rows in found.items():
        for row in rows:
            assumed = f"{row['latency_us']:.0f} µs a message, {row['bandwidth_gb']:.0f} GB/s"
            shares = f"{row['efficiency']:.0%}", f"{row['exchange_share']:.0%}"
            table.add_row(work, row["connection"], f"{row['speedup']:.1f}", *shares, assumed)
    console.print(table)
    published = ", ".join(f"{name}: {speedup}" for name, speedup in ANCHOR.items())
    console.print(f"Published (Stooke and Abbeel 2018, 8 GPUs, measured): {published}")


def main() -> None:
    arguments, console = parse_arguments(), Console()
    works, simulated, parts = {}, {}, {}
    for work in arguments.works:
        works[work] = measure_work(arguments, work, console)
        show_points(console, work, works[work])
    for work in arguments.works:
        config = make_config(arguments, work)
        parts[work] = measure_parts(config)
        simulated[work] = [simulate(config, parts[work], wires) for wires in ASSUMED]
    show_simulation(console, simulated)
    data = context(arguments.device) | {
        "preset": arguments.preset,
        "exchange": "gloo" if arguments.device == "cpu" else "gloo: NCCL refuses one GPU twice",
        "works": works,
        "one_process": parts,
        "simulation": {
            "label": "computed, not measured",
            "assumes": "equal ranks, costs that are linear in boards and batch, no overlap, the connections listed",
            "works": simulated,
            "published": {"source": "Stooke and Abbeel 2018, arXiv:1803.02811, 8 GPUs", **ANCHOR},
        },
    }
    write_json(arguments.out, data)
    console.print(f"Written to {arguments.out}")


if __name__ == "__main__":
    main()
