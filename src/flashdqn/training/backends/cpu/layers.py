"""Forward and backward through the layers of any MLP, and of branches: streams of a dueling network, noisy layers,
layer norm.

Layers are lines of a table, each after those that it reads. Matrices lie as in `mlp.py`, [features, width], and
every function works on `count` samples from `first` on. A noisy layer has effective weights of its own, which are
formed once for an update; so all products see plain layers.
"""

from __future__ import annotations

import numpy as np

from flashdqn.compute.gemm import (
    multiply_matrices,
    never_inlined,
    transpose_matrix,
    view_float_matrix,
    view_float_row,
    with_fast_sums,
)
from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.training.backends.cpu.attention import (
    apply_tanh,
    back_through_tanh,
    back_through_weights,
    weigh_branches,
)
from flashdqn.training.backends.cpu.layer_columns import (
    ACTIONS,
    ADDS,
    BACK,
    BIAS_MEAN,
    BIAS_SIGMA,
    BIAS_SIGMA_GRAD,
    BRANCHES,
    FOLLOWS,
    GATED,
    MEAN,
    NOISE_IN,
    NOISE_OUT,
    NORM,
    NORM_BIAS,
    NORM_BIAS_GRAD,
    NORM_DELTA,
    NORM_GRAD,
    NORMAL,
    OLD_BIAS_MEAN,
    OLD_BIAS_SIGMA,
    OLD_MEAN,
    OLD_NOISE_IN,
    OLD_NORM,
    OLD_NORM_BIAS,
    OLD_SIGMA,
    READS_OBS,
    RELU,
    REPEAT,
    ROWS_SHARED,
    SCALE,
    SIGMA,
    SIGMA_GRAD,
    SIZE,
    SPARE,
    SUMS,
    TANH,
    UNBIASED,
    VALUE,
    add_matrix,
    add_row,
    copy_row,
    fill_row,
)
from flashdqn.training.backends.cpu.mlp import (
    AT_ONCE,
    BIAS,
    BIAS_GRAD,
    BY_ROWS,
    DELTA,
    IN,
    LINE,
    NEXT_X,
    NEXT_Y,
    NO_LIMIT,
    OLD_BIAS,
    OLD_WEIGHT,
    OUT,
    SAMPLES,
    SCRATCH,
    SINGLE,
    WEIGHT,
    WEIGHT_GRAD,
    WIDTH,
    X,
    Y,
    sum_row,
    sum_squares,
)

#: PyTorch's ε of layer norm.
NORM_EPS = SINGLE(1e-5)


# ---- noise


@never_inlined
def form_noisy_rows(layer: Array, old: Scalar, noise: Scalar, first: Scalar, rows: Scalar) -> None:
    """W = μ + σ · f(ε_out) f(ε_in)ᵀ and b = μ + σ · f(ε_out) of some rows of a noisy layer, online or target."""
    inputs = layer[IN]
    place = 4 * first * inputs
    weight, bias = (layer[OLD_WEIGHT], layer[OLD_BIAS]) if old else (layer[WEIGHT], layer[BIAS])
    mean, sigma = (layer[OLD_MEAN], layer[OLD_SIGMA]) if old else (layer[MEAN], layer[SIGMA])
    bias_mean, bias_sigma = (
        (layer[OLD_BIAS_MEAN], layer[OLD_BIAS_SIGMA]) if old else (layer[BIAS_MEAN], layer[BIAS_SIGMA])
    )
    more = OLD_NOISE_IN - NOISE_IN if old else 0
    by_input = view_float_matrix(noise + layer[NOISE_IN + more], 1, inputs)[0]
    by_output = view_float_matrix(noise + layer[NOISE_OUT + more] + 4 * first, 1, rows)[0]
    weights, means = (
        view_float_matrix(weight + place, rows, inputs),
        view_float_matrix(mean + place, rows, inputs),
    )
    sigmas = view_float_matrix(sigma + place, rows, inputs)
    biases = view_float_matrix(bias + 4 * first, 1, rows)[0]
    means_of_bias = view_float_matrix(bias_mean + 4 * first, 1, rows)[0]
    sigmas_of_bias = view_float_matrix(bias_sigma + 4 * first, 1, rows)[0]
    for i in range(rows):
        add_noise(weights[i], means[i], sigmas[i], by_input, by_output[i])
        biases[i] = means_of_bias[i] + sigmas_of_bias[i] * by_output[i]


