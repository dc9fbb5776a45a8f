"""What burns behind a cell on CUDA: a block of threads per fire, in memory on the chip.

`downstream.add_up_downstream` removes the leaves of a tree one by one. Here every thread starts at the leaves among
its cells and climbs: it adds what burns behind a cell to the cell before, and goes on from there if it was the last
one to come. Sums are whole numbers, so every order of work ends with the same ones.
"""

from __future__ import annotations

import numpy as np

from flashdqn.compute.kernels import Array, Scalar, import_numba_cuda
from flashdqn.envs.fuelbreaks.fire.blocks import cuda_function
from flashdqn.envs.fuelbreaks.fire.downstream import flow_byte
from flashdqn.envs.fuelbreaks.fire.layout import INFINITE, NO_PARENT

cuda = import_numba_cuda()

THREADS = 128
#: Cells of the largest landscape whose fires fit on the chip, with two numbers of four bytes for each.
MOST_CELLS = 4096
LEAF = -1


@cuda_function
def climb_from_leaf(
    b: Scalar, f: Scalar, leaf: Scalar, parent: Array, step: Array, children: Array, behind: Array
) -> None:
    """Add what burns behind a leaf to all cells before it that have no other children to wait for."""
    cell, amount, last = leaf, behind[leaf], True
    while last and parent[b, f, cell] != NO_PARENT:
        cell -= step[parent[b, f, cell]]
        cuda.atomic.add(behind, cell, amount)
        cuda.threadfence_block()
        last = cuda.atomic.add(children, cell, -1) == 1
        amount = cuda.atomic.add(behind, cell, 0)


@cuda_function
def add_fire(
    n: Scalar, thread: Scalar, threads: Scalar, table: Array, ignition: Array, arrival: Array, parent: Array,
    step: Array, worth: Array, total: Array,
) -> None:  # fmt: skip
    """Add what is lost at each cell and behind it in fire `n` to the total of its board."""
    fires, cells = ignition.shape[1], arrival.shape[2]
    b, f = n // fires, n % fires
    children = cuda.shared.array(MOST_CELLS, np.int32)
    behind = cuda.shared.array(MOST_CELLS, np.int32)
    for c in range(thread, cells, threads):
        children[c] = 0
        behind[c] = worth[table[b], c] if arrival[b, f, c] != INFINITE else 0
    cuda.syncthreads()
    for c in range(thread, cells, threads):
        if parent[b, f, c] != NO_PARENT:
            cuda.atomic.add(children, c - step[parent[b, f, c]], 1)
    cuda.syncthreads()
    for c in range(thread, cells, threads):
        if children[c] == 0:
            children[c] = LEAF
    cuda.syncthreads()
    for c in range(thread, cells, threads):
        if children[c] == LEAF:
            climb_from_leaf(b, f, c, parent, step, children, behind)
    cuda.syncthreads()
    for c in range(thread, cells, threads):
        if behind[c] != 0:
            cuda.atomic.add(total, (b, c), np.int64(behind[c]))


@cuda_function
def write_flow(
    b: Scalar, thread: Scalar, threads: Scalar, table: Array, ignition: Array, whole: Array, total: Array,
    first: Array, obs: Array,
) -> None:  # fmt: skip
    """Write the totals of a board into its observation, and clear them: see `downstream.observe_flow`."""
    cells = total.shape[1]
    unit = np.int64(ignition.shape[1]) * whole[table[b]]
    for c in range(thread, cells, threads):
        obs[b, first[0] + c] = np.uint8(flow_byte(total[b, c] * cells, unit))
        total[b, c] = 0
