"""The same as `mlp.py` for MLPs of two hidden layers and few inputs, with less data moving between cores.

What one core writes, another must fetch, and two cores of a machine may be far apart (`benchmarks/cores.py`
measures it). If threads share samples, each needs all weights, and another thread changed half of them.
Here each thread keeps its own rows of the large matrix, W₁, from the first pass to Adam. From the others it needs
only their part of Q(s, ·), a few numbers, and one half of the slope at the first hidden layer. Every thread does
the small work itself: the first layer, and the error.

    by everyone   h₀ = relu(W₀ x + b₀)
 1. blocks        h₁ = relu(W₁ h₀ + b₁), and its part of q = W₂ h₁ + b₂
    by everyone   q, the error, its slope s
 2. blocks        δ₁ = W₂ᵀ s where h₁ > 0; the gradients of W₁, b₁ and of their columns of W₂
 3. halves        each half's part of W₁ᵀ δ₁
 4. first blocks  δ₀, their sum where h₀ > 0; the gradients of W₀ and b₀
 5. pieces        clipping, Adam, and the soft update of the target

Parts are the same for any number of threads, and so is the order of every sum. A thread that comes late may compute
on weights that are about to change. But if it still gets a part of a stage, no later stage has begun, so the
weights have not changed yet.
"""

from __future__ import annotations

import numpy as np

from flashdqn.compute.gemm import (
    LANES,
    finish_stage,
    multiply_matrices,
    never_inlined,
    read_counter,
    transpose_matrix,
    view_float_matrix,
    view_matrix_like,
)
from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.training.backends.cpu.mlp import (
    APART,
    APPLY,
    AT_ONCE,
    BIAS,
    BIAS_GRAD,
    BYTES,
    COUNTERS,
    DOUBLE,
    IN,
    LINE,
    NEXT_OBS,
    NO_LIMIT,
    OBS,
    OLD_BIAS,
    OLD_WEIGHT,
    OUT,
    PIECE,
    PRIORITY,
    SAMPLES,
    SCRATCH,
    SINGLE,
    WEIGHT,
    WEIGHT_GRAD,
    WIDTH,
    ZERO,
    apply_adam,
    choose_best_actions,
    compute_loss_slopes,
    gradient_of_rows,
    load_observations,
    sum_row,
    sum_squares,
    sum_terms,
    take_next_part,
)  # fmt: skip

#: Rows of W₁ that are taken at a time.
BLOCK = 32
STAGES = 5

# The three passes: observations by the online network, next observations by the target and, for double DQN, online.
SEEN, JUDGED, CHOOSING = range(3)

# What each worker has for itself; matrices are [features, width] except those by rows. The first three: one for
# every pass, one after the other.
INPUT, HIDDEN, VALUES = 0, 3, 6
INPUT_ROWS, HIDDEN_ROWS, SLOPES, CHOSEN, TERMS, ERRORS = range(9, 15)
OWN_COLUMNS = 15

# What all workers share.
SECOND, PART_OF_Q = 0, 3  # h₁ of every pass, [out, width]; parts of q, [blocks, actions, width]
SECOND_ROWS, DELTA, HALVES, FIRST_DELTA = range(6, 10)  # halves: [2, in, width]
SHARED_COLUMNS = 10