@inner
def add_noise(weights: Array, means: Array, sigmas: Array, by_input: Array, by_output: Scalar) -> None:
    """One row of effective weights."""
    for j in range(len(weights)):
        weights[j] = means[j] + sigmas[j] * (by_output * by_input[j])


@never_inlined
def gradient_of_sigmas(layer: Array, noise: Scalar, first: Scalar, rows: Scalar) -> Scalar:
    """∂loss / ∂σ = ∂loss / ∂W · f(ε_out) f(ε_in)ᵀ for some rows, from those of μ; returns the sum of its
    squares."""
    inputs = layer[IN]
    by_input = view_float_matrix(noise + layer[NOISE_IN], 1, inputs)[0]
    by_output = view_float_matrix(noise + layer[NOISE_OUT] + 4 * first, 1, rows)[0]
    given = view_float_matrix(layer[WEIGHT_GRAD] + 4 * first * inputs, rows, inputs)
    sigma = view_float_matrix(layer[SIGMA_GRAD] + 4 * first * inputs, rows, inputs)
    bias = view_float_matrix(layer[BIAS_GRAD] + 4 * first, 1, rows)[0]
    bias_sigma = view_float_matrix(layer[BIAS_SIGMA_GRAD] + 4 * first, 1, rows)[0]
    square = 0.0
    for i in range(rows):
        multiply_noise(sigma[i], given[i], by_input, by_output[i])
        bias_sigma[i] = bias[i] * by_output[i]
        square += bias_sigma[i] * bias_sigma[i] + sum_squares(sigma[i])
    return square


@inner
def multiply_noise(to: Array, given: Array, by_input: Array, by_output: Scalar) -> None:
    """One row of ∂loss / ∂σ."""
    for j in range(len(to)):
        to[j] = given[j] * (by_output * by_input[j])


# ---- forward


@never_inlined
def forward_layers(
    layers: Array, sizes: Array, rooms: Array, seen: Scalar, next_obs: Scalar, old: Scalar, first: Scalar
) -> None:
    """Through the online network or, if `old`, the target, from observations or next observations. Only a pass that
    is `seen` goes back later: the others use the columns of next observations."""
    width, count = sizes[WIDTH], sizes[AT_ONCE]
    weight, bias = (OLD_WEIGHT, OLD_BIAS) if old else (WEIGHT, BIAS)
    for k in range(len(layers)):
        of_next = next_obs if layers[k, READS_OBS] else not seen
        x, y = layers[k, NEXT_X] if of_next else layers[k, X], layers[k, Y] if seen else layers[k, NEXT_Y]
        low = SINGLE(0.0) if layers[k, FOLLOWS] == RELU and not layers[k, NORM] else NO_LIMIT
        for r in range(layers[k, REPEAT]):
            multiply_matrices(
                layers[k, weight], layers[k, IN], 1, x + 4 * (first + r * layers[k, IN] * width), width,
                y + 4 * (first + r * layers[k, OUT] * width), width,
                layers[k, OUT], count, layers[k, IN], layers[k, bias], 1, low, 0,
            )  # fmt: skip
        if layers[k, NORM]:
            normalize_layer(layers[k], seen, old, width, first, count, rooms[SUMS])
        if layers[k, FOLLOWS] == TANH:
            apply_tanh(layers[k], y, width, first, count)
        if layers[k, BRANCHES]:
            weigh_branches(layers[k], sizes, rooms[SUMS], seen, first)
    y = Y if seen else NEXT_Y
    if sizes[VALUE] >= 0:
        join_streams(layers[sizes[VALUE], y], layers[len(layers) - 1, y], sizes, rooms[SUMS], first)


@never_inlined
def normalize_layer(
    layer: Array, seen: Scalar, old: Scalar, width: Scalar, first: Scalar, count: Scalar, sums: Scalar
) -> None:
    """y = ReLU(γ (y − mean) / √(variance + ε) + β), in place; a pass that is `seen` keeps what going back needs."""
    out, y = layer[OUT], layer[Y] if seen else layer[NEXT_Y]
    mean, scale = view_float_row(sums, 0, width, first, count), view_float_row(sums, 1, width, first, count)
    fill_row(mean, SINGLE(0.0))
    fill_row(scale, SINGLE(0.0))
    share = SINGLE(1.0) / SINGLE(out)
    for i in range(out):
        add_row(mean, view_float_row(y, i, width, first, count), share)
    for i in range(out):
        add_square(scale, view_float_row(y, i, width, first, count), mean, share)
    for b in range(count):
        scale[b] = SINGLE(1.0) / np.sqrt(scale[b] + NORM_EPS)
    gamma = view_float_matrix(layer[OLD_NORM] if old else layer[NORM], 1, out)[0]
    beta = view_float_matrix(layer[OLD_NORM_BIAS] if old else layer[NORM_BIAS], 1, out)[0]
    for i in range(out):
        row = view_float_row(y, i, width, first, count)
        for b in range(count):
            row[b] = (row[b] - mean[b]) * scale[b]
        if seen:
            copy_row(view_float_row(layer[NORMAL], i, width, first, count), row)
        for b in range(count):
            value = row[b] * gamma[i] + beta[i]
            row[b] = SINGLE(0.0) if value < SINGLE(0.0) else value
    if seen:
        copy_row(view_float_row(layer[SCALE], 0, width, first, count), scale)


