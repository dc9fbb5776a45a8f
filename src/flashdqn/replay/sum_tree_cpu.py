"""The sum tree on the CPU: the same results as `TorchSumTree`, compiled by Numba.

Here the cost of a level is its cache misses and additions, so blocks are narrow: one cache line of leaves.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.compute.native import compile_native
from flashdqn.replay.sum_tree import BELOW, Levels

WIDTH = 16


@inner
def refresh_node(
    level: Scalar, node: Scalar, leaves: Array, sums: Array, offsets: Array, bits: Scalar
) -> None:
    """Compute a node of a level from its children."""
    total = 0.0
    first = node << bits
    if level == 0:
        for child in range(first, first + (1 << bits)):
            total += leaves[child]
    else:
        first += offsets[level - 1]
        for child in range(first, first + (1 << bits)):
            total += sums[child]
    sums[offsets[level] + node] = total


@inner
def set_weights(
    index: Array, weight: Array, leaves: Array, sums: Array, offsets: Array, bits: Scalar
) -> None:
    """`SumTree.set`. Neighbors in a batch often share a block, which is then computed once."""
    for j in range(len(index)):
        leaves[index[j]] = 0.0
    for j in range(len(index)):
        leaves[index[j]] = max(leaves[index[j]], weight[j])
    for level in range(len(offsets)):
        done = -1
        for j in range(len(index)):
            node = index[j] >> (bits * (level + 1))
            if node != done:
                refresh_node(level, node, leaves, sums, offsets, bits)
                done = node


@inner
def set_ranges(first: Array, weight: Array, leaves: Array, sums: Array, offsets: Array, bits: Scalar) -> None:
    """`SumTree.set_rows`."""
    rows, span = weight.shape
    for r in range(rows):
        for j in range(span):
            leaves[first[r] + j] = weight[r, j]
    for level in range(len(offsets)):
        shift = bits * (level + 1)
        for r in range(rows):
            for node in range(first[r] >> shift, ((first[r] + span - 1) >> shift) + 1):
                refresh_node(level, node, leaves, sums, offsets, bits)


@inner
def find_child(mass: Scalar, total: Scalar, weights: Array, first: Scalar, width: Scalar) -> Any:
    """The first child of a block (of this sum) whose running sum exceeds the mass, and the mass left for it."""
    mass = min(mass, total * BELOW)
    upto = 0.0
    for child in range(width):
        weight = weights[first + child]
        upto += weight
        if upto > mass and weight > 0.0:
            return child, max(mass - (upto - weight), 0.0)
    return 0, mass


@inner
def find_leaves(mass: Array, found: Array, leaves: Array, sums: Array, offsets: Array, bits: Scalar) -> None:
    """`SumTree.find`."""
    width = 1 << bits
    for j in range(len(mass)):
        node, rest = 0, mass[j]
        for level in range(len(offsets) - 1, 0, -1):
            below = offsets[level - 1] + (node << bits)
            child, rest = find_child(rest, sums[offsets[level] + node], sums, below, width)
            node = (node << bits) + child
        child, rest = find_child(rest, sums[offsets[0] + node], leaves, node << bits, width)
        found[j] = (node << bits) + child


class NumbaSumTree:
    """In Numba, for the CPU."""

    def __init__(self, slots: int, width: int = WIDTH) -> None:
        self.levels = Levels(slots, width, torch.device("cpu"))
        levels, offsets = self.levels, np.array(self.levels.offsets)
        bits = width.bit_length() - 1
        self._tree = (levels.leaves.numpy(), levels.all_sums.numpy(), offsets, bits)
        whole, single, double = numba.int64[::1], numba.float32[::1], numba.float64[::1]
        tree = (single, double, whole, numba.int64)
        self._set = compile_native(set_weights, (whole, single, *tree))
        self._set_rows = compile_native(set_ranges, (whole, numba.float32[:, ::1], *tree))
        self._find = compile_native(find_leaves, (double, whole, *tree))

    def set(self, index: Tensor, weight: Tensor) -> None:
        """See `SumTree.set`."""
        self._set(index.numpy(), weight.numpy(), *self._tree)

    def set_rows(self, first: Tensor, weight: Tensor) -> None:
        """See `SumTree.set_rows`."""
        self._set_rows(first.numpy(), weight.numpy(), *self._tree)

    def find(self, mass: Tensor) -> Tensor:
        """See `SumTree.find`."""
        found = torch.empty_like(mass, dtype=torch.int64)
        self._find(mass.numpy(), found.numpy(), *self._tree)
        return found

    def rebuild(self) -> None:
        """See `SumTree.rebuild`: set all leaves as one row."""
        self.set_rows(torch.zeros(1, dtype=torch.int64), self.levels.leaves[None].clone())