@never_inlined
def run_updates_by_halves(
    worker: Scalar,
    threads: Scalar,
    layers: Array,  # [3, LAYER_COLUMNS], as in `mlp.py`; it uses the parameters' columns, LINE and SCRATCH
    shares: Array,  # [STAGES, threads + 1]
    own: Array,  # [threads, OWN_COLUMNS]
    shared: Array,  # [SHARED_COLUMNS]
    squares: Array,  # [blocks + first blocks]
    batches: Array,
    sizes: Array,
    places: Array,
    lengths: Array,
    settings: Array,
    huber: Scalar,
    like: Array,
    results: Array,
    sums: Array,
    done: Array,
) -> None:
    """See `mlp.run_updates`."""
    samples, applied, zero = sizes[SAMPLES], sizes[APPLY], places[ZERO]
    mine = own[worker]
    terms = view_matrix_like(mine[TERMS], 2, samples, squares)
    blocks, stage = shares[0, threads], (threads + 1) * APART
    for u in range(len(batches)):
        counters = places[COUNTERS] + STAGES * stage * u
        if u + 1 < len(batches) and read_counter(counters + STAGES * stage) > 0:
            continue  # this thread is late: the others are ahead
        first_layer(layers, batches[u], sizes, mine, zero, like)
        finished, part = 0, take_next_part(counters, shares[0], worker, threads)
        while part >= 0:
            second_layer_block(layers, sizes, mine, shared, zero, part)
            finished += 1
            part = take_next_part(counters, shares[0], worker, threads)
        finish_stage(counters, finished, blocks)
        td_error(layers, batches[u], sizes, mine, shared, huber, blocks, terms)
        loss, q = sum_terms(terms[0]), sum_terms(terms[1]) / samples

        counters += stage
        if applied and not np.isfinite(SINGLE(loss)):
            if take_next_part(counters, shares[1], worker, threads) == 0:
                results[u, 0] = loss
            return
        finished, part = 0, take_next_part(counters, shares[1], worker, threads)
        while part >= 0:
            if part == 0:
                results[u, 0], results[u, 1] = loss, q
                write_priorities(mine, batches[u], samples)
            squares[part] = second_layer_gradient(layers, sizes, mine, shared, zero, part)
            finished += 1
            part = take_next_part(counters, shares[1], worker, threads)
        finish_stage(counters, finished, blocks)

        counters += stage
        finished, part = 0, take_next_part(counters, shares[2], worker, threads)
        while part >= 0:
            input_gradient_half(layers, sizes, shared, zero, part, shares[2, threads] // 2)
            finished += 1
            part = take_next_part(counters, shares[2], worker, threads)
        finish_stage(counters, finished, shares[2, threads])

        counters += stage
        finished, part = 0, take_next_part(counters, shares[3], worker, threads)
        while part >= 0:
            squares[blocks + part] = first_layer_gradient(layers, sizes, mine, shared, zero, part)
            finished += 1
            part = take_next_part(counters, shares[3], worker, threads)
        finish_stage(counters, finished, shares[3, threads])
        norm = np.sqrt(sum_terms(squares))
        if not applied:
            return

        counters += stage
        finished, part = 0, take_next_part(counters, shares[4], worker, threads)
        while part >= 0:
            if part == 0:
                results[u, 2] = norm
                for k in range(3):
                    sums[k] += results[u, k]
                done[0] = u + 1
            apply_adam(part * PIECE, places, lengths, settings, norm, u + 1)
            finished += 1
            part = take_next_part(counters, shares[4], worker, threads)
        finish_stage(counters, finished, shares[4, threads])


@inner
def count_passes(sizes: Array) -> Scalar:
    """Two, or three with double DQN."""
    return 3 if sizes[DOUBLE] else 2


@never_inlined
def first_layer(layers: Array, batch: Array, sizes: Array, mine: Array, zero: Scalar, like: Array) -> None:
    """The first layer, for all samples."""
    samples, width, inputs, out = sizes[SAMPLES], sizes[WIDTH], layers[0, IN], layers[0, OUT]
    for k in range(2):
        obs = view_matrix_like(batch[OBS] if k == SEEN else batch[NEXT_OBS], samples, inputs, like)
        load_observations(obs, 0, samples, view_float_matrix(mine[INPUT + k], inputs, width), sizes[BYTES])
    for k in range(count_passes(sizes)):
        weight, bias = (
            (layers[0, OLD_WEIGHT], layers[0, OLD_BIAS])
            if k == JUDGED
            else (layers[0, WEIGHT], layers[0, BIAS])
        )
        x = mine[INPUT + SEEN] if k == SEEN else mine[INPUT + JUDGED]
        multiply_matrices(
            weight,
            inputs,
            1,
            x,
            width,
            mine[HIDDEN + k],
            width,
            out,
            padded_samples(sizes),
            inputs,
            bias,
            1,
            SINGLE(0.0),
            0,
        )
    transpose_matrix(mine[INPUT], inputs, width, samples, mine[INPUT_ROWS], layers[0, LINE])
    transpose_matrix(mine[HIDDEN], out, width, samples, mine[HIDDEN_ROWS], layers[1, LINE])


@inner
def padded_samples(sizes: Array) -> Scalar:
    """The number of samples, rounded up to whole vectors."""
    return (sizes[SAMPLES] + sizes[AT_ONCE] - 1) // sizes[AT_ONCE] * sizes[AT_ONCE]


@never_inlined
def second_layer_block(
    layers: Array, sizes: Array, mine: Array, shared: Array, zero: Scalar, block: Scalar
) -> None:
    """Some rows of the second layer, and their part of q."""
    width, inputs, out, actions = sizes[WIDTH], layers[1, IN], layers[1, OUT], layers[2, OUT]
    first = block * BLOCK
    rows = min(BLOCK, out - first)
    for k in range(count_passes(sizes)):
        old = k == JUDGED
        weight, bias = (
            (layers[1, OLD_WEIGHT], layers[1, OLD_BIAS]) if old else (layers[1, WEIGHT], layers[1, BIAS])
        )
        last = layers[2, OLD_WEIGHT] if old else layers[2, WEIGHT]
        to = shared[SECOND + k] + 4 * first * width
        multiply_matrices(
            weight + 4 * first * inputs, inputs, 1, mine[HIDDEN + k], width, to, width, rows,
            padded_samples(sizes), inputs, bias + 4 * first, 1, SINGLE(0.0), 0,
        )  # fmt: skip
        multiply_matrices(
            last + 4 * first, out, 1, to, width, shared[PART_OF_Q + k] + 4 * block * actions * width, width,
            actions, padded_samples(sizes), rows, zero, 0, NO_LIMIT, 0,
        )  # fmt: skip
    line = layers[2, LINE]
    transpose_matrix(
        shared[SECOND] + 4 * first * width, rows, width, sizes[SAMPLES], shared[SECOND_ROWS] + 4 * first, line
    )


@never_inlined
def td_error(
    layers: Array,
    batch: Array,
    sizes: Array,
    mine: Array,
    shared: Array,
    huber: Scalar,
    blocks: Scalar,
    terms: Array,
) -> None:
    """Add up q of all samples from its parts, and compute the slope of the loss there."""
    samples, width, actions = sizes[SAMPLES], sizes[WIDTH], layers[2, OUT]
    for k in range(count_passes(sizes)):
        bias = view_float_matrix(layers[2, OLD_BIAS] if k == JUDGED else layers[2, BIAS], 1, actions)
        q = view_float_matrix(mine[VALUES + k], actions, width)
        for a in range(actions):
            for b in range(samples):
                q[a, b] = bias[0, a]
        for block in range(blocks):
            part = view_float_matrix(shared[PART_OF_Q + k] + 4 * block * actions * width, actions, width)
            for a in range(actions):
                for b in range(samples):
                    q[a, b] += part[a, b]
    chosen = view_matrix_like(mine[CHOSEN], 1, samples, batch)[0]
    judged = view_float_matrix(mine[VALUES + JUDGED], actions, width)
    by = view_float_matrix(mine[VALUES + CHOOSING], actions, width) if sizes[DOUBLE] else judged
    choose_best_actions(by, batch, 0, samples, samples, chosen)
    compute_loss_slopes(
        view_float_matrix(mine[VALUES], actions, width), judged, chosen, batch, huber, samples, 0, samples,
        view_float_matrix(mine[SLOPES], actions, width), terms, view_float_matrix(mine[ERRORS], 1, samples),
    )  # fmt: skip


@never_inlined
def write_priorities(mine: Array, batch: Array, samples: Scalar) -> None:
    """Write the priorities of the batch."""
    errors, priority = (
        view_float_matrix(mine[ERRORS], 1, samples),
        view_float_matrix(batch[PRIORITY], 1, samples),
    )
    for b in range(samples):
        priority[0, b] = errors[0, b]


@never_inlined
def second_layer_gradient(
    layers: Array, sizes: Array, mine: Array, shared: Array, zero: Scalar, block: Scalar
) -> Scalar:
    """The slope at some rows of the second layer, and the gradients of their weights; returns the squares' sum."""
    samples, width, out, actions = sizes[SAMPLES], sizes[WIDTH], layers[1, OUT], layers[2, OUT]
    first = block * BLOCK
    rows = min(BLOCK, out - first)
    delta = shared[DELTA] + 4 * first * width
    multiply_matrices(
        layers[2, WEIGHT] + 4 * first, 1, out, mine[SLOPES], width, delta, width, rows, padded_samples(sizes),
        actions, zero, 0, NO_LIMIT, shared[SECOND] + 4 * first * width,
    )  # fmt: skip
    found = gradient_of_rows(layers[1], mine[HIDDEN_ROWS], delta, first, rows, sizes, zero)
    # columns of the last layer's weights: [actions, rows]
    line = layers[2, LINE]
    scratch = layers[2, SCRATCH] + 4 * first if layers[2, SCRATCH] else layers[2, WEIGHT_GRAD] + 4 * first
    whole = (rows + LANES - 1) // LANES * LANES
    multiply_matrices(
        mine[SLOPES], width, 1, shared[SECOND_ROWS] + 4 * first, line, scratch, line, actions, whole, samples,
        zero, 0, NO_LIMIT, 0,
    )  # fmt: skip
    gradient = view_float_matrix(layers[2, WEIGHT_GRAD], actions, out)
    values = view_float_matrix(scratch, actions, line)
    for a in range(actions):
        if layers[2, SCRATCH]:
            for i in range(rows):
                gradient[a, first + i] = values[a, i]
        found += sum_squares(gradient[a, first : first + rows])
    if block == 0:
        bias, slopes = (
            view_float_matrix(layers[2, BIAS_GRAD], 1, actions),
            view_float_matrix(mine[SLOPES], actions, width),
        )
        for a in range(actions):
            bias[0, a] = sum_row(slopes[a, :samples])
        found += sum_squares(bias[0])
    return found


@never_inlined
def input_gradient_half(
    layers: Array, sizes: Array, shared: Array, zero: Scalar, part: Scalar, blocks: Scalar
) -> None:
    """The part of one half of W₁'s rows in the slope at some rows of the first layer."""
    width, inputs, out = sizes[WIDTH], layers[1, IN], layers[1, OUT]
    half, block = part // blocks, part % blocks
    # in whole blocks, so a half is what one of two threads has
    split = min(out, ((out + BLOCK - 1) // BLOCK + 1) // 2 * BLOCK)
    first, count = (0, split) if half == 0 else (split, out - split)
    at = block * BLOCK
    rows = min(BLOCK, inputs - at)
    to = shared[HALVES] + 4 * (half * inputs + at) * width
    if count == 0:
        nothing = view_float_matrix(to, rows, width)
        for i in range(rows):
            for b in range(width):
                nothing[i, b] = 0.0
        return
    multiply_matrices(
        layers[1, WEIGHT] + 4 * (first * inputs + at), 1, inputs, shared[DELTA] + 4 * first * width, width, to,
        width, rows, padded_samples(sizes), count, zero, 0, NO_LIMIT, 0,
    )  # fmt: skip


@never_inlined
def first_layer_gradient(
    layers: Array, sizes: Array, mine: Array, shared: Array, zero: Scalar, block: Scalar
) -> Scalar:
    """The slope at some rows of the first layer, and their gradient; returns the sum of squares."""
    width, inputs = sizes[WIDTH], layers[1, IN]
    first = block * BLOCK
    rows = min(BLOCK, inputs - first)
    place = 4 * first * width
    one, other = (
        view_float_matrix(shared[HALVES] + place, rows, width),
        view_float_matrix(shared[HALVES] + 4 * inputs * width + place, rows, width),
    )
    hidden, delta = (
        view_float_matrix(mine[HIDDEN] + place, rows, width),
        view_float_matrix(shared[FIRST_DELTA] + place, rows, width),
    )
    for i in range(rows):
        for b in range(width):
            slope = one[i, b] + other[i, b]
            delta[i, b] = SINGLE(0.0) if hidden[i, b] <= 0.0 else slope
    return gradient_of_rows(
        layers[0], mine[INPUT_ROWS], shared[FIRST_DELTA] + place, first, rows, sizes, zero
    )
