"""Small work on a GPU: few boards, small networks, where launching costs more than computing.

    python benchmarks/small_gpu.py [--case ten] [--plan several native compile] [--rounds 5] [--json FILE]

A case is a number of boards of Snake, a network, a batch and a ratio. The first rows are the work of purejaxrl's
DQN (10 boards, 120-84, a batch of 128, one update per 10 transitions) and the same with more boards. All that a
step and its updates cost is counted: random numbers, acting, games, recording, sampling, updating, and the loop
around them.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from flashdqn.compute.graphs import ExecutionPlan
from flashdqn.compute.precision import allow_tf32
from flashdqn.config import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.errors import ExecutionError
from flashdqn.envs import build_env
from flashdqn.runs.folder import RunFolder
from flashdqn.training.assemble import assemble_parts
from flashdqn.training.autotune import warm_up_plan
from flashdqn.training.engine import Engine
from flashdqn.training.loop import Loop
from flashdqn.training.progress import Silent
from flashdqn.training.warmup import restore_after
from measure import context, describe_work, write_json

#: Boards, hidden layers, batch, updates per transition, and the goal in transitions per second.
CASES: dict[str, tuple[int, tuple[int, ...], int, float, float | None]] = {
    "ten": (10, (120, 84), 128, 1 / 10, 230_000),
    "sixty-four": (64, (120, 84), 128, 1 / 10, 500_000),
    "256 boards": (256, (256, 256), 64, 1 / 32, 2_500_000),
    "three layers": (64, (48, 200, 72), 128, 1 / 10, None),
    "ten, 2x256": (10, (256, 256), 128, 1 / 10, None),
    "65,536 boards": (65_536, (256, 256), 16_384, 1 / 8192, 60_000_000),
}
PLANS = {
    "several": ExecutionPlan("native", graph=True, several=True),
    "native": ExecutionPlan("native", graph=True),
    "compile": ExecutionPlan("compile", graph=True),
}


def make_config(case: str) -> Config:
    envs, hidden, batch, ratio, _ = CASES[case]
    changes: dict[str, Any] = {
        "device": "cuda", "envs": envs, "network.hidden": hidden, "learn.batch_size": batch, "train_ratio": ratio,
        "learn.starts": max(1000, 4 * envs), "replay.capacity": max(100_000, 60 * envs),
    }  # fmt: skip
    return apply_settings(base_config("snake"), changes)


def start_training(config: Config, plan: ExecutionPlan, folder: Path) -> tuple[Loop, float]:
    """A warm training that has filled its replay, and the seconds until it was warm."""
    begun = time.perf_counter()
    parts = assemble_parts(config, build_env(config.env, config.envs, torch.device("cuda")))
    engine = Engine(config, parts)
    with restore_after(config, parts):
        warm_up_plan(engine, plan)
    seconds = time.perf_counter() - begun
    loop = Loop(config, parts, RunFolder(folder), Silent(), parts.env, engine)
    loop.start()
    loop.fill()
    return loop, seconds


def measure_window(loop: Loop, seconds: float) -> float:
    """Transitions per second of a window in which all earned updates are done."""
    counts = loop.parts.counts
    settle(loop)
    before, begun = counts.transitions, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for _ in range(4):
            loop.iterate()
    settle(loop)
    return (counts.transitions - before) / (time.perf_counter() - begun)


def settle(loop: Loop) -> None:
    loop.engine.settle()
    loop.learn()
    torch.cuda.synchronize()


def measure_case(case: str, plan: str, rounds: int, seconds: float) -> dict[str, Any]:
    envs, hidden, batch, ratio, goal = CASES[case]
    config = make_config(case)
    with tempfile.TemporaryDirectory() as folder:
        loop, warm_up = start_training(config, PLANS[plan], Path(folder))
        measure_window(loop, seconds)
        rates = [measure_window(loop, seconds) for _ in range(rounds)]
    transitions, updates = loop.parts.counts.transitions, loop.parts.learner.updates
    rate = statistics.median(rates)
    done = loop.ratio.achieved(transitions, updates)
    return {
        "case": case, "plan": str(PLANS[plan]), "envs": envs, "hidden": list(hidden), "batch": batch,
        "ratio": ratio, "ratio_done": done, "reuse": done * batch, "goal": goal,
        "steps_per_second": rate, "least": min(rates), "most": max(rates),
        "us_per_iteration": envs / rate * 1e6, "warm_up": warm_up, "work": describe_work(done, batch),
    }  # fmt: skip


def print_table(rows: list[dict[str, Any]]) -> None:
    table = Table("work", "plan", "transitions/s", "goal", "µs/iteration", "done", "warm-up")
    for row in rows:
        goal = f"{row['goal']:,.0f}" if row["goal"] else "-"
        name = f"{row['case']}: {row['envs']:,} x {'-'.join(map(str, row['hidden']))}"
        rate = f"{row['steps_per_second']:,.0f}"
        spread = f"{rate} ({row['least']:,.0f} … {row['most']:,.0f})"
        times = f"{row['us_per_iteration']:,.1f}", row["work"], f"{row['warm_up']:.1f} s"
        table.add_row(name, row["plan"], spread, goal, *times)
    Console(width=170).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--case", choices=CASES, nargs="+", default=["ten", "sixty-four", "256 boards", "three layers"]
    )
    parser.add_argument("--plan", choices=PLANS, nargs="+", default=["several"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a window")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("small_gpu.py needs a CUDA GPU.")
    rows = []
    for case in options.case:
        for plan in options.plan:
            try:
                with allow_tf32(torch.device("cuda")):
                    rows.append(measure_case(case, plan, options.rounds, options.seconds))
            except ExecutionError as error:
                Console(width=170).print(f"{case}, {PLANS[plan]}: {error}")
    print_table(rows)
    if options.json:
        write_json(options.json, {"context": context("cuda"), "rows": rows})


if __name__ == "__main__":
    main()
