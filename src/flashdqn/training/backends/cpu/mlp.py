"""Gradient steps of a plain MLP on the CPU, as one function that any number of threads may call at once.

Activations lie as [features, samples]: a vector holds one feature of several samples. Weights, [out, in] as in
PyTorch, are read without copying, one number at a time for a whole vector of samples. So neither the forward nor
the backward pass has to reorder anything. The gradient of a weight is a sum over samples; only for this, every
layer's input is stored a second time, by rows.

An update has three stages. Each needs all results of the stage before:

1. samples   forward through both networks, the error, and backward, for some samples at a time
2. blocks    the gradient of some rows of a layer's weights, and the sum of its squares
3. pieces    clipping, Adam, and the soft update of the target, for some parameters at a time

Every thread has its share of a stage; a thread that is done takes parts from the others' shares. Parts are counted
when they are taken, and again when they are done. A thread that comes late finds nothing left to do, and the others
do not wait for one that does not come at all.
"""

from __future__ import annotations

import numpy as np

from flashdqn.compute.gemm import (
    finish_stage,
    increment_counter,
    multiply_matrices,
    never_inlined,
    read_counter,
    transpose_matrix,
    view_bool_matrix,
    view_float_matrix,
    view_matrix_like,
    with_fast_sums,
)  # fmt: skip
from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.learn.adam_cpu import adam_step

# Columns of the table of layers. All but IN, OUT and LINE are addresses; matrices of samples are [features, width].
IN, OUT, WEIGHT, BIAS, OLD_WEIGHT, OLD_BIAS, WEIGHT_GRAD, BIAS_GRAD = range(8)
X, Y, NEXT_X, NEXT_Y = range(8, 12)  # input and output, of observations and next observations
DELTA = 12  # ∂loss / ∂output
BY_ROWS, LINE = 13, 14  # the input again, [samples, LINE], a multiple of the vector length
SCRATCH = 15  # [OUT, LINE] for the gradient where lines are longer than IN; else 0
LAYER_COLUMNS = 16

# Columns of a table of batches: addresses; 0 where there is no mask.
OBS, ACTION, REWARD, DISCOUNT, NEXT_OBS, SAMPLE_WEIGHT, PRIORITY, LEGAL = range(8)
BATCH_COLUMNS = 8

# Entries of `sizes`: samples, samples at a time, width of matrices of samples; whether the bootstrap is double,
# whether observations are bytes that stand for 0 … 1, and whether gradients are applied.
SAMPLES, AT_ONCE, WIDTH, DOUBLE, BYTES, APPLY = range(6)

# Entries of `places`: the addresses of the counters, of a zero, and of flat tensors.
COUNTERS, ZERO, AT_VALUES, AT_GRADIENT, AT_FIRST, AT_SECOND, AT_TARGET = range(7)
PLACES = 7

# Entries of `lengths`: how many values there are, and how many of the target are moved.
VALUES_LENGTH, TARGET_LENGTH = range(2)

#: Bytes between two counters, so each has its own cache line. A stage has one counter of parts done, and for every
#: worker one counter of parts taken from its share.
APART, STAGES = 64, 3
#: Parameters that are updated at a time.
PIECE = 2048

SINGLE, NO_LIMIT = np.float32, np.float32(-np.inf)


