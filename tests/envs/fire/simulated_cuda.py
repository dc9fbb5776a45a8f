"""Runs the CUDA code of the fire in Numba's simulator, with NUMBA_ENABLE_CUDASIM=1, beside the CPU's: run by
a test.

The simulator executes plain Python with a thread for every CUDA thread: slow, but it is the very source.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from fire_twin import random_tables
from numba import cuda

from flashdqn.envs.fuelbreaks.fire import blocks
from flashdqn.envs.fuelbreaks.fire.spread import BURN, KEEP, Spread

THREADS = 4
DRIVER = "def driver(*arrays): play(cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x, *arrays)"


def simulated_kernel(name: str):
    """A kernel that calls a function of blocks.py in its own namespace.

    The simulator lends each function that it wraps a module `cuda`, and takes it back when a thread returns. So the
    functions are unwrapped, and only the kernel is wrapped.
    """
    space = vars(blocks)
    for function, value in list(space.items()):
        space[function] = getattr(value, "fn", value)
    exec(DRIVER.replace("driver", f"driver_{name}").replace("play", name), space)
    return cuda.jit(space[f"driver_{name}"])


def main(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns, boards, fires = 5, 6, 3, 1
    tables = random_tables(rng, rows, columns, count=2)
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
    arrays = [tensor.numpy() for tensor in simulated]
    commands = [torch.full((boards,), BURN), torch.tensor([KEEP, 8, 9])]
    commands += [torch.from_numpy(rng.integers(0, rows * columns, boards)) for _ in range(3)]
    for command in commands:
        spread.command.copy_(command)
        prepare[boards, THREADS](*arrays)
        run[boards * fires, THREADS](*arrays)
        spread.launch()
        for name in ("breaks", "passable", "arrival", "burned"):
            assert torch.equal(getattr(simulated, name), getattr(spread._arrays, name)), name
    sys.stdout.write(f"equal, {int(spread.burned.sum())} burned\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
