"""How fast the machine is at this moment: a fixed piece of work, measured between the windows of a training.

`watch_windows` runs inside a training's own process. Before a window's clock starts, it does gradient steps of its
own, always the same ones: of a network of the training's size, on a batch that never changes, with the training's
number of threads. On CUDA it replays a graph of them. The training cannot make this work slower or faster, but
other programs, the processor's clock and the distance of its cores can: what a window costs, divided by this, is
what the training itself costs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from flashdqn.compute.core_count import cores
from flashdqn.compute.threads import Team
from flashdqn.config import LearnConfig
from flashdqn.config.presets import base_config
from flashdqn.learn.adam import Adam
from flashdqn.learn.bootstraps import greedy_target
from flashdqn.learn.flat import Flat
from flashdqn.learn.heads import ScalarHead
from flashdqn.networks.roles import make_target
from flashdqn.training.backends.cpu.update import NativeUpdates
from flashdqn.training.reporter import Reporter
from update import Case, joined, make_batches, make_network

GROUP = 8


def make_cpu_work(case: Case, threads: int) -> Callable[[], object]:
    """`GROUP` hand-written gradient steps."""
    online = make_network(case)
    learn = LearnConfig(bootstrap="greedy", lr=1e-4)
    adam = Adam(learn, Flat(online), torch.tensor(learn.lr))
    team = Team(threads or cores())
    steps = NativeUpdates(online, make_target(online), ScalarHead(1.0), greedy_target, adam, team=team)
    batch, sums = joined(make_batches(case, GROUP)), torch.zeros(3)
    return lambda: steps.steps(batch, GROUP, sums)


def make_cuda_work(case: Case) -> Callable[[], object]:
    """A graph of `GROUP` gradient steps on the GPU, and the wait for it."""
    sizes = (case.inputs, *case.hidden)
    layers = [m for a, b in zip(sizes, case.hidden, strict=False) for m in (nn.Linear(a, b), nn.ReLU())]
    network = nn.Sequential(*layers, nn.Linear(case.hidden[-1], case.actions)).cuda()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4, capturable=True, fused=True)
    obs, goal = torch.randn(case.batch, case.inputs).cuda(), torch.randn(case.batch, case.actions).cuda()

    def step_group() -> None:
        for _ in range(GROUP):
            optimizer.zero_grad(set_to_none=False)
            (network(obs) - goal).square().mean().backward()
            optimizer.step()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step_group()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step_group()

    def run() -> None:
        graph.replay()
        torch.cuda.synchronize()

    return run


def measure_work(work: Callable[[], object], seconds: float) -> float:
    """Microseconds of a call: a mean, as a window's time is one."""
    count, start = 0, time.perf_counter()
    while (now := time.perf_counter()) < start + seconds:
        work()
        count += 1
    return (now - start) / count * 1e6


def watch_windows(preset: str, device: str, threads: int, seconds: float, path: str) -> None:
    """From now on, measure for `seconds` before every window, and keep all times in a file."""
    config = base_config(preset)
    case = Case(14, tuple(config.network.hidden), 3, config.update_size)
    open_window, found = Reporter.open_window, list[float]()
    work: list[Callable[[], object]] = []

    def measure_and_open(self: Any) -> None:
        if not work:
            work.append(make_cuda_work(case) if device == "cuda" else make_cpu_work(case, threads))
            measure_work(work[0], 3 * seconds)  # the first calls compile and allocate
        found.append(measure_work(work[0], seconds))
        Path(path).write_text(json.dumps(found), encoding="utf-8")
        open_window(self)

    Reporter.open_window = measure_and_open  # type: ignore[method-assign]
