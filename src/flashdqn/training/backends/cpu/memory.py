"""The memory of hand-written updates, and the tables that tell `mlp.py` and `mlp_halves.py` where it is."""

from __future__ import annotations

import math
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor, nn

from flashdqn.compute.gemm import LANES, ROWS
from flashdqn.training.backends.cpu import mlp as mlp_cpu
from flashdqn.training.backends.cpu import mlp_halves as mlp_halves_cpu

Numbers: TypeAlias = np.ndarray[Any, Any]

#: Up to this many inputs, every thread computes the whole first layer itself.
FEW_INPUTS = 64

#: Unused bytes behind a tensor. They are never touched, so they take no memory.
GAP = 1 << 16


class BySamples:
    """For any plain MLP: threads share samples, then rows of weights, then parameters."""

    kernel, stages = staticmethod(mlp_cpu.run_updates), mlp_cpu.STAGES

    def __init__(
        self, online: list[nn.Linear], target: list[nn.Linear], rows: int, width: int, at_once: int, length: int,
        threads: int,
    ) -> None:  # fmt: skip
        """`width`: of matrices of samples; `length`: of all parameters; `threads`: the largest number of them."""
        self._memory = Memory()
        self.layers = make_layer_table(self._memory, online, target)
        m = mlp_cpu
        x, next_x = (self._memory.new(online[0].in_features, width) for _ in range(2))
        for line in self.layers:
            out = int(line[m.OUT])
            line[m.X], line[m.NEXT_X] = x, next_x
            line[m.Y], line[m.NEXT_Y], line[m.DELTA] = (self._memory.new(out, width) for _ in range(3))
            line[m.BY_ROWS] = self._memory.new(rows, int(line[m.LINE]))
            x, next_x = line[m.Y], line[m.NEXT_Y]
        self.blocks = np.array(
            [
                (k, first, min(ROWS, layer.out_features - first))
                for k, layer in enumerate(online)
                for first in range(0, layer.out_features, ROWS)
            ]
        )
        weights = self.blocks[:, 2] * self.layers[self.blocks[:, 0], m.IN]
        before = np.cumsum(weights) - weights
        self._shares = {}
        for count in range(1, threads + 1):
            parts = np.linspace(0, 1, count + 1)
            blocks = [*np.searchsorted(before, parts[:-1] * weights.sum()), len(weights)]
            chunks, pieces = -(-rows // at_once), -(-length // m.PIECE)
            self._shares[count] = np.array([even_shares(chunks, count), blocks, even_shares(pieces, count)])
        self.between = np.zeros(rows, dtype=np.int64), np.zeros((2, rows)), np.zeros(len(self.blocks))

    def tables(self, threads: int) -> tuple[Numbers, ...]:
        """The first arguments of `kernel` after the worker and the number of threads."""
        return (self.layers, self.blocks, self._shares[threads], *self.between)


class ByHalves:
    """For two hidden layers and few inputs: each thread keeps its own rows of the large matrix."""

    kernel, stages = staticmethod(mlp_halves_cpu.run_updates_by_halves), mlp_halves_cpu.STAGES

    def __init__(
        self, online: list[nn.Linear], target: list[nn.Linear], rows: int, width: int, at_once: int, length: int,
        threads: int,
    ) -> None:  # fmt: skip
        m, memory = mlp_halves_cpu, Memory()
        self._memory = memory
        self.layers = make_layer_table(memory, online, target)
        inputs, first, second = (layer.in_features for layer in online)
        actions, lines = online[-1].out_features, self.layers[:, mlp_cpu.LINE].tolist()
        blocks, first_blocks = -(-second // m.BLOCK), -(-first // m.BLOCK)
        self.own = np.zeros((threads, m.OWN_COLUMNS), dtype=np.int64)
        for mine in self.own:
            for k in range(3):
                mine[m.INPUT + k] = memory.new(inputs, width)
                mine[m.HIDDEN + k] = memory.new(first, width)
                mine[m.VALUES + k] = memory.new(actions, width)
            mine[m.INPUT_ROWS], mine[m.HIDDEN_ROWS] = memory.new(rows, lines[0]), memory.new(rows, lines[1])
            mine[m.SLOPES], mine[m.ERRORS] = memory.new(actions, width), memory.new(rows)
            mine[m.CHOSEN] = memory.new(rows, dtype=torch.int64)
            mine[m.TERMS] = memory.new(2, rows, dtype=torch.float64)
        shared = self.shared = np.zeros(m.SHARED_COLUMNS, dtype=np.int64)
        for k in range(3):
            shared[m.SECOND + k] = memory.new(second, width)
            shared[m.PART_OF_Q + k] = memory.new(blocks, actions, width)
        shared[m.SECOND_ROWS], shared[m.DELTA] = memory.new(rows, lines[2]), memory.new(second, width)
        shared[m.HALVES], shared[m.FIRST_DELTA] = memory.new(2, first, width), memory.new(first, width)
        self.squares = np.zeros(blocks + first_blocks)
        parts = (blocks, blocks, 2 * first_blocks, first_blocks, -(-length // mlp_cpu.PIECE))
        self._shares = {
            count: np.array([even_shares(part, count) for part in parts]) for count in range(1, threads + 1)
        }

    @staticmethod
    def fits(layers: list[nn.Linear]) -> bool:
        """Whether this kind supports such a network."""
        return len(layers) == 3 and layers[0].in_features <= FEW_INPUTS

    def tables(self, threads: int) -> tuple[Numbers, ...]:
        """The first arguments of `kernel` after the worker and the number of threads."""
        return self.layers, self._shares[threads], self.own, self.shared, self.squares


class Memory:
    """Tensors at fixed addresses, far enough apart.

    A processor that walks through a matrix also fetches what lies behind it. If another core writes there, both
    wait for each other.
    """

    def __init__(self) -> None:
        self._tensors: list[Tensor] = []

    def new(self, *shape: int, dtype: torch.dtype = torch.float32) -> int:
        """The address of a new tensor of zeros."""
        gap = GAP // dtype.itemsize
        return self.keep(torch.zeros(math.prod(shape) + gap, dtype=dtype))

    def keep(self, tensor: Tensor) -> int:
        """The address of a tensor, which is kept."""
        self._tensors.append(tensor)
        return tensor.data_ptr()


def make_layer_table(memory: Memory, online: list[nn.Linear], target: list[nn.Linear]) -> Numbers:
    """A table of layers: sizes, addresses of parameters, and room for gradients of padded rows."""
    m = mlp_cpu
    table = np.zeros((len(online), m.LAYER_COLUMNS), dtype=np.int64)
    for line, layer, old in zip(table, online, target, strict=True):
        inputs, out = layer.in_features, layer.out_features
        line[m.IN], line[m.OUT] = inputs, out
        line[m.WEIGHT], line[m.BIAS] = layer.weight.data_ptr(), layer.bias.data_ptr()
        line[m.OLD_WEIGHT], line[m.OLD_BIAS] = old.weight.data_ptr(), old.bias.data_ptr()
        weight, bias = cast(Tensor, layer.weight.grad), cast(Tensor, layer.bias.grad)
        line[m.WEIGHT_GRAD], line[m.BIAS_GRAD] = weight.data_ptr(), bias.data_ptr()
        line[m.LINE] = -(-inputs // LANES) * LANES
        line[m.SCRATCH] = memory.new(out, int(line[m.LINE])) if line[m.LINE] > inputs else 0
    return table


def even_shares(parts: int, threads: int) -> Numbers:
    """Where each of `threads` threads begins, and the end."""
    return np.ceil(np.linspace(0, parts, threads + 1)).astype(np.int64)
