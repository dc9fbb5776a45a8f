"""The memory of `variants.py`: a table of layers of any kind, and rooms for what lies between forward and
backward."""

from __future__ import annotations

import itertools
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor, nn

from flashdqn.compute.gemm import LANES, ROWS
from flashdqn.networks.noisy import NoisyLinear, signed_root
from flashdqn.training.backends.cpu import layer_columns as columns
from flashdqn.training.backends.cpu import mlp, variants
from flashdqn.training.backends.cpu.memory import Memory, even_shares
from flashdqn.training.backends.cpu.networks import LayerPlan, LinearLayer, Rows

Numbers: TypeAlias = np.ndarray[Any, Any]

#: Rows that heads need for sums over a sample's numbers.
SUM_ROWS = 6


class ByLayers:
    """Threads share samples, then rows of weights, then parameters, as in `memory.BySamples`."""

    stages = variants.STAGES

    def __init__(
        self, online: LayerPlan, target: LayerPlan, numbers_per_action: int, rows: int, width: int, at_once: int,
        length: int, threads: int,
    ) -> None:  # fmt: skip
        self._memory = Memory()
        self.layers = make_table(self._memory, online)
        add_gradients(self.layers, self._memory, online)
        add_target(self.layers, self._memory, online, target)
        add_activations(self.layers, self._memory, online, rows, width)
        self.rooms = make_rooms(self._memory, online, numbers_per_action, width)
        self.blocks = np.array(list_blocks(online))
        inputs = np.where(self.blocks[:, 3], 1, self.layers[self.blocks[:, 0], mlp.IN])
        weights = self.blocks[:, 2] * inputs * self.layers[self.blocks[:, 0], columns.REPEAT]
        noise = 2 * len(self.blocks) if online.is_noisy else 0
        self._shares = {}
        for count in range(1, threads + 1):
            before, parts = np.cumsum(weights) - weights, np.linspace(0, 1, count + 1)
            blocks = [*np.searchsorted(before, parts[:-1] * weights.sum()), len(weights)]
            chunks, pieces = -(-rows // at_once), -(-length // mlp.PIECE)
            shares = [even_shares(part, count) for part in (noise, chunks, pieces)]
            self._shares[count] = np.array([shares[0], shares[1], blocks, shares[2]])
        self.between = np.zeros(rows, dtype=np.int64), np.zeros((2, rows)), np.zeros(len(self.blocks))

    def tables(self, threads: int) -> tuple[Numbers, ...]:
        """The first arguments of the kernel after the worker and the number of threads."""
        return (self.layers, self.blocks, self._shares[threads], *self.between, self.rooms)


def make_rooms(memory: Memory, plan: LayerPlan, size: int, width: int) -> Numbers:
    """Matrices for what lies between forward and backward."""
    c, actions = columns, plan.layers[-1].outputs // size
    heights = {
        c.SPARE: max(layer.inputs for layer in plan.layers), c.SUMS: SUM_ROWS, c.Q: actions, c.POLICY: actions,
        c.GOAL: size, c.PICKED: size, c.CHANCE: size, c.REWARDS: 1,
    }  # fmt: skip
    return np.array([memory.new(heights[k], width) for k in range(c.ROOMS)])


def is_unbiased(layer: LinearLayer) -> bool:
    """Whether a layer has no bias."""
    return isinstance(layer.linear, nn.Linear) and layer.linear.bias is None


def list_blocks(plan: LayerPlan) -> list[tuple[int, int, int, bool]]:
    """Rows whose gradient is computed at a time: layer, first row, rows, and whether they are those of its norm."""
    return [
        (k, first, min(ROWS, layer.outputs - first), of_norm)
        for k, layer in enumerate(plan.layers)
        for of_norm in ((False, True) if layer.norm is not None else (False,))
        for first in range(0, layer.outputs, ROWS)
    ]


def make_table(memory: Memory, plan: LayerPlan) -> Numbers:
    """A line for each layer: sizes, parents, and the addresses of the online network's parameters. Noisy layers
    have memory of their own for effective weights, and the place of their noise, in bytes."""
    c = columns
    table = np.zeros((len(plan.layers), c.COLUMNS), dtype=np.int64)
    gated = {layer.writes.matrix for layer in plan.layers if layer.follows == "relu"}
    if plan.attention is not None:
        gated.add(plan.attention.weighted)
    noise = 0
    for line, layer in zip(table, plan.layers, strict=True):
        line[mlp.IN], line[mlp.OUT] = layer.inputs, layer.outputs
        line[c.READS_OBS], line[c.INPUTS] = layer.reads.matrix < 0, plan.inputs
        line[c.FOLLOWS] = {"nothing": c.NOTHING, "relu": c.RELU, "tanh": c.TANH}[layer.follows]
        line[c.REPEAT], line[c.UNBIASED] = layer.repeat, is_unbiased(layer)
        line[c.GATED] = layer.reads.matrix in gated
        if isinstance(own := layer.linear, NoisyLinear):
            line[mlp.WEIGHT], line[mlp.BIAS] = memory.new(own.outputs, own.inputs), memory.new(own.outputs)
            line[c.MEAN], line[c.BIAS_MEAN] = find_places(own.weight_mean, own.bias_mean)
            line[c.SIGMA], line[c.BIAS_SIGMA] = find_places(own.weight_sigma, own.bias_sigma)
            line[c.NOISE_IN], line[c.NOISE_OUT] = noise, noise + 4 * own.inputs
            noise += 4 * (own.inputs + own.outputs)
        else:
            line[mlp.WEIGHT], line[mlp.BIAS] = (
                own.weight.data_ptr(),
                find_or_make(memory, own.bias, own.out_features),
            )
        if layer.norm is not None:
            line[c.NORM], line[c.NORM_BIAS] = find_places(layer.norm.weight, layer.norm.bias)
    if plan.attention is not None:
        line = table[plan.attention.scores]
        line[c.BRANCHES] = len(plan.attention.widths)
        line[c.BOUNDS] = memory.keep(torch.tensor([0, *itertools.accumulate(plan.attention.widths)]))
    return table


def add_gradients(table: Numbers, memory: Memory, plan: LayerPlan) -> None:
    """The addresses of the gradients; what plain layers have for weights, noisy ones have for means."""
    c = columns
    for line, layer in zip(table, plan.layers, strict=True):
        if isinstance(own := layer.linear, NoisyLinear):
            line[mlp.WEIGHT_GRAD], line[mlp.BIAS_GRAD] = find_gradients(own.weight_mean, own.bias_mean)
            line[c.SIGMA_GRAD], line[c.BIAS_SIGMA_GRAD] = find_gradients(own.weight_sigma, own.bias_sigma)
        else:
            line[mlp.WEIGHT_GRAD] = find_gradients(own.weight)[0]
            bias = None if own.bias is None else own.bias.grad
            line[mlp.BIAS_GRAD] = find_or_make(memory, bias, own.out_features)
        if layer.norm is not None:
            line[c.NORM_GRAD], line[c.NORM_BIAS_GRAD] = find_gradients(layer.norm.weight, layer.norm.bias)
        padded = line[mlp.LINE] = -(-layer.inputs // LANES) * LANES
        needs_scratch = padded > layer.inputs or layer.repeat > 1 or line[c.UNBIASED]
        line[mlp.SCRATCH] = memory.new(layer.outputs, int(padded)) if needs_scratch else 0


def add_target(table: Numbers, memory: Memory, online: LayerPlan, target: LayerPlan) -> None:
    """The addresses of the target network's parameters; its noise comes after that of the online network."""
    c = columns
    noisy = [layer for layer in online.layers if isinstance(layer.linear, NoisyLinear)]
    noise = sum(4 * (layer.inputs + layer.outputs) for layer in noisy)
    if target.layers[0].linear is online.layers[0].linear:  # there is no separate target
        noise = 0
    for line, layer in zip(table, target.layers, strict=True):
        if isinstance(layer.linear, NoisyLinear):
            own = layer.linear
            line[mlp.OLD_WEIGHT] = memory.new(layer.outputs, layer.inputs)
            line[mlp.OLD_BIAS] = memory.new(layer.outputs)
            line[c.OLD_MEAN], line[c.OLD_BIAS_MEAN] = find_places(own.weight_mean, own.bias_mean)
            line[c.OLD_SIGMA], line[c.OLD_BIAS_SIGMA] = find_places(own.weight_sigma, own.bias_sigma)
            line[c.OLD_NOISE_IN], line[c.OLD_NOISE_OUT] = noise, noise + 4 * layer.inputs
            noise += 4 * (layer.inputs + layer.outputs)
        else:
            line[mlp.OLD_WEIGHT] = layer.linear.weight.data_ptr()
            line[mlp.OLD_BIAS] = find_or_make(memory, layer.linear.bias, layer.outputs)
        if layer.norm is not None:
            line[c.OLD_NORM], line[c.OLD_NORM_BIAS] = find_places(layer.norm.weight, layer.norm.bias)


#: The columns for a pass that goes back later, and for one that does not: input, output, and those of attention.
SEEN = mlp.X, mlp.Y, columns.JOINED, columns.WEIGHTED
NEXT = mlp.NEXT_X, mlp.NEXT_Y, columns.NEXT_JOINED, columns.NEXT_WEIGHTED


def make_matrices(memory: Memory, plan: LayerPlan, width: int) -> list[int]:
    """The addresses of the matrices that a network's layers read and write; last: the observations."""
    return [memory.new(height, width) for height in (*plan.heights, plan.inputs)]


def place_outputs(
    table: Numbers, plan: LayerPlan, matrices: list[int], width: int, into: tuple[int, ...]
) -> None:
    """Where each layer reads and writes, for one kind of pass: `SEEN` or `NEXT`."""
    x, y, joined, weighted = into
    for line, layer in zip(table, plan.layers, strict=True):
        line[x], line[y] = find_rows(matrices, layer.reads, width), find_rows(matrices, layer.writes, width)
    if plan.attention is not None:
        line = table[plan.attention.scores]
        line[joined], line[weighted] = matrices[plan.attention.joined], matrices[plan.attention.weighted]


def find_rows(matrices: list[int], rows: Rows, width: int) -> int:
    """The address of the first of some rows."""
    return matrices[rows.matrix] + 4 * rows.first * width


def add_activations(table: Numbers, memory: Memory, plan: LayerPlan, rows: int, width: int) -> None:
    """Memory for inputs, outputs and slopes of every layer."""
    c = columns
    seen, following, slopes = (make_matrices(memory, plan, width) for _ in range(3))
    place_outputs(table, plan, seen, width, SEEN)
    place_outputs(table, plan, following, width, NEXT)
    readers: dict[Rows, int] = {}  # the first layer that reads them
    for k, layer in enumerate(plan.layers):
        line = table[k]
        line[c.BACK], line[mlp.DELTA] = (
            find_rows(slopes, place, width) for place in (layer.reads, layer.writes)
        )
        first = readers.setdefault(layer.reads, k)
        line[c.ROWS_SHARED] = first != k
        line[mlp.BY_ROWS] = (
            memory.new(rows * layer.repeat, int(line[mlp.LINE])) if first == k else table[first, mlp.BY_ROWS]
        )
        if layer.norm is not None:
            line[c.NORM_DELTA] = line[mlp.DELTA]
            line[c.NORMAL], line[mlp.DELTA] = (memory.new(layer.outputs, width) for _ in range(2))
            line[c.SCALE] = memory.new(1, width)
    weighed = plan.attention
    if weighed is not None:
        line = table[weighed.scores]
        line[c.JOINED_DELTA], line[c.WEIGHTED_DELTA] = slopes[weighed.joined], slopes[weighed.weighted]
    writers: set[Rows] = set()
    for k in reversed(range(len(plan.layers))):  # in the order of the backward pass
        reads = plan.layers[k].reads
        by_attention = weighed is not None and reads.matrix == weighed.joined
        table[k, c.ADDS] = reads in writers or by_attention
        writers.add(reads)


def find_places(*tensors: Tensor) -> list[int]:
    """The addresses of tensors."""
    return [tensor.data_ptr() for tensor in tensors]


def find_or_make(memory: Memory, bias: Tensor | None, length: int) -> int:
    """The address of a bias, or of zeros where a layer has none."""
    return memory.new(length) if bias is None else bias.data_ptr()


def find_gradients(*parameters: Tensor) -> list[int]:
    """The addresses of the gradients of parameters."""
    return [cast(Tensor, parameter.grad).data_ptr() for parameter in parameters]


def list_noise(*plans: LayerPlan) -> list[Tensor]:
    """The noise of all noisy layers, in the order of `networks.noisy.Noise`."""
    layers: list[LinearLayer] = [layer for plan in plans for layer in plan.layers]
    noisy = [layer.linear for layer in layers if isinstance(layer.linear, NoisyLinear)]
    return [buffer for layer in noisy for buffer in (layer.noise_in, layer.noise_out)]


class NoiseRows:
    """The noise of several updates, drawn as `Noise.resample` would before each of them."""

    def __init__(self, buffers: list[Tensor], generator: torch.Generator | None) -> None:
        self.buffers, self.generator = buffers, generator
        self.sizes = [len(buffer) for buffer in buffers]
        self._held: dict[int, Tensor] = {}

    def hold(self, count: int) -> Tensor:
        """Memory for `count` updates, [count, all noise]: always the same for the same `count`."""
        if count not in self._held:
            self._held[count] = torch.zeros(count, sum(self.sizes))
        return self._held[count]

    def take_current(self) -> None:
        """One update with the noise that the layers have now."""
        torch.cat(self.buffers, out=self.hold(1)[0])

    def draw(self, count: int) -> None:
        """New noise for every update; the layers keep the last one, as the policy expects."""
        rows = self.hold(count)
        for row in rows:
            row.normal_(generator=self.generator)
        rows.copy_(signed_root(rows))
        torch._foreach_copy_(self.buffers, torch.split(rows[-1], self.sizes))