@never_inlined
def run_updates(
    worker: Scalar,
    threads: Scalar,
    layers: Array,  # [L, LAYER_COLUMNS]
    blocks: Array,  # [blocks, 3]: layer, first row, rows
    shares: Array,  # [STAGES, threads + 1]: the part of a stage where each worker begins; last: all parts
    chosen: Array,  # [samples], temporary: the next action
    terms: Array,  # [2, samples], temporary: each sample's part of the loss, and Q(s, a)
    squares: Array,  # [blocks], temporary
    batches: Array,  # [updates, BATCH_COLUMNS]
    sizes: Array,  # by SAMPLES … APPLY
    places: Array,  # by COUNTERS … AT_TARGET
    lengths: Array,  # by VALUES_LENGTH and TARGET_LENGTH
    settings: Array,  # of Adam, as in `adam_step`; last: steps so far
    huber: Scalar,
    like: Array,  # an array of the observations' type
    results: Array,  # [updates, 3]: loss, mean Q(s, a), gradient norm
    sums: Array,  # [3]: `results` are added here if gradients are applied
    done: Array,  # [1]: updates done before one whose loss is not finite
) -> None:
    """One update per batch, one after the other; or only the gradient of one batch."""
    samples, at_once, applied = sizes[SAMPLES], sizes[AT_ONCE], sizes[APPLY]
    stage = (threads + 1) * APART  # bytes of counters
    for u in range(len(batches)):
        counters = places[COUNTERS] + STAGES * stage * u
        finished, part = 0, take_next_part(counters, shares[0], worker, threads)
        while part >= 0:
            forward_and_backward(
                layers, batches[u], sizes, places[ZERO], huber, like, chosen, terms, part * at_once
            )
            finished += 1
            part = take_next_part(counters, shares[0], worker, threads)
        finish_stage(counters, finished, shares[0, threads])
        loss, q = sum_terms(terms[0]), sum_terms(terms[1]) / samples
        if applied and not np.isfinite(SINGLE(loss)):
            results[u, 0] = loss
            return

        counters += stage
        finished, part = 0, take_next_part(counters, shares[1], worker, threads)
        while part >= 0:
            layer, first, rows = layers[blocks[part, 0]], blocks[part, 1], blocks[part, 2]
            delta = layer[DELTA] + 4 * first * sizes[WIDTH]
            squares[part] = gradient_of_rows(layer, layer[BY_ROWS], delta, first, rows, sizes, places[ZERO])
            finished += 1
            part = take_next_part(counters, shares[1], worker, threads)
        finish_stage(counters, finished, shares[1, threads])
        norm = np.sqrt(sum_terms(squares))
        if not applied:
            results[u, 0], results[u, 1], results[u, 2] = loss, q, norm
            return

        counters += stage
        finished, part = 0, take_next_part(counters, shares[2], worker, threads)
        while part >= 0:
            if part == 0:
                results[u, 0], results[u, 1], results[u, 2] = loss, q, norm
                for k in range(3):
                    sums[k] += results[u, k]
                done[0] = u + 1
            apply_adam(part * PIECE, places, lengths, settings, norm, u + 1)
            finished += 1
            part = take_next_part(counters, shares[2], worker, threads)
        finish_stage(counters, finished, shares[2, threads])


@never_inlined
def take_next_part(counters: Scalar, shares: Array, worker: Scalar, threads: Scalar) -> Scalar:
    """A part that no thread has taken, from the worker's own share first, then from the others'; −1: none is left.

    Shares are the same in every update, so a core finds much of what it needs in its own cache.
    """
    for k in range(threads):
        other = (worker + k) % threads
        counter, left = counters + (1 + other) * APART, shares[other + 1] - shares[other]
        if read_counter(counter) < left:
            part = increment_counter(counter)
            if part < left:
                return shares[other] + part
    return -1


