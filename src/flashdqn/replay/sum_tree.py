"""Weights of many slots, their sum, and the slot that a mass falls on: sums over blocks, over blocks of blocks, …

    total                     Σ                                one block
    sums[1]         Σ         Σ     …                          `width` children each
    sums[0]     Σ   Σ   Σ   Σ   Σ   …
    leaves     w w w w w w w w w w w w …

A sum is always computed from its children, never by adding differences, so errors do not accumulate.

Leaves are float32, sums and masses float64. With sums in float32 a tree of 10^7 equal leaves would reach only every
other one (a float32 has 2^24 ≈ 1.7·10^7 steps), and a block's share would be off by 10^-6. In float64 the share of
a leaf is right to about 10^-13 of the total, whatever the range of the weights.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor

#: A mass at the very end of a block is moved below its end by this factor. So rounding never pushes it beyond
#: the last positive weight: the sum of 1024 numbers is right to 2^-43 in any order of summation.
BELOW = 1.0 - 2.0**-40


class SumTree(Protocol):
    """What prioritized sampling needs from a tree. No method reads a tensor's value."""

    levels: Levels

    def set(self, index: Tensor, weight: Tensor) -> None:
        """Give the leaves at `index`, [B] int64, new weights, [B] float32 ≥ 0.

        If a leaf gets several weights, the largest wins.
        """

    def set_rows(self, first: Tensor, weight: Tensor) -> None:
        """Give R ranges of N consecutive leaves new weights, [R, N], starting at `first`, [R]; none overlap."""

    def find(self, mass: Tensor) -> Tensor:
        """The leaf, [B], at which the weights so far first exceed each mass, [B] float64, 0 ≤ mass < total.

        It never has weight 0, unless all have. Beyond the total it is the last leaf with a positive weight.
        """

    def rebuild(self) -> None:
        """Compute every sum again from `levels.leaves`."""


class Levels:
    """The numbers of a tree. Every level except the top is padded with zero weights to whole blocks."""

    def __init__(self, slots: int, width: int, device: torch.device) -> None:
        if width < 2 or width & (width - 1):
            raise ValueError(f"A sum tree's width must be a power of 2, not {width}.")
        self.slots, self.width = slots, width
        self.sizes = level_sizes(slots, width)
        inner = self.sizes[1:]
        self.offsets = [0, *accumulate(inner)][:-1]
        self.leaves = torch.zeros(self.sizes[0], device=device)
        self.all_sums = torch.zeros(sum(inner), dtype=torch.float64, device=device)
        self.sums: list[Tensor] = list(torch.split(self.all_sums, inner))

    @property
    def total(self) -> Tensor:
        """The sum of all weights, []."""
        return self.sums[-1][0]


def level_sizes(slots: int, width: int) -> list[int]:
    """Number of nodes per level, from the leaves up to the single top node."""
    sizes = [-(-slots // width) * width]
    while sizes[-1] > 1:
        blocks = sizes[-1] // width
        sizes.append(1 if blocks == 1 else -(-blocks // width) * width)
    return sizes


def tree_bytes(slots: int, width: int) -> int:
    """Bytes that a tree will take, known before it is created."""
    leaves, *inner = level_sizes(slots, width)
    return 4 * leaves + 8 * sum(inner)


def cuda_width(slots: int) -> int:
    """Two levels of blocks up to a million slots, three up to a billion.

    On a GPU the cost of a level is its kernel launches, however wide it is: few wide levels are best.
    """
    depth = 2 if slots <= 2**20 else 3
    return int(2 ** max(4, math.ceil(math.log2(max(slots, 2)) / depth)))


class TorchSumTree:
    """In plain torch, for any device: static shapes and nothing read back, so a CUDA graph can hold it."""

    def __init__(self, slots: int, device: torch.device, width: int | None = None) -> None:
        self.levels = Levels(slots, width or cuda_width(slots), device)

    def set(self, index: Tensor, weight: Tensor) -> None:
        """See `SumTree.set`; a maximum does not depend on the order of the threads."""
        leaves = self.levels.leaves
        leaves.index_fill_(0, index, 0.0)
        leaves.scatter_reduce_(0, index, weight, "amax")
        node = index
        for level in range(len(self.levels.sums)):
            node = node // self.levels.width
            self._refresh(level, node)

    def set_rows(self, first: Tensor, weight: Tensor) -> None:
        """See `SumTree.set_rows`. Rows touch few blocks, at most the number for the worst position."""
        width, span = self.levels.width, weight.shape[1]
        index = first[:, None] + torch.arange(span, device=first.device)
        self.levels.leaves.index_copy_(0, index.flatten(), weight.flatten())
        for level in range(len(self.levels.sums)):
            first = first // width
            span = -(-(span - 1) // width) + 1
            node = first[:, None] + torch.arange(span, device=first.device)
            self._refresh(level, node.flatten().clamp_(max=self.levels.sizes[level] // width - 1))

    def find(self, mass: Tensor) -> Tensor:
        """See `SumTree.find`: from the top down, the first child whose running sum exceeds the mass."""
        node = torch.zeros_like(mass, dtype=torch.int64)
        for children in (*self.levels.sums[-2::-1], self.levels.leaves):
            blocks = children.view(-1, self.levels.width)
            block = blocks if len(blocks) == 1 else blocks[node]  # [1 or B, W]
            upto = block.cumsum(1, dtype=torch.float64)
            mass = torch.minimum(mass, upto[:, -1] * BELOW)
            # Parallel summation may round a running sum up at a child of weight 0: that child does not count.
            inside = (upto > mass[:, None]) & (block > 0)  # [B, W]
            child = inside.view(torch.uint8).argmax(1)
            before = (upto - block).expand(inside.shape).gather(1, child[:, None])[:, 0]
            mass = (mass - before).clamp_(min=0.0)
            node = node * self.levels.width + child
        return node

    def rebuild(self) -> None:
        """See `SumTree.rebuild`."""
        for level in range(len(self.levels.sums)):
            blocks = self.levels.sizes[level] // self.levels.width
            self._refresh(level, torch.arange(blocks, device=self.levels.leaves.device))

    def _refresh(self, level: int, node: Tensor) -> None:
        """Compute nodes of a level from their children; a node that is listed twice gets the same value twice."""
        sums = self.levels.sums[level]
        blocks = (self.levels.sums[level - 1] if level else self.levels.leaves).view(-1, self.levels.width)
        if len(blocks) == 1:
            torch.sum(blocks, 1, dtype=torch.float64, out=sums)
        else:
            sums[node] = blocks[node].sum(1, dtype=torch.float64)
