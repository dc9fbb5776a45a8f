"""What sampling and updating priorities cost, from 10^4 to 10^7 slots, each ring filled to its capacity.

    python benchmarks/replay.py --device cpu [--slots 10000 1000000] [--batch 256] [--json FILE]

`sample` draws one batch and gathers its transitions; `sample/16` is the share of one batch when sixteen are drawn
at once, as the loop does; `gather` is the part of `sample` that both samplers share; `update` gives a batch new
priorities; `append` is what an append of one row costs the sampler. On CUDA every figure is given for eager calls
and for replays of a CUDA graph.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from flashdqn.core.contract import ObsSpec
from flashdqn.replay import Kind, PrioritizedSampler, Ring, UniformSampler
from flashdqn.replay.n_step import gather_transitions
from flashdqn.replay.sum_tree import TorchSumTree
from measure import context, write_json

SPEC = ObsSpec((11,), torch.float32)
GROUP = 16
N_STEP = 3
Work = Callable[[], Any]
Measured = UniformSampler | PrioritizedSampler


def full_ring(slots: int, num_envs: int, device: torch.device) -> Ring:
    """A ring with every row complete except the head; one row in fifty is a reset."""
    ring = Ring(slots, num_envs, SPEC, 3, device)
    generator = torch.Generator(device).manual_seed(0)
    reset = torch.rand(ring.kind.shape, generator=generator, device=device) < 0.02
    ring.kind.copy_(reset * int(Kind.RESET))
    ring.filled.fill_(ring.rows - 1)
    ring.head.fill_(ring.rows // 3)
    return ring


def prioritized(ring: Ring, width: int | None) -> PrioritizedSampler:
    """A sampler over a full ring in which every transition has a learned priority."""
    device = ring.device
    generator = torch.Generator(device).manual_seed(1)
    sampler = PrioritizedSampler(ring, N_STEP, 0.99, generator, alpha=0.6, beta=0.4, eps=1e-6)
    if width is not None:
        sampler.tree = TorchSumTree(ring.rows * ring.num_envs, device, width)
    weight = 10 ** (torch.rand(ring.kind.shape, generator=generator, device=device) * 3 - 2)
    age = (ring.head - torch.arange(ring.rows, device=device)) % ring.rows
    weight *= (ring.kind != Kind.RESET) & (age >= N_STEP)[:, None]
    state = sampler.state_dict() | {"weight": weight.view(-1)}
    sampler.load_state_dict(state)
    return sampler


def works(sampler: Measured, batch: int) -> dict[str, tuple[Work, int]]:
    """What is measured, and by how much its time is divided."""
    device = sampler.ring.device
    errors = torch.rand(64, batch, device=device) * 2
    drawn = [sampler.sample(batch).index for _ in range(64)]
    turns = itertools.cycle(range(64))

    def update() -> None:
        turn = next(turns)
        sampler.update(drawn[turn], errors[turn])

    return {
        "sample": (lambda: sampler.sample(batch), 1),
        "sample/16": (lambda: sampler.batches(GROUP, batch), GROUP),
        "gather": (lambda: gather_transitions(sampler.ring, drawn[next(turns)], N_STEP, 0.99), 1),
        "update": (update, 1),
        "append": (sampler.appended, 1),
    }


def median_us(work: Work, device: torch.device, repeats: int) -> float:
    """Median over repeats, after a warm-up; each repeat runs for about 20 ms."""

    def timed(loops: int) -> float:
        start = time.perf_counter()
        for _ in range(loops):
            work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / loops

    timed(20)
    loops = max(1, round(0.02 / timed(20)))
    return statistics.median(timed(loops) for _ in range(repeats)) * 1e6


def captured(work: Work, sampler: Measured) -> Work:
    """The work as a CUDA graph; it first runs three times outside the graph."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(sampler.generator)
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def measure(sampler: Measured, batch: int, device: torch.device, repeats: int) -> dict[str, dict[str, float]]:
    """µs by mode and by work."""
    table: dict[str, dict[str, float]] = {"eager": {}}
    if device.type == "cuda":
        table["graph"] = {}
    for name, (work, share) in works(sampler, batch).items():
        table["eager"][name] = median_us(work, device, repeats) / share
        if device.type == "cuda":
            table["graph"][name] = median_us(captured(work, sampler), device, repeats) / share
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--slots", type=int, nargs="+", default=[10**4, 10**5, 10**6, 10**7])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--envs", type=int, default=256, help="environments, which are the slots per row")
    parser.add_argument("--width", type=int, help="use the torch tree with this width, also on the CPU")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device, rows = torch.device(arguments.device), []
    print(f"batch {arguments.batch}, {arguments.envs} environments, {N_STEP}-step, µs, medians")
    columns = ("sample", "sample/16", "gather", "update", "append")
    print(f"{'slots':>12} {'sampler':<12} {'mode':<6}", *(f"{name:>9}" for name in columns))
    for slots in arguments.slots:
        ring = full_ring(slots, arguments.envs, device)
        uniform = UniformSampler(ring, N_STEP, 0.99, torch.Generator(device).manual_seed(1))
        for kind, sampler in {"uniform": uniform, "prioritized": prioritized(ring, arguments.width)}.items():
            for mode, cost in measure(sampler, arguments.batch, device, arguments.repeats).items():
                cells = " ".join(f"{us:>9.1f}" for us in cost.values())
                print(f"{slots:>12,} {kind:<12} {mode:<6} {cells}", flush=True)
                rows.append({"slots": slots, "sampler": kind, "mode": mode, **cost})
    if arguments.json:
        settings = {name: getattr(arguments, name) for name in ("batch", "envs", "width", "repeats")}
        write_json(arguments.json, {**context(arguments.device), **settings, "us": rows})


if __name__ == "__main__":
    main()