@never_inlined
def forward_and_backward(
    layers: Array, batch: Array, sizes: Array, zero: Scalar, huber: Scalar, like: Array, chosen: Array,
    terms: Array, first: Scalar,
) -> None:  # fmt: skip
    """Some samples forward and backward: every DELTA, and every layer's input by rows."""
    samples, at_once, width, double, bytes_ = (
        sizes[SAMPLES],
        sizes[AT_ONCE],
        sizes[WIDTH],
        sizes[DOUBLE],
        sizes[BYTES],
    )
    last, end, inputs = len(layers) - 1, min(first + at_once, samples), layers[0, IN]
    obs = view_matrix_like(batch[OBS], samples, inputs, like)
    next_obs = view_matrix_like(batch[NEXT_OBS], samples, inputs, like)
    load_observations(next_obs, first, end, view_float_matrix(layers[0, NEXT_X], inputs, width), bytes_)
    load_observations(obs, first, end, view_float_matrix(layers[0, X], inputs, width), bytes_)
    actions = layers[last, OUT]
    judged = view_float_matrix(layers[last, NEXT_Y], actions, width)
    if double:
        forward_pass(layers, WEIGHT, BIAS, NEXT_X, NEXT_Y, first, at_once, width)
        choose_best_actions(judged, batch, first, end, samples, chosen)
    forward_pass(layers, OLD_WEIGHT, OLD_BIAS, NEXT_X, NEXT_Y, first, at_once, width)
    if not double:
        choose_best_actions(judged, batch, first, end, samples, chosen)
    forward_pass(layers, WEIGHT, BIAS, X, Y, first, at_once, width)
    q = view_float_matrix(layers[last, Y], actions, width)
    slopes, priority = (
        view_float_matrix(layers[last, DELTA], actions, width),
        view_float_matrix(batch[PRIORITY], 1, samples),
    )
    compute_loss_slopes(q, judged, chosen, batch, huber, samples, first, end, slopes, terms, priority)
    for k in range(last, 0, -1):
        multiply_matrices(
            layers[k, WEIGHT], 1, layers[k, IN], layers[k, DELTA] + 4 * first, width,
            layers[k - 1, DELTA] + 4 * first, width, layers[k, IN], at_once, layers[k, OUT], zero, 0, NO_LIMIT,
            layers[k, X] + 4 * first,
        )  # fmt: skip
    for k in range(last + 1):
        line = layers[k, LINE]
        transpose_matrix(
            layers[k, X] + 4 * first,
            layers[k, IN],
            width,
            end - first,
            layers[k, BY_ROWS] + 4 * first * line,
            line,
        )


@never_inlined
def forward_pass(
    layers: Array, weight: Scalar, bias: Scalar, x: Scalar, y: Scalar, first: Scalar, count: Scalar, width: Scalar
) -> None:  # fmt: skip
    """Forward through the network whose parameters lie in these columns, from input column x to output column y."""
    for k in range(len(layers)):
        low = NO_LIMIT if k == len(layers) - 1 else SINGLE(0.0)
        multiply_matrices(
            layers[k, weight], layers[k, IN], 1, layers[k, x] + 4 * first, width, layers[k, y] + 4 * first, width,
            layers[k, OUT], count, layers[k, IN], layers[k, bias], 1, low, 0,
        )  # fmt: skip


@inner
def load_observations(obs: Array, first: Scalar, end: Scalar, x: Array, bytes_: Scalar) -> None:
    """Observations as numbers, [features, samples]; bytes are read as 0 … 1, as in the network."""
    for b in range(first, end):
        for k in range(obs.shape[1]):
            value = SINGLE(obs[b, k])
            x[k, b] = value / SINGLE(255.0) if bytes_ else value


@never_inlined
def choose_best_actions(
    q: Array, batch: Array, first: Scalar, end: Scalar, samples: Scalar, chosen: Array
) -> None:
    """The best legal action; the first of equals, and 0 if none is legal, as in `masked_argmax`."""
    for b in range(first, end):
        best, action = SINGLE(-np.inf), 0
        for a in range(len(q)):
            value = q[a, b]
            # NaN counts as the largest, as in torch.argmax
            if (value > best or (value != value and best == best)) and (
                batch[LEGAL] == 0 or view_bool_matrix(batch[LEGAL], samples, len(q))[b, a]
            ):
                best, action = value, a
        chosen[b] = action