@inner
def add_square(to: Array, row: Array, mean: Array, factor: Scalar) -> None:
    """to += factor · (row − mean)²."""
    for b in range(len(to)):
        difference = row[b] - mean[b]
        to[b] += factor * difference * difference


@never_inlined
def join_streams(value: Scalar, advantage: Scalar, sizes: Array, sums: Scalar, first: Scalar) -> None:
    """V + A − mean_a A for each of the head's numbers, in the place of A."""
    width, count, size = sizes[WIDTH], sizes[AT_ONCE], sizes[SIZE]
    center, share = view_float_row(sums, 0, width, first, count), SINGLE(1.0) / SINGLE(sizes[ACTIONS])
    for z in range(size):
        own = view_float_row(value, z, width, first, count)
        copy_row(center, own)
        for a in range(sizes[ACTIONS]):
            add_row(center, view_float_row(advantage, a * size + z, width, first, count), -share)
        for a in range(sizes[ACTIONS]):
            add_row(view_float_row(advantage, a * size + z, width, first, count), center, SINGLE(1.0))


# ---- backward


@never_inlined
def split_slopes(value: Scalar, advantage: Scalar, sizes: Array, first: Scalar) -> None:
    """From ∂loss / ∂(V + A − mean A), in the place of A's, to those of V and A."""
    width, count, size = sizes[WIDTH], sizes[AT_ONCE], sizes[SIZE]
    share = SINGLE(1.0) / SINGLE(sizes[ACTIONS])
    for z in range(size):
        total = view_float_row(value, z, width, first, count)
        fill_row(total, SINGLE(0.0))
        for a in range(sizes[ACTIONS]):
            add_row(total, view_float_row(advantage, a * size + z, width, first, count), SINGLE(1.0))
        for a in range(sizes[ACTIONS]):
            add_row(view_float_row(advantage, a * size + z, width, first, count), total, -share)


@never_inlined
def backward_layers(
    layers: Array, sizes: Array, rooms: Array, first: Scalar, end: Scalar, zero: Scalar
) -> None:
    """Every DELTA from that of the last layer, and every layer's input by rows."""
    width, count, last = sizes[WIDTH], sizes[AT_ONCE], len(layers) - 1
    if sizes[VALUE] >= 0:
        split_slopes(layers[sizes[VALUE], DELTA], layers[last, DELTA], sizes, first)
    for k in range(last, -1, -1):
        inputs, x = layers[k, IN], layers[k, X]
        if layers[k, BRANCHES]:
            back_through_weights(layers[k], sizes, rooms[SUMS], first)
        if layers[k, NORM]:
            back_through_norm(layers[k], width, first, count, rooms[SUMS])
        if layers[k, FOLLOWS] == TANH:
            back_through_tanh(layers[k], width, first, count)
        for r in range(layers[k, REPEAT]):
            place = first + r * inputs * width
            if not layers[k, READS_OBS]:
                delta = layers[k, DELTA] + 4 * (first + r * layers[k, OUT] * width)
                to = rooms[SPARE] + 4 * first if layers[k, ADDS] else layers[k, BACK] + 4 * place
                multiply_matrices(
                    layers[k, WEIGHT], 1, inputs, delta, width, to, width, inputs, count, layers[k, OUT],
                    zero, 0, NO_LIMIT, x + 4 * place if layers[k, GATED] else 0,
                )  # fmt: skip
                if layers[k, ADDS]:
                    add_matrix(layers[k, BACK] + 4 * place, to, inputs, width, count)
            if not layers[k, ROWS_SHARED]:
                by_rows = layers[k, BY_ROWS] + 4 * (first + r * sizes[SAMPLES]) * layers[k, LINE]
                transpose_matrix(x + 4 * place, inputs, width, end - first, by_rows, layers[k, LINE])


