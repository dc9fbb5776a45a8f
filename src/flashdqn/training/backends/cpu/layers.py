"""Forward and backward through the layers of any MLP: streams of a dueling network, noisy layers, layer norm.

Layers are lines of a table, parents before children. Matrices lie as in `mlp.py`, [features, width], and every
function works on `count` samples from `first` on. A noisy layer has effective weights of its own, which are
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
from flashdqn.training.backends.cpu.mlp import (
    AT_ONCE,
    BIAS,
    BIAS_GRAD,
    BY_ROWS,
    DELTA,
    IN,
    LAYER_COLUMNS,
    LINE,
    NEXT_X,
    NEXT_Y,
    NO_LIMIT,
    OLD_BIAS,
    OLD_WEIGHT,
    OUT,
    SAMPLES,
    SINGLE,
    WEIGHT,
    WEIGHT_GRAD,
    WIDTH,
    X,
    Y,
    sum_row,
    sum_squares,
)  # fmt: skip

# More columns of the table of layers. PARENT: the layer whose output is the input; −1: the observations.
PARENT = LAYER_COLUMNS
ADDS = PARENT + 1  # another child of the same parent has written ∂loss / ∂input before: add to it
ROWS_SHARED = PARENT + 2  # another layer has the same input, and stores it by rows
HIDDEN = PARENT + 3  # ReLU follows
# LinearLayer norm; addresses, 0 where there is none. NORMAL: normalized numbers, [out, width]; NORM_DELTA: ∂loss /
# ∂output.
NORM, NORM_BIAS, OLD_NORM, OLD_NORM_BIAS, NORM_GRAD, NORM_BIAS_GRAD, NORMAL, NORM_DELTA, SCALE = range(
    PARENT + 4, PARENT + 13
)
# Noisy layers; addresses, 0 where there is none. Noise: bytes from the beginning of an update's noise.
MEAN, SIGMA, BIAS_MEAN, BIAS_SIGMA, SIGMA_GRAD, BIAS_SIGMA_GRAD = range(PARENT + 13, PARENT + 19)
OLD_MEAN, OLD_SIGMA, OLD_BIAS_MEAN, OLD_BIAS_SIGMA = range(PARENT + 19, PARENT + 23)
NOISE_IN, NOISE_OUT, OLD_NOISE_IN, OLD_NOISE_OUT = range(PARENT + 23, PARENT + 27)
COLUMNS = PARENT + 27

# More entries of `sizes`: choices, numbers for each of them, the layer that gives the value of a dueling network
# (or −1), and the bootstrap.
ACTIONS, SIZE, VALUE, BOOTSTRAP = range(6, 10)

# Entries of `rooms`: addresses of matrices, [rows, width], that a part needs for itself.
SPARE, SUMS, Q, POLICY, GOAL, PICKED, CHANCE, REWARDS = range(8)
ROOMS = 8

#: PyTorch's ε of layer norm.
NORM_EPS = SINGLE(1e-5)


@inner
def fill_row(row: Array, value: Scalar) -> None:
    """Write one value everywhere."""
    for b in range(len(row)):
        row[b] = value


@inner
def copy_row(to: Array, row: Array) -> None:
    """to = row."""
    for b in range(len(to)):
        to[b] = row[b]


@inner
def add_row(to: Array, row: Array, factor: Scalar) -> None:
    """to += factor · row."""
    for b in range(len(to)):
        to[b] += factor * row[b]


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
    y = Y if seen else NEXT_Y
    for k in range(len(layers)):
        parent = layers[k, PARENT]
        x = layers[parent, y] if parent >= 0 else layers[0, NEXT_X] if next_obs else layers[0, X]
        low = SINGLE(0.0) if layers[k, HIDDEN] and not layers[k, NORM] else NO_LIMIT
        multiply_matrices(
            layers[k, weight], layers[k, IN], 1, x + 4 * first, width, layers[k, y] + 4 * first, width,
            layers[k, OUT], count, layers[k, IN], layers[k, bias], 1, low, 0,
        )  # fmt: skip
        if layers[k, NORM]:
            normalize_layer(layers[k], seen, old, width, first, count, rooms[SUMS])
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
        parent = layers[k, PARENT]
        x = layers[parent, Y] if parent >= 0 else layers[0, X]
        if layers[k, NORM]:
            back_through_norm(layers[k], width, first, count, rooms[SUMS])
        if parent >= 0:
            to = layers[parent, NORM_DELTA] if layers[parent, NORM] else layers[parent, DELTA]
            written = rooms[SPARE] if layers[k, ADDS] else to
            multiply_matrices(
                layers[k, WEIGHT], 1, layers[k, IN], layers[k, DELTA] + 4 * first, width, written + 4 * first,
                width, layers[k, IN], count, layers[k, OUT], zero, 0, NO_LIMIT, x + 4 * first,
            )  # fmt: skip
            if layers[k, ADDS]:
                for i in range(layers[k, IN]):
                    row = view_float_row(rooms[SPARE], i, width, first, count)
                    add_row(view_float_row(to, i, width, first, count), row, SINGLE(1.0))
        if not layers[k, ROWS_SHARED]:
            line = layers[k, LINE]
            by_rows = layers[k, BY_ROWS] + 4 * first * line
            transpose_matrix(x + 4 * first, layers[k, IN], width, end - first, by_rows, line)


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