@never_inlined
def compute_loss_slopes(
    q: Array,  # [A, width]: Q(s, ·)
    judged: Array,  # [A, width]: Q⁻(s', ·)
    chosen: Array,
    batch: Array,
    huber: Scalar,
    samples: Scalar,
    first: Scalar,
    end: Scalar,
    slopes: Array,  # [A, width]: out, ∂loss / ∂Q(s, ·)
    terms: Array,
    priority: Array,  # [1, samples]: out
) -> None:
    """With e = Q(s, a) − r − γ Q⁻(s', a') and c = e clipped to ±δ, the loss is mean(w · c · (e − c/2)), which is
    Huber's on both of its branches, and its slope is w · c / B."""
    actions = view_matrix_like(batch[ACTION], 1, samples, chosen)
    reward, discount = (
        view_float_matrix(batch[REWARD], 1, samples),
        view_float_matrix(batch[DISCOUNT], 1, samples),
    )
    weight = view_float_matrix(batch[SAMPLE_WEIGHT], 1, samples)
    for b in range(first, end):
        for a in range(len(q)):
            slopes[a, b] = 0.0
        action = actions[0, b]
        value = q[action, b]
        error = value - (reward[0, b] + discount[0, b] * judged[chosen[b], b])
        if abs(error) > huber:
            cut = np.copysign(huber, error)
            rest = error - 0.5 * cut
        else:  # NaN comes here
            cut, rest = error, 0.5 * error
        slope = weight[0, b] * cut / samples
        slopes[action, b] = slope
        priority[0, b] = abs(error)
        terms[0, b] = slope * rest
        terms[1, b] = value


@never_inlined
def gradient_of_rows(
    layer: Array, by_rows: Scalar, delta: Scalar, first: Scalar, rows: Scalar, sizes: Array, zero: Scalar
) -> Scalar:
    """The gradient of some rows of a layer, weights and biases, from its DELTA; returns the sum of its squares."""
    samples, width, inputs, line = sizes[SAMPLES], sizes[WIDTH], layer[IN], layer[LINE]
    gradient = view_float_matrix(layer[WEIGHT_GRAD] + 4 * first * inputs, rows, inputs)
    scratch = layer[SCRATCH]
    to = scratch + 4 * first * line if scratch else layer[WEIGHT_GRAD] + 4 * first * line
    multiply_matrices(delta, width, 1, by_rows, line, to, line, rows, line, samples, zero, 0, NO_LIMIT, 0)
    if scratch:
        copied = view_float_matrix(to, rows, line)
        for i in range(rows):
            for j in range(inputs):
                gradient[i, j] = copied[i, j]
    bias, deltas = (
        view_float_matrix(layer[BIAS_GRAD] + 4 * first, 1, rows),
        view_float_matrix(delta, rows, width),
    )
    square = 0.0
    for i in range(rows):
        bias[0, i] = sum_row(deltas[i, :samples])
        square += bias[0, i] * bias[0, i] + sum_squares(gradient[i])
    return square


@inner
def apply_adam(
    first: Scalar, places: Array, lengths: Array, settings: Array, norm: Scalar, step: Scalar
) -> None:
    """Update some of the parameters, and of the target."""
    count = min(PIECE, lengths[VALUES_LENGTH] - first)
    values, gradient = (
        view_float_matrix(places[AT_VALUES] + 4 * first, 1, count)[0],
        view_float_matrix(places[AT_GRADIENT] + 4 * first, 1, count)[0],
    )
    means, second = (
        view_float_matrix(places[AT_FIRST] + 4 * first, 1, count)[0],
        view_float_matrix(places[AT_SECOND] + 4 * first, 1, count)[0],
    )
    target = view_float_matrix(places[AT_TARGET] + 4 * first, 1, count if lengths[TARGET_LENGTH] else 0)[0]
    adam_step(values, gradient, means, second, target, settings, norm, step)


@inner
def sum_terms(terms: Array) -> Scalar:
    """The sum of the terms from first to last, in float64."""
    found = 0.0
    for i in range(len(terms)):
        found += terms[i]
    return found


@with_fast_sums
def sum_row(row: Array) -> Scalar:
    """The sum of a row, in the fastest order, which is always the same."""
    found = SINGLE(0.0)
    for i in range(len(row)):
        found += row[i]
    return found


@with_fast_sums
def sum_squares(row: Array) -> Scalar:
    """The sum of a row's squares."""
    found = SINGLE(0.0)
    for i in range(len(row)):
        found += row[i] * row[i]
    return found
