"""What the kernels are given: groups of tensors, and groups of numbers that are known when a kernel is compiled.

Groups of tensors are named tuples: Triton passes each of their fields as a pointer (none may be called `values` or
`type`, which Triton's own tuples have). Groups of numbers are frozen dataclasses, each one compile-time constant.
Triton finds a compiled kernel again by the text of these constants, so every number that a kernel reads is a field
here, and nothing is worked out by a property.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from flashdqn.core.types import Batch
from flashdqn.training.backends.cuda.network import Sizes
from flashdqn.training.backends.cuda.plans import UpdatePlan


class Samples(NamedTuple):
    """A batch of transitions."""

    obs: Tensor  # [B, D] float32 or uint8
    action: Tensor  # [B] int64
    reward: Tensor  # [B]
    discount: Tensor  # [B]
    next_obs: Tensor  # [B, D]
    mask: Tensor  # [B, A] uint8; any tensor where nothing is masked
    weight: Tensor  # [B]


class Workspace(NamedTuple):
    """What passes from one kernel to the next."""

    value_parts: Tensor  # [networks · slices, B, A]: parts of the action values
    hidden2: Tensor  # [B, H2]: the second hidden layer of online(obs)
    priority: Tensor  # [B]: |TD error|
    part_sums: Tensor  # [parts, 2]: sums of loss and Q(s, a)
    gradients: Tensor  # [chunks, stride]: the gradient of each chunk of rows
    gradient: Tensor  # [stride]: their sum; the same memory if there is one chunk
    squares: Tensor  # sums of squares of the parts of the gradient, for its norm
    corrections: Tensor  # [2]: Adam's bias corrections of this step


class JointWorkspace(NamedTuple):
    """The same for large batches. Rows are padded to whole tiles: S of them."""

    hidden1: Tensor  # [H1, S]: the first hidden layer of online(obs), transposed
    hidden2: Tensor  # [S, H2]: the second one; later ∂loss/∂h2 before its ReLU, δ2
    slopes2: Tensor  # [H2, S]: δ2, transposed
    weight2: Tensor  # [H1, H2]: W2, transposed
    priority: Tensor  # [B]
    part_sums: Tensor  # [tiles, 2]
    gradients: Tensor  # [tiles, small stride]: each row tile's gradient of everything but W2
    products: Tensor  # [chunks, H2 · H1]: each chunk's gradient of W2
    gradient: Tensor  # [P]: the sum of them
    squares: Tensor
    corrections: Tensor


class AdamState(NamedTuple):
    """What Adam reads and changes beside the parameters."""

    exp_avg: Tensor  # [P]
    exp_avg_sq: Tensor  # [P]
    step: Tensor  # scalar
    lr: Tensor  # scalar


class Statistics(NamedTuple):
    """What is counted over updates."""

    sums: Tensor  # [3]: loss, Q(s, a), norm of the gradient
    first_bad: Tensor  # scalar: the step of the first loss that was not finite, or −1


@dataclass(frozen=True)
class Layout:
    """Sizes of the network, sizes padded for the hardware, and where each matrix begins in the flat vector."""

    inputs: int  # D
    hidden1: int  # H1
    hidden2: int  # H2
    actions: int  # A
    padded_inputs: int  # matrix units want powers of two of at least 16
    padded_actions: int
    value_columns: int  # the least power of two that holds all actions
    bias1: int
    weight2: int
    bias2: int
    weight3: int
    bias3: int
    parameters: int  # P
    small_bias2: int  # where they are in a vector without W2
    small_weight3: int
    small_bias3: int
    small_parameters: int  # all but W2's
    small_stride: int


@dataclass(frozen=True)
class Rules:
    """What is computed: how many rows of which kind, by how many networks, with which loss and precision."""

    rows: int  # B
    byte_obs: bool  # observations are bytes, which are divided by 255
    masked: bool
    precision: str  # of matrix products: tf32, tf32x3 or ieee
    networks: int = 1  # forward passes: 2 (greedy target) or 3 (double)
    huber: float = 0.0  # where the loss becomes linear; 0: never
    slices: int = 0  # parts of each action value in `Workspace.value_parts`
    stride: int = 0  # rows padded to whole tiles, for large batches


@dataclass(frozen=True)
class ForwardTile:
    """What one program of a forward pass takes at a time."""

    rows: int
    columns: int  # units of the second hidden layer
    depth: int  # units of the first hidden layer


@dataclass(frozen=True)
class JointTile:
    """What one program of `joint_forward` or `joint_backward` takes at a time."""

    rows: int
    columns: int  # units of the second hidden layer, on the way forward
    depth: int  # units that are summed over
    units: int  # units of the first hidden layer, on the way back


@dataclass(frozen=True)
class ProductTiles:
    """How W2's gradient is cut: tiles of the matrix, and chunks of rows for each."""

    rows: int
    columns: int
    units: int
    tiles: int
    length: int  # rows of a chunk
    chunks: int
    product_programs: int  # of the sum over chunks


