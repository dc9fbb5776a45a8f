"""Every mode of execution side by side: time per transition and update, warm-up, and whether it learns the same.

    python benchmarks/modes.py [--device cuda] [--case small] [--algo rainbow] [--json FILE] [--picture FILE]

Each mode starts from the same weights and replay and does the same updates: then its weights are compared with
those of eager. After that all of them continue to train, timed in turns, so a busy machine affects all alike.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from flashdqn.compute.device import choose_device
from flashdqn.compute.graphs import ExecutionPlan
from flashdqn.compute.precision import allow_tf32
from flashdqn.compute.threads import limit_threads
from flashdqn.config import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.errors import ExecutionError
from flashdqn.envs import build_env
from flashdqn.learn.algorithms import apply_algorithm
from flashdqn.learn.pqn import RolloutSampler
from flashdqn.runs.folder import RunFolder
from flashdqn.training.assemble import assemble_parts
from flashdqn.training.autotune import warm_up_plan
from flashdqn.training.engine import Engine
from flashdqn.training.loop import Loop
from flashdqn.training.progress import Silent
from flashdqn.training.warmup import clone_tensors, restore_after
from measure import context, describe_work, draw_bars, write_json

#: The work: a preset, and the changes to it.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "small": (
        "snake",
        {"envs": 256, "train_ratio": 1 / 32, "network.hidden": (256, 256), "learn.batch_size": 64},
    ),
    "default": ("snake-flood", {}),
    "large": (
        "snake",
        {
            "envs": 65_536,
            "train_ratio": 8 / 65_536,
            "network.hidden": (256, 256),
            "learn.batch_size": 16_384,
            "replay.capacity": 4_000_000,
            "learn.starts": 300_000,
        },
    ),
    "grid": ("snake-grid", {}),
}
PLANS = {
    "cpu": [ExecutionPlan("eager"), ExecutionPlan("compile"), ExecutionPlan("native")],
    "cuda": [
        ExecutionPlan("eager"),
        ExecutionPlan("compile"),
        ExecutionPlan("eager", graph=True),
        ExecutionPlan("compile", graph=True),
        ExecutionPlan("native", graph=True),
    ],
}


@dataclass
class Candidate:
    """A training in one mode."""

    plan: ExecutionPlan
    loop: Loop
    warm_up: float
    rates: list[float]


def start(config: Config, plan: ExecutionPlan, device: torch.device, folder: Path) -> Candidate:
    """A warm training that has filled its replay."""
    begun = time.perf_counter()
    parts = assemble_parts(config, build_env(config.env, config.envs, device))
    engine = Engine(config, parts)
    with restore_after(config, parts):
        warm_up_plan(engine, plan)
    seconds = time.perf_counter() - begun
    loop = Loop(config, parts, RunFolder(folder), Silent(), parts.env, engine)
    loop.start()
    while parts.counts.transitions < loop.ratio.starts:
        loop.iterate()
    return Candidate(plan, loop, seconds, [])


def settle(candidate: Candidate) -> None:
    counts = candidate.loop.parts.counts
    candidate.loop.engine.settle()
    if counts.totals.device.type == "cuda":
        torch.cuda.synchronize()


def rate(candidate: Candidate, seconds: float) -> float:
    """Transitions per second over a window."""
    settle(candidate)
    before, begun = candidate.loop.parts.counts.transitions, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for _ in range(4):
            candidate.loop.iterate()
    settle(candidate)
    return (candidate.loop.parts.counts.transitions - before) / (time.perf_counter() - begun)


def relearn(candidate: Candidate, weights: dict[str, Tensor], state: dict[str, Tensor], updates: int) -> None:
    """Do `updates` updates from the same state."""
    parts = candidate.loop.parts
    counts = {"transitions": parts.counts.transitions, "episodes": parts.counts.episodes, "updates": 0}
    parts.load(weights, state, counts)
    if isinstance(parts.sampler, RolloutSampler):
        parts.sampler.remaining = parts.sampler.updates
        updates = min(updates, parts.sampler.updates)
    candidate.loop.engine.learn(updates)
    settle(candidate)


def apart(one: Candidate, other: Candidate) -> float:
    """‖difference‖ / ‖weights‖."""
    first, second = (c.loop.parts.learner.flat.values for c in (one, other))
    return float((first - second).norm() / second.norm())


def draw(title: str, rows: list[dict[str, Any]], path: Path) -> None:
    """A bar for each mode, on a logarithmic axis: they differ by two orders of magnitude."""
    bars = {row["mode"]: float(row["steps_per_second"]) for row in rows}
    draw_bars(path, {title: bars}, "transitions per second", ours="native", log=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--case", choices=CASES, default="small")
    parser.add_argument("--algo")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--updates", type=int, default=50, help="updates before weights are compared")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="per round")
    parser.add_argument(
        "--plans", default="", help="only those whose name contains one of these, comma-separated"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    device, console = choose_device(arguments.device), Console(width=110)
    preset, changes = CASES[arguments.case]
    config = apply_settings(base_config(preset), changes | {"runtime.precision": arguments.precision})
    config = apply_algorithm(config, arguments.algo) if arguments.algo else config
    if device.type == "cpu":
        config = replace(config, device="cpu")
    wanted = [w for w in arguments.plans.split(",") if w]
    plans = [p for p in PLANS[device.type] if not wanted or any(w == str(p) for w in wanted)]
    rows: list[dict[str, Any]] = []
    with limit_threads(1, 1), allow_tf32(device), tempfile.TemporaryDirectory() as folder:
        candidates: list[Candidate] = []
        for plan in plans:
            try:
                candidates.append(start(config, plan, device, Path(folder)))
            except ExecutionError as error:
                console.print(f"{plan}: {error}", highlight=False, markup=False)
        first = candidates[0].loop.parts
        weights, state = clone_tensors(first.learner.weights()), clone_tensors(first.state_dict())
        for candidate in candidates:
            relearn(candidate, weights, state, arguments.updates)
        differences = [apart(candidate, candidates[0]) for candidate in candidates]
        for _ in range(arguments.rounds):
            for candidate in candidates:
                candidate.rates.append(rate(candidate, arguments.seconds))
        for candidate, difference in zip(candidates, differences, strict=True):
            median = statistics.median(candidate.rates)
            rows.append(
                {
                    "mode": str(candidate.plan),
                    "warm_up_seconds": round(candidate.warm_up, 2),
                    "steps_per_second": round(median),
                    "least": round(min(candidate.rates)),
                    "most": round(max(candidate.rates)),
                    "microseconds_per_update": round(1e6 / median / candidate.loop.ratio.asked, 1),
                    "weights_apart": difference,
                }
            )
    title = f"{arguments.case}{' ' + arguments.algo if arguments.algo else ''}: {config.envs:,} boards, "
    ratio = candidates[0].loop.ratio.asked
    title += f"{describe_work(ratio, config.update_size)}, {arguments.precision}, {device.type}"
    table = Table(
        "mode", "warm-up s", "steps/s", "least … most", "µs/update, all in", "weights apart", title=title
    )
    for row in rows:
        spread = f"{row['least']:,} … {row['most']:,}"
        cells = f"{row['warm_up_seconds']:.1f}", f"{row['steps_per_second']:,}", spread
        table.add_row(
            row["mode"], *cells, f"{row['microseconds_per_update']:,}", f"{row['weights_apart']:.1e}"
        )
    console.print(table)
    if arguments.picture:
        draw(title, rows, arguments.picture)
    if arguments.json:
        work = {"ratio": ratio, "batch": config.update_size, "reuse": ratio * config.update_size}
        write_json(
            arguments.json, {"context": context(arguments.device), "title": title, "work": work, "rows": rows}
        )


if __name__ == "__main__":
    main()
