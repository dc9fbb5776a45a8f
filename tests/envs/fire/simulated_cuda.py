"""Runs the CUDA code of the fire in Numba's simulator, with NUMBA_ENABLE_CUDASIM=1, beside the CPU's: run by
a test.

The simulator executes plain Python with a thread for every CUDA thread: slow, but it is the very source.
"""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import torch
from fire_twin import random_tables
from numba import cuda

from flashdqn.compute.kernels import Kernel
from flashdqn.envs.fuelbreaks.fire import blocks, flow_blocks
from flashdqn.envs.fuelbreaks.fire.downstream import observe_flow
from flashdqn.envs.fuelbreaks.fire.spread import BURN, KEEP, Spread

THREADS = 4
DRIVER = "def driver(*arrays): play(cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x, *arrays)"


def simulated_kernel(name: str, module: ModuleType = blocks):
    """A kernel that calls a function of a module in its own namespace.

    The simulator lends each function that it wraps a module `cuda`, and takes it back when a thread returns. So the
    functions are unwrapped, and only the kernel is wrapped.
    """
    space = vars(module)
    for function, value in list(space.items()):
        space[function] = getattr(value, "fn", getattr(value, "py_func", value))
    exec(DRIVER.replace("driver", f"driver_{name}").replace("play", name), space)
    return cuda.jit(space[f"driver_{name}"])


class FlowPair:
    """What burns behind each cell, by blocks of threads in the simulator, and one fire after the other."""

    def __init__(self, spread: Spread) -> None:
        n, fires, cells = spread.arrival.shape
        whole = spread.tables.worth.sum(1)
        total, first = torch.zeros(n, cells, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
        self.seen, self.expected = (torch.zeros(n, cells, dtype=torch.uint8) for _ in range(2))
        work = [torch.zeros(n, cells, dtype=torch.int32) for _ in range(2)]
        fire = (
            spread.table,
            spread.ignition,
            spread.arrival,
            spread.parent,
            spread.step,
            spread.tables.worth,
        )
        self.serial = Kernel(observe_flow).bind(
            n, *fire, whole, *work, torch.zeros_like(total), first, self.expected
        )
        self.add, self.write = (simulated_kernel(name, flow_blocks) for name in ("add_fire", "write_flow"))
        self.fire = [tensor.numpy() for tensor in (*fire, total)]
        self.board = [
            tensor.numpy() for tensor in (spread.table, spread.ignition, whole, total, first, self.seen)
        ]
        self.blocks = n * fires, n

    def compare(self) -> None:
        self.serial()
        self.add[self.blocks[0], THREADS](*self.fire)
        self.write[self.blocks[1], THREADS](*self.board)
        assert torch.equal(self.seen, self.expected)


def main(seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    rows, columns, boards, fires = 5, 6, 3, 2
    tables = random_tables(rng, rows, columns, count=2, whole=ties)
    spread = Spread(tables, boards, fires, duration=30.0)
    spread.table.copy_(torch.tensor([0, 1, 0]))
    spread.ignition.copy_(torch.from_numpy(rng.integers(-1, rows * columns, (boards, fires))))
    spread.breaks.copy_(torch.from_numpy(rng.random((boards, rows * columns)) < 0.1))
    simulated = spread._arrays._replace(
        work=torch.zeros(boards * fires, 1, rows * columns, dtype=torch.int32)
    )
    own = ("breaks", "passable", "arrival", "parent", "burned")
    simulated = simulated._replace(**{name: getattr(simulated, name).clone() for name in own})
    prepare, run = simulated_kernel("prepare_board"), simulated_kernel("run_fire")
    flow = FlowPair(spread)
    arrays = [tensor.numpy() for tensor in simulated]
    commands = [torch.full((boards,), BURN), torch.tensor([KEEP, 8, 9])]
    commands += [torch.from_numpy(rng.integers(0, rows * columns, boards)) for _ in range(3)]
    for command in commands:
        spread.command.copy_(command)
        prepare[boards, THREADS](*arrays)
        run[boards * fires, THREADS](*arrays)
        spread.launch()
        for name in ("breaks", "passable", "arrival", "parent", "burned"):
            assert torch.equal(getattr(simulated, name), getattr(spread._arrays, name)), name
        flow.compare()
    sys.stdout.write(f"equal, {int(spread.burned.sum())} burned\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), ties=sys.argv[2] == "ties")