@dataclass(frozen=True)
class GradientTiles:
    """How the gradient is cut into tasks, one program each, for every chunk of rows."""

    chunks: int
    length: int  # rows of a chunk
    stride: int  # from one chunk's gradient to the next
    rows1: int  # W1's gradient: rows, units, and second-layer units at a time
    units1: int
    depth1: int
    rows2: int  # W2's gradient: rows, outputs and inputs
    columns2: int
    units2: int
    rows3: int  # W3's gradient: rows and columns
    columns3: int
    tasks1: int  # programs of a chunk for W1, for W2, and for everything
    tasks2: int
    tasks: int


@dataclass(frozen=True)
class AdamRules:
    """Clipping, Adam, the soft target, and how many numbers the statistics are added up from."""

    parameters: int
    size: int  # parameters of one program
    eps: float
    decay: float
    clip: float  # 0: no clipping
    tau: float  # 0: the target network does not change
    squares: int
    padded_squares: int
    parts: int
    padded_parts: int


def gather_samples(batch: Batch) -> Samples:
    """The batch as the kernels take it."""
    (obs, action, reward, discount, next_obs, next_mask, *_), weight, *_ = batch
    return Samples(obs, action, reward, discount, next_obs, mask_bytes(next_mask, obs), weight)


def make_layout(sizes: Sizes) -> Layout:
    """Where everything lies in the flat vector: W1 [H1, D], b1, W2 [H2, H1], b2, W3 [A, H2], b3."""
    d, h1, h2, a = sizes.inputs, sizes.hidden1, sizes.hidden2, sizes.actions
    bias1 = h1 * d
    weight2 = bias1 + h1
    bias2 = weight2 + h2 * h1
    weight3 = bias2 + h2
    bias3, without = weight3 + a * h2, h2 * h1
    small = bias3 + a - without
    return Layout(
        d, h1, h2, a, max(16, power_of_two(d)), max(16, power_of_two(a)), power_of_two(a),
        bias1, weight2, bias2, weight3, bias3, bias3 + a,
        bias2 - without, weight3 - without, bias3 - without, small, divide_up(small, 32) * 32,
    )  # fmt: skip


def cut_forward(plan: UpdatePlan, sizes: Sizes) -> ForwardTile:
    """The forward pass's blocks, cut down to the matrices."""
    return ForwardTile(plan.rows, min(plan.columns, sizes.hidden2), min(plan.depth, sizes.hidden1))


def cut_gradient(plan: UpdatePlan, sizes: Sizes, batch_size: int) -> GradientTiles:
    """The gradient's blocks, cut down to the matrices, and how many programs that makes."""
    h1, h2 = sizes.hidden1, sizes.hidden2
    rows1, units1, depth1 = plan.block1[0], min(plan.block1[1], h1), min(plan.block1[2], h2)
    rows2, columns2, units2 = plan.block2[0], min(plan.block2[1], h2), min(plan.block2[2], h1)
    rows3, columns3 = plan.block3[0], min(plan.block3[1], h2)
    block = max(rows1, rows2, rows3)
    length = divide_up(divide_up(batch_size, plan.chunks), block) * block
    tasks1, tasks2 = h1 // units1, (h2 // columns2) * (h1 // units2)
    return GradientTiles(
        divide_up(batch_size, length), length, divide_up(sizes.parameters, 128) * 128,
        rows1, units1, depth1, rows2, columns2, units2, rows3, columns3,
        tasks1, tasks2, tasks=tasks1 + tasks2 + h2 // columns3,
    )  # fmt: skip


def cut_joint(plan: UpdatePlan, sizes: Sizes) -> JointTile:
    """The blocks of both ways, cut down to the matrices."""
    least = min(sizes.hidden1, sizes.hidden2)
    return JointTile(
        plan.rows, min(plan.columns, sizes.hidden2), min(plan.depth, least), min(plan.units, sizes.hidden1)
    )


def cut_products(plan: UpdatePlan, sizes: Sizes, stride: int) -> ProductTiles:
    """The blocks of W2's gradient, cut down to the matrix, and how many programs that makes."""
    rows = min(plan.block2[0], plan.rows)  # so it divides the stride
    columns, units = min(plan.block2[1], sizes.hidden2), min(plan.block2[2], sizes.hidden1)
    length = divide_up(divide_up(stride, plan.chunks), rows) * rows
    products = sizes.hidden1 * sizes.hidden2
    return ProductTiles(
        rows, columns, units, (sizes.hidden2 // columns) * (sizes.hidden1 // units), length,
        divide_up(stride, length), divide_up(products, plan.reduce_size),
    )  # fmt: skip


def mask_bytes(mask: Tensor | None, instead: Tensor) -> Tensor:
    """A mask as bytes; if there is none, any tensor, which will not be read."""
    return instead if mask is None else mask.view(torch.uint8)


def divide_up(number: int, by: int) -> int:
    """The quotient, rounded up."""
    return -(-number // by)


def power_of_two(number: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << (number - 1).bit_length()
