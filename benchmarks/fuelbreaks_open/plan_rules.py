"""Plans of the rules for the public benchmark: cells in the order in which they become breaks, up to 20 %.

    python benchmarks/fuelbreaks_open/plan_rules.py --policies random lookahead --workers 14 --out plans

Each worker plans one landscape on one core. A finished landscape is a file, OUT/POLICY/NUMBER.npz, so the same
command continues where an earlier one stopped. When all are there they are gathered into OUT/POLICY.npz, which
score.py reads. NumPy, Numba and PyTorch are enough.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import torch
from instances import BUDGETS, DURATION, INSTANCES, Instance, count_breaks, read_instances
from torch import Tensor

from flashdqn.core.ops import masked_argmax
from flashdqn.envs.fuelbreaks.experts import Betweenness, DomiRank, Lookahead
from flashdqn.envs.fuelbreaks.fire import Spread, Weather, fire_behavior, spread_tables
from flashdqn.envs.fuelbreaks.landscape import Landscape

SEED = 1
FIRES = 100  # that DPV and lookahead look at

Scores = Callable[[], Tensor]


class Board:
    """What an expert sees of one landscape with its breaks: the part of `FuelBreaks` that they use."""

    def __init__(self, instance: Instance) -> None:
        landscape = Landscape(**instance.layers, name=instance.name)
        tables = spread_tables([fire_behavior(landscape, Weather(**instance.weather))])
        self.num_envs, self.num_actions = 1, tables.times.shape[1]
        self.device, self.config = torch.device("cpu"), SimpleNamespace(duration=DURATION)
        self.spread = Spread(tables, 1, 1, DURATION)
        burnable = tables.burnable
        order = torch.argsort((~burnable).to(torch.int8), dim=1, stable=True)
        self.scenes = SimpleNamespace(
            spread=tables,
            burnable=burnable,
            places=order.to(torch.int32),
            counts=burnable.sum(1).to(torch.int32),
        )

    @property
    def mask(self) -> Tensor:
        """Cells that burn and do not hold a break, [1, cells]."""
        return self.scenes.burnable & ~self.spread.breaks

    def place(self, cell: int) -> None:
        """Add a break."""
        self.spread.breaks[0, cell] = True


def score_at_random(board: Board, number: int) -> Scores:
    luck = np.random.Generator(np.random.PCG64([SEED, number])).permutation(board.num_actions)
    order = torch.from_numpy(luck).to(torch.float64)[None]
    return lambda: order


def score_once(scores: Scores) -> Scores:
    """The scores of the first call, for all calls."""
    first = scores().clone()
    return lambda: first


def downstream_value(board: Any, number: int) -> Scores:
    from flashdqn.envs.fuelbreaks.experts.dpv import DownstreamValue

    scores: Scores = DownstreamValue(board, SEED + number, FIRES).scores
    return scores


POLICIES: dict[str, Callable[[Any, int], Scores]] = {
    "random": score_at_random,
    "domirank": lambda board, number: DomiRank(board).scores,
    "betweenness-once": lambda board, number: score_once(Betweenness(board).scores),
    "betweenness": lambda board, number: Betweenness(board).scores,
    "dpv-once": lambda board, number: score_once(downstream_value(board, number)),
    "dpv": downstream_value,
    "lookahead": lambda board, number: Lookahead(board, SEED + number, FIRES).scores,
}


def plan(policy: str, number: int, instance: Instance, most: int) -> tuple[np.ndarray, float]:
    """Cells in order, [most] int16 (-1 where nothing is left that burns), and the seconds that choosing took."""
    board = Board(instance)
    order = np.full(most, -1, dtype=np.int16)
    start = time.perf_counter()
    scores = POLICIES[policy](board, number)
    for i in range(min(most, int(board.scenes.counts[0]))):
        order[i] = int(masked_argmax(scores(), board.mask)[0])
        board.place(int(order[i]))
    return order, time.perf_counter() - start


def work(policy: str, number: int, path: Path, out: Path) -> tuple[str, int, float]:
    """Plan one landscape and write it down, in a process of its own."""
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    instance = read_instances(path)[number]
    cells = instance.layers["slope"].size
    order, seconds = plan(policy, number, instance, count_breaks(max(BUDGETS), cells))
    write_arrays(name_part(out, policy, number), order=order, seconds=np.float64(seconds))
    return policy, number, seconds


def name_part(out: Path, policy: str, number: int) -> Path:
    return out / policy / f"{number:03d}.npz"


def write_arrays(path: Path, **arrays: Any) -> None:
    """Write a file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.stem}.{os.getpid()}.npz")
    np.savez_compressed(half, **arrays)
    half.replace(path)


def gather(out: Path, policy: str, count: int) -> bool:
    """One file of all landscapes of a policy, if all are there."""
    paths = [name_part(out, policy, number) for number in range(count)]
    if not all(path.exists() for path in paths):
        return False
    parts = [dict(np.load(path)) for path in paths]
    order = np.stack([part["order"] for part in parts])
    write_arrays(out / f"{policy}.npz", order=order, seconds=np.stack([part["seconds"] for part in parts]))
    return True


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--policies", nargs="+", choices=list(POLICIES), default=list(POLICIES))
    parser.add_argument("--landscapes", type=int, help="only this many, from the first on")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--instances", type=Path, default=INSTANCES)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("plans"))
    asked = parser.parse_args()
    count = len(read_instances(asked.instances))
    numbers = range(min(count, asked.landscapes or count))
    left = [(p, n) for p in asked.policies for n in numbers if not name_part(asked.out, p, n).exists()]
    took: dict[str, list[float]] = {policy: [] for policy in asked.policies}
    with ProcessPoolExecutor(asked.workers, multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(work, policy, number, asked.instances, asked.out) for policy, number in left]
        for done in as_completed(jobs):
            policy, number, seconds = done.result()
            took[policy].append(seconds)
            print(f"{policy} {number}: {seconds:.2f} s", flush=True)
    for policy, seconds_each in took.items():
        whole = gather(asked.out, policy, count)
        mean = f"{np.mean(seconds_each):.2f} s a landscape" if seconds_each else "nothing to do"
        print(f"{policy}: {mean}{', complete' if whole else ''}")


if __name__ == "__main__":
    main()
