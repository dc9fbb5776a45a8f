"""How fast two cores do one gradient step, and how far apart they are.

    python benchmarks/cores.py [--rounds 20] [--seconds 0.3] [--busy] [--json FILE]

The update of plain DQN: MLP 11-256-256-3, batch 64, greedy bootstrap, a target that is copied at intervals; two
updates in a call. Each round measures how long a number takes from one core to the other and back. Then, in turns,
it measures an update by one thread, by two that share samples, by two that share the rows of the large matrix, and
by a team that chooses for itself (`compute.threads.Team`). A virtual machine's cores may be moved while it runs:
rounds in which they were far apart are listed separately. `--busy` keeps one core busy with another process
meanwhile.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from flashdqn.compute.core_count import cores
from flashdqn.compute.gemm import increment_counter, read_counter
from flashdqn.compute.threads import Team, limit_threads
from flashdqn.config import LearnConfig
from flashdqn.learn.adam import Adam
from flashdqn.learn.bootstraps import greedy_target
from flashdqn.learn.flat import Flat
from flashdqn.learn.heads import ScalarHead
from flashdqn.networks.roles import make_target
from flashdqn.training.backends.cpu import update as written
from flashdqn.training.backends.cpu.memory import BySamples
from flashdqn.training.backends.cpu.update import NativeUpdates
from measure import context, write_json
from update import CASES, joined, make_batches, make_network

CASE, GROUP = CASES[0], 2
FAR = 100  # nanoseconds


@numba.njit(nogil=True)
def call_and_answer(counter, who, times):  # type: ignore[no-untyped-def]
    """Count up in turns with another thread."""
    for i in range(times):
        while read_counter(counter) != 2 * i + who:
            pass
        increment_counter(counter)


def nanoseconds(times: int = 20_000) -> float:
    """Time from one core to the other, the best of three."""
    found = []
    for _ in range(3):
        counters = np.zeros(32, dtype=np.int64)
        place = counters.ctypes.data + 64
        other = threading.Thread(target=call_and_answer, args=(place, 1, times))
        start = time.perf_counter()
        other.start()
        call_and_answer(place, 0, times)
        other.join()
        found.append((time.perf_counter() - start) / times / 2 * 1e9)
    return min(found)


def updates(team: Team, by_samples: bool = False) -> Callable[[], object]:
    """Two gradient steps."""
    online = make_network(CASE)
    target = make_target(online)
    learn = LearnConfig(bootstrap="greedy", huber=1.0, lr=1e-4)
    adam = Adam(learn, Flat(online), torch.tensor(learn.lr))
    steps = NativeUpdates(online, target, ScalarHead(learn.huber), greedy_target, adam, team=team)
    batch, sums = joined(make_batches(CASE, GROUP)), torch.zeros(3)
    chosen = written.ByHalves
    try:
        if by_samples:
            written.ByHalves = BySamples  # type: ignore[assignment,misc]
            BySamples.fits = staticmethod(lambda layers: True)  # type: ignore[attr-defined]
        steps.steps(batch, GROUP, sums)  # it allocates its memory at the first call
    finally:
        written.ByHalves = chosen  # type: ignore[misc]
    return lambda: steps.steps(batch, GROUP, sums)


def mean_us(work: Callable[[], object], seconds: float) -> float:
    """Time of an update."""
    times, end = [], time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        work()
        times.append((time.perf_counter() - start) / GROUP * 1e6)
    return statistics.fmean(times)


@contextmanager
def keep_core_busy(busy: bool) -> Iterator[None]:
    """Let another process want a core, if `busy`."""
    if not busy:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def table(rows: list[dict[str, Any]], names: list[str], busy: bool) -> Table:
    """A table of rounds, near and far."""
    grid = Table(
        title=f"µs per update ({CASE}){', with a busy process' if busy else ''}", title_justify="left"
    )
    for name in ("the cores are", "rounds", "ns from core to core", *names):
        grid.add_column(name, justify="right")
    for label, chosen in (
        ("near", [row for row in rows if row["ns"] < FAR]),
        ("far apart", [row for row in rows if row["ns"] >= FAR]),
    ):
        if chosen:
            cells = [f"{statistics.median(row[name] for row in chosen):,.0f}" for name in ("ns", *names)]
            grid.add_row(label, str(len(chosen)), *cells)
    return grid


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.3, help="for each way in each round")
    parser.add_argument("--busy", action="store_true", help="while another process runs")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if cores() < 2:
        parser.error("This needs two cores.")
    rows = []
    with limit_threads(1, cores()):
        works = {
            "one thread": updates(Team(1)),
            "two, by samples": updates(Team(2), by_samples=True),
            "two, by rows": updates(Team(2)),
            "a team": updates(Team(1, 2)),
        }
        nanoseconds(10)
        for _ in range(arguments.rounds):
            row = {"ns": nanoseconds()}
            with keep_core_busy(arguments.busy):
                row |= {name: mean_us(work, arguments.seconds) for name, work in works.items()}
            rows.append(row)
    Console(width=116).print(table(rows, list(works), arguments.busy))
    if arguments.json:
        write_json(arguments.json, {**context("cpu"), "busy": arguments.busy, "rows": rows})


if __name__ == "__main__":
    main()
