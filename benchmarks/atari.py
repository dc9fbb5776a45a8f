"""Atari: the games alone in every kind of vector, a training with them, its memory as computed and as used, and
a resume of it.

    python benchmarks/atari.py --envs 8 --seconds 3 --steps 20000 --train-ratio 0.015625 --json atari.json
    python benchmarks/atari.py --device cuda --envs 64 --steps 500000 --train-ratio 0.03125 --batch-size 256

A step is four frames. Kinds of vectors take turns, and the median of their rounds counts: the machine may be busy.
The CPU time of a step, all threads and processes together, depends less on other programs.
It trains `atari-pong`, reduced as the options say; speed is the median of the reports' windows.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import flashdqn
from flashdqn.compute.device import choose_device, used_bytes
from flashdqn.config.presets import base_config
from flashdqn.core.contract import close_env
from flashdqn.envs import GymConfig, VecEnv, build_env
from flashdqn.replay.ring import ring_bytes
from flashdqn.runs.columns import GRAPHS, PHASES
from flashdqn.runs.tables import read_metrics
from flashdqn.training.assemble import assemble_parts
from measure import context, cpu_seconds, write_json

FRAMES = 4  # per step
KINDS = ("auto", "sync", "async", "envpool")


def games(kind: str, count: int, device: torch.device) -> VecEnv:
    config = GymConfig(id="ALE/Pong-v5", stack=4, clip_reward=1.0, vectorization=kind)  # type: ignore[arg-type]
    return build_env(config, count, device)


def time_games(
    kinds: list[str], count: int, device: torch.device, seconds: float, rounds: int
) -> list[dict[str, Any]]:
    """Steps per second of each kind, random play; they take turns."""
    envs = {kind: games(kind, count, device) for kind in kinds}
    generator = torch.Generator(device).manual_seed(0)
    speeds: dict[str, list[float]] = {kind: [] for kind in kinds}
    costs: dict[str, list[float]] = {kind: [] for kind in kinds}
    for env in envs.values():
        env.reset(0)
    for number in range(rounds + 1):
        for kind, env in envs.items():
            vector = innermost(env).vector.env
            taken, start, before = 0, time.perf_counter(), cpu_seconds(vector)
            while (now := time.perf_counter() - start) < seconds:
                env.step(torch.randint(env.num_actions, (count,), generator=generator, device=device))
                taken += count
            if number > 0:  # the first round is a warm-up
                speeds[kind].append(taken / now)
                costs[kind].append((cpu_seconds(vector) - before) / taken * 1e6)
    for env in envs.values():
        close_env(env)
    return [
        {
            "kind": kind,
            "envs": count,
            "steps_per_second": statistics.median(speeds[kind]),
            "cpu_us": statistics.median(costs[kind]),
            "rounds": rounds,
        }
        for kind in kinds
    ]


def innermost(env: Any) -> Any:
    """The environment inside the wrappers that stack its frames and move them to a GPU."""
    return innermost(env.env) if hasattr(env, "env") else env


def memory(capacity: int, count: int, device: torch.device) -> dict[str, Any]:
    """Bytes of the ring as computed before it is created, and as measured when every row was written."""
    config = flashdqn.config.settings.apply_settings(
        base_config("atari"), {"envs": count, "replay.capacity": capacity, "network.hidden": [8]}
    )
    env = games("auto", count, device)
    computed = ring_bytes(capacity, count, env.obs_spec, env.num_actions, masked=False)
    whole = replace(env.obs_spec, stack=1)  # if a row held all four frames
    stacks = ring_bytes(capacity, count, whole, env.num_actions, masked=False)
    gc.collect()  # the ring of the last call
    before = used_bytes(device)
    ring = assemble_parts(config, env).ring
    ring.obs.fill_(1)  # written, so the memory is really allocated
    taken = used_bytes(device) - before
    close_env(env)
    return {"capacity": capacity, "computed": computed, "taken": taken, "whole_stacks": stacks}


def train(options: argparse.Namespace, out: str) -> dict[str, Any]:
    """Train, continue for a little, and read what was measured."""
    settings = {
        "steps": options.steps,
        "envs": options.envs,
        "train_ratio": options.train_ratio,
        "device": options.device,
        "replay": {"capacity": options.capacity},
        "learn": {"batch_size": options.batch_size, "starts": min(2_000, options.steps // 4)},
        "eval": {"every": 0, "episodes": 2},
        "log": {"every": max(1_000, options.steps // 10), "tensorboard": False},
        "network": {"torso": options.torso, "hidden": [512 if options.torso == "nature" else 256]},
        "runtime": {"precision": options.precision},
    }
    run = flashdqn.train("atari-pong", out=out, **settings)
    rows = read_metrics(run.path)
    resumed = flashdqn.train(resume=run.path, steps=options.steps + options.steps // 10)
    keys = (
        "steps",
        "updates",
        "seconds",
        "train_ratio",
        "train_ratio_asked",
        "mode",
        "warm_up_seconds",
        "reuse",
    )
    keys = (*keys, "wall_seconds", "wall_steps_per_second")
    result = {key: run.summary[key] for key in keys}
    result["steps_per_second"] = statistics.median(row.steps_per_second for row in rows)
    result["memory_mb"] = rows[-1].memory_mb
    for phase in (*PHASES, *GRAPHS):
        result[f"us_{phase}"] = statistics.median(row.phases[phase] for row in rows)
    result["score"] = run.score
    result["resumed_steps"], result["resumed_updates"] = resumed.summary["steps"], resumed.summary["updates"]
    return result | {"envs": options.envs, "batch_size": options.batch_size, "torso": options.torso}


def show(data: dict[str, Any]) -> None:
    print("\ngames alone         envs     steps/s    frames/s   CPU µs a step")
    for row in data["games"]:
        speed, cost = row["steps_per_second"], row["cpu_us"]
        print(
            f"{row['kind']:<18} {row['envs']:>5}  {speed:>10,.0f}  {FRAMES * speed:>10,.0f}   {cost:>13,.0f}"
        )
    for row in data["memory"]:
        share = row["taken"] / row["computed"]
        print(
            f"replay of {row['capacity']:,}: computed {row['computed'] / 1e9:.3f} GB, taken "
            f"{row['taken'] / 1e9:.3f} GB ({share:.3f}); whole stacks would take {row['whole_stacks'] / 1e9:.2f} GB"
        )
    if (row := data.get("training")) is None:
        return
    speed = row["steps_per_second"]
    print(
        f"training ({row['torso']}, batch {row['batch_size']}, {row['envs']} envs, mode {row['mode']}, ratio "
        f"{row['train_ratio']:.5f} of {row['train_ratio_asked']:.5f}, reuse {row['reuse']:.3g}): "
        f"{speed:,.0f} steps/s, {row['wall_steps_per_second']:,.0f} since its start, "
        f"{FRAMES * speed:,.0f} frames/s, score {row['score']:.1f}"
    )
    phases = {name[3:]: row[name] for name in row if name.startswith("us_") and row[name] > 0}
    print("  µs a transition: " + ", ".join(f"{name} {value:,.0f}" for name, value in phases.items()))
    print(f"  resumed: {row['resumed_steps']:,} steps, {row['resumed_updates']:,} updates")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument("--kinds", nargs="+", choices=KINDS)
    parser.add_argument("--seconds", type=float, default=3.0, help="per round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--capacity", type=int, default=50_000)
    parser.add_argument(
        "--memory", type=int, nargs="*", default=[50_000], help="rings to fill, in transitions"
    )
    parser.add_argument("--steps", type=int, default=20_000, help="of training; 0: none")
    parser.add_argument("--train-ratio", type=float, default=1 / 64)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--torso", choices=["nature", "impala"], default="nature")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = choose_device(options.device)
    torch.set_num_threads(1)  # for the games alone; a training chooses its own number
    there = [kind for kind in KINDS if kind != "envpool" or importlib.util.find_spec("envpool")]
    data: dict[str, Any] = {
        **context(options.device),
        "games": time_games(options.kinds or there, options.envs, device, options.seconds, options.rounds),
        "memory": [memory(capacity, options.envs, device) for capacity in options.memory],
    }
    if options.steps:
        with tempfile.TemporaryDirectory() as out:
            data["training"] = train(options, out)
    show(data)
    if options.json:
        write_json(options.json, data)


if __name__ == "__main__":
    main()
