"""Fuel breaks: steps per second of the environment alone, and of training, window by window from the first on.

    python benchmarks/fuelbreaks_speed.py                                    # fuelbreaks-small on the CPU
    python benchmarks/fuelbreaks_speed.py --device cuda                      # fuelbreaks, 50x50
    python benchmarks/fuelbreaks_speed.py --device cuda --precisions bf16 --fires 3 64 --steps 100000

The settings of the original document: 3 fires, a gradient step for every 32 transitions, batches of 32. Throughput
is that of each window of `--window` transitions, never an average since the start; so is memory, over at least
`--episodes` episodes. Training includes everything except evaluation. Every cell is written as soon as it is
measured.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import flashdqn
from flashdqn.compute.device import choose_device
from flashdqn.config.presets import base_config
from flashdqn.envs import FuelBreaks, FuelBreaksConfig
from flashdqn.replay.ring import ring_bytes
from flashdqn.runs.tables import read_metrics
from measure import context, describe_work, write_json

RESULTS = Path(__file__).parent / "results"


def time_env(config: FuelBreaksConfig, boards: int, device: torch.device, seconds: float) -> dict[str, float]:
    """Steps per second of random legal breaks, in windows; choosing the breaks is included in the time."""
    env = FuelBreaks(config, boards, device)
    env.reset(0)
    generator = torch.Generator(device).manual_seed(0)
    rates = []
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        steps = 0
        start = time.perf_counter()
        while time.perf_counter() - start < seconds / 8:
            for _ in range(8):
                luck = torch.rand(env.mask.shape, generator=generator, device=device)
                env.step(luck.masked_fill_(~env.mask, -1.0).argmax(1))
            steps += 8 * boards
            synchronize(device)
        rates.append(steps / (time.perf_counter() - start))
    rates.sort()
    return {"boards": boards, "fires": config.fires, "steps_per_second": rates[len(rates) // 2]}


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def time_training(preset: str, precision: str, fires: int, asked: argparse.Namespace) -> dict[str, Any]:
    """A short training; its windows come from metrics.csv."""
    base = base_config(preset)
    with tempfile.TemporaryDirectory() as out:
        run = flashdqn.train(
            preset,
            progress=False,
            out=out,
            device=asked.device,
            steps=asked.steps,
            train_ratio=asked.ratio,
            envs=asked.boards or base.envs,
            env={"fires": fires},
            learn={"batch_size": asked.batch, "starts": asked.starts},
            demos={"source": "none", "episodes": 0, "pretrain_steps": 0, "chance": 0.0},
            eval={"every": 0, "episodes": 8},
            log={"every": asked.window, "checkpoint_every": 0, "tensorboard": False},
            runtime={"precision": precision},
        )
        rows = read_metrics(run.path)
    rates = [row.steps_per_second for row in rows if row.step > asked.starts]
    windows = [rate for rate in rates if not math.isnan(rate)]  # the last report may be of an empty window
    memory = [row.memory_mb for row in rows]
    ordered = sorted(windows)
    return {
        "preset": preset,
        "precision": precision,
        "fires": fires,
        "mode": run.summary["mode"],
        "ratio": run.summary["train_ratio"],
        "batch": run.summary["batch"],
        "reuse": run.summary["reuse"],
        "wall_steps_per_second": run.summary["wall_steps_per_second"],
        "episodes": run.summary["episodes"],
        "warm_up_seconds": run.summary["warm_up_seconds"],
        "steps_per_second": ordered[len(ordered) // 2],
        "first_window": windows[0],
        "last_window": windows[-1],
        "windows": windows,
        "memory_first_mb": memory[0],
        "memory_last_mb": memory[-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--preset", help="fuelbreaks on cuda, fuelbreaks-small on the cpu")
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--fires", nargs="+", type=int, default=[3])
    parser.add_argument("--boards", type=int, default=0, help="0: as in the preset")
    parser.add_argument("--env-boards", nargs="+", type=int, default=[64, 1024])
    parser.add_argument("--ratio", type=float, default=1 / 32)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--starts", type=int, default=2_000)
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--window", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=4.0, help="per cell of the environment alone")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    device = choose_device(asked.device)
    preset = asked.preset or ("fuelbreaks" if asked.device == "cuda" else "fuelbreaks-small")
    config = base_config(preset).env
    assert isinstance(config, FuelBreaksConfig)
    out = asked.out or RESULTS / f"fuelbreaks_speed_{asked.device}.json"
    results: dict[str, Any] = {
        "context": context(asked.device),
        "size": config.size,
        "env": [],
        "training": [],
    }
    for fires in asked.fires:
        for boards in asked.env_boards:
            cell = time_env(replace(config, fires=fires), boards, device, asked.seconds)
            results["env"].append(cell)
            write_json(out, results)
            rate = f"{cell['steps_per_second']:,.0f} steps/s"
            print(f"environment alone, {boards} boards, {fires} fires: {rate}", flush=True)
    env = FuelBreaks(config, 1, "cpu")
    capacity = base_config(preset).replay.capacity
    results["ring_mb"] = ring_bytes(capacity, 64, env.obs_spec, env.num_actions, masked=False) / 1e6
    for precision in asked.precisions:
        for fires in asked.fires:
            cell = time_training(preset, precision, fires, asked)
            results["training"].append(cell)
            write_json(out, results)
            print(describe(cell), flush=True)


def describe(cell: dict[str, Any]) -> str:
    """A cell of the training in one line."""
    return (
        f"{cell['preset']}, {cell['precision']}, {cell['fires']} fires, {cell['mode']}, "
        f"{describe_work(cell['ratio'], cell['batch'])}: median {cell['steps_per_second']:,.0f} transitions/s "
        f"({cell['wall_steps_per_second']:,.0f} since its start), first window {cell['first_window']:,.0f}, last "
        f"{cell['last_window']:,.0f}; memory {cell['memory_first_mb']:,.0f} MB, and "
        f"{cell['memory_last_mb']:,.0f} MB after {cell['episodes']} episodes"
    )


if __name__ == "__main__":
    main()