@never_inlined
def gradient_of_parts(layer: Array, first: Scalar, rows: Scalar, sizes: Array, zero: Scalar) -> Scalar:
    """As `mlp.gradient_of_rows`, for a layer that reads several parts, or has no bias: a sum over the parts."""
    samples, width, inputs, line = sizes[SAMPLES], sizes[WIDTH], layer[IN], layer[LINE]
    gradient = view_float_matrix(layer[WEIGHT_GRAD] + 4 * first * inputs, rows, inputs)
    bias = view_float_matrix(layer[BIAS_GRAD] + 4 * first, 1, rows)[0]
    scratch = layer[SCRATCH] + 4 * first * line
    found = view_float_matrix(scratch, rows, line)
    for i in range(rows):
        fill_row(gradient[i], SINGLE(0.0))
        bias[i] = SINGLE(0.0)
    for r in range(layer[REPEAT]):
        delta = layer[DELTA] + 4 * (first + r * layer[OUT]) * width
        by_rows = layer[BY_ROWS] + 4 * r * samples * line
        multiply_matrices(
            delta, width, 1, by_rows, line, scratch, line, rows, line, samples, zero, 0, NO_LIMIT, 0
        )
        deltas = view_float_matrix(delta, rows, width)
        for i in range(rows):
            add_row(gradient[i], found[i, :inputs], SINGLE(1.0))
            bias[i] += sum_row(deltas[i, :samples])
    square = 0.0
    for i in range(rows):
        square += sum_squares(gradient[i])
        if not layer[UNBIASED]:
            square += bias[i] * bias[i]
    return square


@never_inlined
def back_through_norm(layer: Array, width: Scalar, first: Scalar, count: Scalar, sums: Scalar) -> None:
    """∂loss / ∂(layer's sums) from ∂loss / ∂(normalized and scaled), which ReLU has gated already:
    (g − mean g − x̂ mean(g x̂)) / √(variance + ε) with g = γ · slope."""
    out, normal, given = layer[OUT], layer[NORMAL], layer[NORM_DELTA]
    mean, product = view_float_row(sums, 0, width, first, count), view_float_row(sums, 1, width, first, count)
    fill_row(mean, SINGLE(0.0))
    fill_row(product, SINGLE(0.0))
    gamma, scale = (
        view_float_matrix(layer[NORM], 1, out)[0],
        view_float_row(layer[SCALE], 0, width, first, count),
    )
    share = SINGLE(1.0) / SINGLE(out)
    for i in range(out):
        slope = view_float_row(given, i, width, first, count)
        add_row(mean, slope, share * gamma[i])
        add_product(product, slope, view_float_row(normal, i, width, first, count), share * gamma[i])
    for i in range(out):
        slope, kept = (
            view_float_row(given, i, width, first, count),
            view_float_row(normal, i, width, first, count),
        )
        to = view_float_row(layer[DELTA], i, width, first, count)
        for b in range(count):
            to[b] = kept[b] * product[b]
        for b in range(count):
            to[b] = (gamma[i] * slope[b] - mean[b] - to[b]) * scale[b]


@inner
def add_product(to: Array, one: Array, other: Array, factor: Scalar) -> None:
    """to += factor · one · other."""
    for b in range(len(to)):
        to[b] += factor * one[b] * other[b]


@never_inlined
def gradient_of_norm(layer: Array, first: Scalar, rows: Scalar, sizes: Array) -> Scalar:
    """The gradients of some of a norm's scales and shifts, over all samples; returns the sum of their squares."""
    width, samples = sizes[WIDTH], sizes[SAMPLES]
    gamma = view_float_matrix(layer[NORM_GRAD] + 4 * first, 1, rows)[0]
    beta = view_float_matrix(layer[NORM_BIAS_GRAD] + 4 * first, 1, rows)[0]
    square = 0.0
    for i in range(rows):
        slope = view_float_row(layer[NORM_DELTA], first + i, width, 0, samples)
        beta[i] = sum_row(slope)
        gamma[i] = sum_products(slope, view_float_row(layer[NORMAL], first + i, width, 0, samples))
        square += beta[i] * beta[i] + gamma[i] * gamma[i]
    return square


@with_fast_sums
def sum_products(one: Array, other: Array) -> Scalar:
    """The sum of products, in the fastest order, which is always the same."""
    found = SINGLE(0.0)
    for i in range(len(one)):
        found += one[i] * other[i]
    return found
