"""Attention over the branches of `networks.branches`, forward and backward: α = softmax(scores), and branch i
counts n α_i times. `layers.py` computes keys and scores, as layers like all others."""

from __future__ import annotations

from flashdqn.compute.gemm import never_inlined, view_float_row, view_matrix_like
from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.compute.vector_math import exp_float
from flashdqn.training.backends.cpu.layer_columns import (
    BOUNDS,
    BRANCHES,
    JOINED,
    JOINED_DELTA,
    NEXT_JOINED,
    NEXT_WEIGHTED,
    WEIGHTED,
    WEIGHTED_DELTA,
    add_row,
    fill_row,
)
from flashdqn.training.backends.cpu.mlp import AT_ONCE, DELTA, NEXT_Y, OUT, SINGLE, WIDTH, Y


@never_inlined
def apply_tanh(layer: Array, y: Scalar, width: Scalar, first: Scalar, count: Scalar) -> None:
    """y = tanh(y), in place."""
    for i in range(layer[OUT]):
        row = view_float_row(y, i, width, first, count)
        for b in range(count):
            row[b] = SINGLE(1.0) - SINGLE(2.0) / (exp_float(row[b] + row[b]) + SINGLE(1.0))


@never_inlined
def back_through_tanh(layer: Array, width: Scalar, first: Scalar, count: Scalar) -> None:
    """From ∂loss / ∂tanh to ∂loss / ∂(the layer's sums), in place: its derivative is 1 − tanh²."""
    for i in range(layer[OUT]):
        slope = view_float_row(layer[DELTA], i, width, first, count)
        output = view_float_row(layer[Y], i, width, first, count)
        for b in range(count):
            slope[b] *= SINGLE(1.0) - output[b] * output[b]


@never_inlined
def weigh_branches(layer: Array, sizes: Array, sums: Scalar, seen: Scalar, first: Scalar) -> None:
    """Scores become α, in place, and the branches are weighted."""
    width, count, branches = sizes[WIDTH], sizes[AT_ONCE], layer[BRANCHES]
    scores = layer[Y] if seen else layer[NEXT_Y]
    joined, weighted = (
        (layer[JOINED], layer[WEIGHTED]) if seen else (layer[NEXT_JOINED], layer[NEXT_WEIGHTED])
    )
    bounds = view_matrix_like(layer[BOUNDS], 1, branches + 1, sizes)[0]
    highest, total = (
        view_float_row(sums, 0, width, first, count),
        view_float_row(sums, 1, width, first, count),
    )
    weight = view_float_row(sums, 2, width, first, count)
    fill_row(total, SINGLE(0.0))
    find_highest(highest, scores, branches, width, first, count)
    for i in range(branches):
        row = view_float_row(scores, i, width, first, count)
        for b in range(count):
            row[b] = exp_float(row[b] - highest[b])
            total[b] += row[b]
    for i in range(branches):
        row = view_float_row(scores, i, width, first, count)
        for b in range(count):
            row[b] /= total[b]
            weight[b] = SINGLE(branches) * row[b]
        for f in range(bounds[i], bounds[i + 1]):
            multiply_rows(
                view_float_row(weighted, f, width, first, count),
                view_float_row(joined, f, width, first, count),
                weight,
            )


@inner
def find_highest(
    to: Array, scores: Scalar, branches: Scalar, width: Scalar, first: Scalar, count: Scalar
) -> None:
    """The highest score of each sample."""
    fill_row(to, SINGLE(-3.4e38))
    for i in range(branches):
        row = view_float_row(scores, i, width, first, count)
        for b in range(count):
            to[b] = row[b] if row[b] > to[b] else to[b]


@inner
def multiply_rows(to: Array, one: Array, other: Array) -> None:
    """to = one · other."""
    for b in range(len(to)):
        to[b] = one[b] * other[b]


@never_inlined
def back_through_weights(layer: Array, sizes: Array, sums: Scalar, first: Scalar) -> None:
    """From ∂loss / ∂(weighted branches) to that of the scores and of the branches, as far as the weights are given:
    ∂α_i = n Σ ∂weighted · branch, ∂score_i = α_i (∂α_i − Σ_j α_j ∂α_j), ∂branch = n α_i ∂weighted."""
    width, count, branches = sizes[WIDTH], sizes[AT_ONCE], layer[BRANCHES]
    bounds = view_matrix_like(layer[BOUNDS], 1, branches + 1, sizes)[0]
    common, weight = (
        view_float_row(sums, 0, width, first, count),
        view_float_row(sums, 1, width, first, count),
    )
    fill_row(common, SINGLE(0.0))
    for i in range(branches):
        alpha = view_float_row(layer[Y], i, width, first, count)
        slope = view_float_row(layer[DELTA], i, width, first, count)
        fill_row(slope, SINGLE(0.0))
        for b in range(count):
            weight[b] = SINGLE(branches) * alpha[b]
        for f in range(bounds[i], bounds[i + 1]):
            given = view_float_row(layer[WEIGHTED_DELTA], f, width, first, count)
            branch = view_float_row(layer[JOINED], f, width, first, count)
            for b in range(count):
                slope[b] += given[b] * branch[b]
            multiply_rows(view_float_row(layer[JOINED_DELTA], f, width, first, count), given, weight)
        for b in range(count):
            slope[b] *= SINGLE(branches)
            common[b] += alpha[b] * slope[b]
    for i in range(branches):
        alpha = view_float_row(layer[Y], i, width, first, count)
        slope = view_float_row(layer[DELTA], i, width, first, count)
        add_row(slope, common, SINGLE(-1.0))
        multiply_rows(slope, slope, alpha)
