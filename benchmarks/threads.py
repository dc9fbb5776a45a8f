"""What threads cost when they have to share their cores: one update with one thread and with two, on a quiet
machine and while a process keeps each core busy.

    python benchmarks/threads.py [--seconds 5] [--json FILE]

PyTorch's threads wait for one another by spinning. On a quiet machine that is fast; where another program
wants the core, the thread that is waited for may not be running at all.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from pathlib import Path

import torch

from flashdqn.compute.core_count import cores
from flashdqn.compute.threads import limit_threads
from flashdqn.config.presets import base_config
from flashdqn.envs import build_env
from flashdqn.training.assemble import assemble_parts
from measure import context, write_json


def busy() -> None:
    while True:
        sum(range(10_000))


def update_microseconds(count: int, seconds: float) -> list[float]:
    """Times of single updates of the preset snake-flood with `count` threads."""
    config = base_config("snake-flood")
    with limit_threads(count, 1):
        parts = assemble_parts(config, build_env(config.env, config.envs, torch.device("cpu")))
        parts.collector.start(0)
        for _ in range(20):
            parts.collector.collect()
        batches = parts.sampler.batches(16, config.learn.batch_size)
        times: list[float] = []
        end = time.perf_counter() + seconds
        while (start := time.perf_counter()) < end:
            parts.learner.update(batches[len(times) % 16])
            times.append((time.perf_counter() - start) * 1e6)
    return times[5:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    measured, rows = context("cpu"), []
    print(measured)
    print("µs per update (MLP 2x128, batch 256)      median      mean       max")
    for neighbors in (0, cores()):
        others = [multiprocessing.Process(target=busy, daemon=True) for _ in range(neighbors)]
        for other in others:
            other.start()
        for count in (1, cores()):
            times = update_microseconds(count, arguments.seconds)
            name = f"{count} thread(s), {neighbors} busy neighbors"
            cells = (statistics.median(times), statistics.fmean(times), max(times))
            named = dict(zip(("median", "mean", "max"), cells, strict=True))
            rows.append({"threads": count, "busy_neighbors": neighbors, **named})
            print(f"{name:<40}" + "".join(f"{cell:>10,.0f}" for cell in cells))
        for other in others:
            other.terminate()
    if arguments.json:
        write_json(arguments.json, {**measured, "microseconds_per_update": rows})


if __name__ == "__main__":
    main()
