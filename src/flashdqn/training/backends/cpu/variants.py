"""Gradient steps of every other MLP and head on the CPU; `mlp.py` has those of plain ones, which compile faster.

The stages are those of `mlp.py`, with one more in front where layers are noisy:

1. noise     the effective weights of some rows of a noisy layer
2. samples   forward, the head, and backward, for some samples at a time
3. blocks    the gradient of some rows of a layer
4. pieces    clipping, Adam, and the soft update of the target

A kernel is made for one head from its four functions (`heads.py`); the rest is the same for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flashdqn.compute.gemm import (
    finish_stage,
    never_inlined,
    never_inlined_as,
    view_float_matrix,
    view_matrix_like,
)
from flashdqn.compute.kernels import Array, Scalar
from flashdqn.training.backends.cpu.head_categorical import (
    add_categorical_slope,
    categorical_goal,
    categorical_q,
    categorical_slopes,
)
from flashdqn.training.backends.cpu.head_quantile import (
    add_quantile_slope,
    quantile_goal,
    quantile_q,
    quantile_slopes,
)
from flashdqn.training.backends.cpu.heads import (
    DOUBLED,
    EXPERT,
    GIVEN,
    GREEDY,
    MARGIN_WEIGHT,
    MUNCHAUSEN,
    NOISE,
    SEEN_LEGAL,
    SHOWN,
    TEMPERATURE,
    add_scalar_slope,
    scalar_goal,
    scalar_q,
    scalar_slopes,
)
from flashdqn.training.backends.cpu.layer_columns import (
    ACTIONS,
    BOOTSTRAP,
    GOAL,
    INPUTS,
    REPEAT,
    REWARDS,
    SIGMA,
    UNBIASED,
    Q,
)
from flashdqn.training.backends.cpu.layers import (
    backward_layers,
    form_noisy_rows,
    forward_layers,
    gradient_of_norm,
    gradient_of_parts,
    gradient_of_sigmas,
)
from flashdqn.training.backends.cpu.mlp import (
    APART,
    APPLY,
    AT_ONCE,
    BY_ROWS,
    BYTES,
    COUNTERS,
    DELTA,
    LEGAL,
    NEXT_OBS,
    NEXT_X,
    NEXT_Y,
    OBS,
    PIECE,
    SAMPLES,
    SINGLE,
    WIDTH,
    ZERO,
    X,
    Y,
    apply_adam,
    choose_best_actions,
    gradient_of_rows,
    load_observations,
    sum_terms,
    take_next_part,
)
from flashdqn.training.backends.cpu.soft_targets import (
    make_margin,
    reward_entropy,
    reward_log_policy,
    soften_policy,
    take_rewards,
)

STAGES = 4


@never_inlined
def form_noisy_block(layers: Array, blocks: Array, noise: Scalar, part: Scalar) -> None:
    """Effective weights of a block: first those of the online network, then those of the target."""
    old = part >= len(blocks)
    block = blocks[part - len(blocks) if old else part]
    if block[3] == 0 and layers[block[0], SIGMA]:
        form_noisy_rows(layers[block[0]], old, noise, block[1], block[2])


@never_inlined
def gradient_of_block(
    layers: Array, blocks: Array, noise: Scalar, sizes: Array, zero: Scalar, part: Scalar
) -> Scalar:
    """The gradient of a block of rows; returns the sum of its squares."""
    layer, first, rows = layers[blocks[part, 0]], blocks[part, 1], blocks[part, 2]
    if blocks[part, 3]:
        return gradient_of_norm(layer, first, rows, sizes)
    if layer[REPEAT] > 1 or layer[UNBIASED]:
        square = gradient_of_parts(layer, first, rows, sizes, zero)
    else:
        delta = layer[DELTA] + 4 * first * sizes[WIDTH]
        square = gradient_of_rows(layer, layer[BY_ROWS], delta, first, rows, sizes, zero)
    if layer[SIGMA]:
        square += gradient_of_sigmas(layer, noise, first, rows)
    return square


@never_inlined
def load_part(
    layers: Array, batch: Array, sizes: Array, like: Array, rooms: Array, first: Scalar, end: Scalar
) -> None:
    """Observations, next observations and rewards of some samples."""
    samples, width, inputs = sizes[SAMPLES], sizes[WIDTH], layers[0, INPUTS]
    x, next_x = (
        view_float_matrix(layers[0, X], inputs, width),
        view_float_matrix(layers[0, NEXT_X], inputs, width),
    )
    load_observations(view_matrix_like(batch[OBS], samples, inputs, like), first, end, x, sizes[BYTES])
    if sizes[BOOTSTRAP] != GIVEN:
        obs = view_matrix_like(batch[NEXT_OBS], samples, inputs, like)
        load_observations(obs, first, end, next_x, sizes[BYTES])
    take_rewards(batch, sizes, rooms, first, end)


def make_find_goal(find_q: Any, make_goal: Any) -> Any:
    """The target of the loss for a head."""

    @never_inlined
    def find_goal(
        layers: Array, batch: Array, sizes: Array, numbers: Array, atoms: Array,
        rooms: Array, chosen: Array, first: Scalar, end: Scalar,
    ) -> None:  # fmt: skip
        """The target of the loss, by one of the bootstraps of `learn.bootstraps`, into GOAL."""
        outputs, tau, samples = layers[len(layers) - 1, NEXT_Y], numbers[TEMPERATURE], sizes[SAMPLES]
        q = view_float_matrix(rooms[Q], sizes[ACTIONS], sizes[WIDTH])
        if sizes[BOOTSTRAP] == GIVEN:
            rewards, goal = (
                view_float_matrix(rooms[REWARDS], 1, sizes[WIDTH]),
                view_float_matrix(rooms[GOAL], 1, sizes[WIDTH]),
            )
            for b in range(first, end):
                goal[0, b] = rewards[0, b]
            return
        if sizes[BOOTSTRAP] == DOUBLED:
            forward_layers(layers, sizes, rooms, False, True, False, first)
            find_q(outputs, rooms[Q], sizes, atoms, rooms, first)
            choose_best_actions(q, batch, first, end, samples, chosen)
        if sizes[BOOTSTRAP] == MUNCHAUSEN:
            forward_layers(layers, sizes, rooms, False, False, True, first)
            find_q(outputs, rooms[Q], sizes, atoms, rooms, first)
            soften_policy(rooms, batch[SEEN_LEGAL], sizes, tau, first, end)
            reward_log_policy(batch, sizes, numbers, rooms, first, end)
        forward_layers(layers, sizes, rooms, False, True, True, first)
        if sizes[BOOTSTRAP] == GREEDY or sizes[BOOTSTRAP] == MUNCHAUSEN:
            find_q(outputs, rooms[Q], sizes, atoms, rooms, first)
        if sizes[BOOTSTRAP] == GREEDY:
            choose_best_actions(q, batch, first, end, samples, chosen)
        if sizes[BOOTSTRAP] == MUNCHAUSEN:
            soften_policy(rooms, batch[LEGAL], sizes, tau, first, end)
            reward_entropy(batch, sizes, rooms, first, end)
        make_goal(outputs, batch, sizes, numbers, atoms, rooms, chosen, first, end)

    return find_goal


def make_updates(name: str, find_q: Any, make_goal: Any, find_slopes: Any, add_slope: Any) -> Any:
    """The kernel of a head, from its four functions."""
    find_goal, add_margin = make_find_goal(find_q, make_goal), make_margin(add_slope)

    def run_updates(
        worker: Scalar,
        threads: Scalar,
        layers: Array,  # [L, layer_columns.COLUMNS]
        blocks: Array,  # [blocks, 4]: layer, first row, rows, whether it is the layer's norm
        shares: Array,  # [STAGES, threads + 1]
        chosen: Array,  # as in `mlp.run_updates`
        terms: Array,
        squares: Array,
        rooms: Array,  # by layer_columns.SPARE … REWARDS
        batches: Array,  # [updates, VARIANT_BATCH_COLUMNS]
        sizes: Array,  # by mlp.SAMPLES … APPLY, layer_columns.ACTIONS … BOOTSTRAP
        places: Array,
        lengths: Array,
        settings: Array,
        numbers: Array,  # by heads.HUBER … MARGIN_WEIGHT, float32
        atoms: Array,  # [size], float32: the atoms, or the fractions of quantiles
        like: Array,
        results: Array,
        sums: Array,
        done: Array,
    ) -> None:
        """One update per batch, one after the other; or only the gradient of one batch. See `mlp.run_updates`."""
        samples, at_once, applied = sizes[SAMPLES], sizes[AT_ONCE], sizes[APPLY]
        stage = (threads + 1) * APART
        for u in range(len(batches)):
            counters = places[COUNTERS] + STAGES * stage * u
            finished, part = 0, take_next_part(counters, shares[0], worker, threads)
            while part >= 0:
                form_noisy_block(layers, blocks, batches[u, NOISE], part)
                finished += 1
                part = take_next_part(counters, shares[0], worker, threads)
            finish_stage(counters, finished, shares[0, threads])

            counters += stage
            finished, part = 0, take_next_part(counters, shares[1], worker, threads)
            while part >= 0:
                first = part * at_once
                end = min(first + at_once, samples)
                load_part(layers, batches[u], sizes, like, rooms, first, end)
                find_goal(layers, batches[u], sizes, numbers, atoms, rooms, chosen, first, end)
                forward_layers(layers, sizes, rooms, True, False, False, first)
                outputs, slopes = layers[len(layers) - 1, Y], layers[len(layers) - 1, DELTA]
                find_slopes(outputs, slopes, batches[u], sizes, numbers, atoms, rooms, terms, first, end)
                if batches[u, EXPERT] and numbers[MARGIN_WEIGHT] > 0 and first < batches[u, SHOWN]:
                    find_q(outputs, rooms[Q], sizes, atoms, rooms, first)
                    add_margin(outputs, slopes, batches[u], sizes, numbers, atoms, rooms, terms, first, end)
                backward_layers(layers, sizes, rooms, first, end, places[ZERO])
                finished += 1
                part = take_next_part(counters, shares[1], worker, threads)
            finish_stage(counters, finished, shares[1, threads])
            loss, q = sum_terms(terms[0]), sum_terms(terms[1]) / samples
            if applied and not np.isfinite(SINGLE(loss)):
                results[u, 0] = loss
                return

            counters += stage
            finished, part = 0, take_next_part(counters, shares[2], worker, threads)
            while part >= 0:
                squares[part] = gradient_of_block(
                    layers, blocks, batches[u, NOISE], sizes, places[ZERO], part
                )
                finished += 1
                part = take_next_part(counters, shares[2], worker, threads)
            finish_stage(counters, finished, shares[2, threads])
            norm = np.sqrt(sum_terms(squares))
            if not applied:
                results[u, 0], results[u, 1], results[u, 2] = loss, q, norm
                return

            counters += stage
            finished, part = 0, take_next_part(counters, shares[3], worker, threads)
            while part >= 0:
                if part == 0:
                    results[u, 0], results[u, 1], results[u, 2] = loss, q, norm
                    for k in range(3):
                        sums[k] += results[u, k]
                    done[0] = u + 1
                apply_adam(part * PIECE, places, lengths, settings, norm, u + 1)
                finished += 1
                part = take_next_part(counters, shares[3], worker, threads)
            finish_stage(counters, finished, shares[3, threads])

    return never_inlined_as(name, run_updates)


run_scalar_updates = make_updates(
    "run_scalar_updates", scalar_q, scalar_goal, scalar_slopes, add_scalar_slope
)
run_categorical_updates = make_updates(
    "run_categorical_updates", categorical_q, categorical_goal, categorical_slopes, add_categorical_slope
)
run_quantile_updates = make_updates(
    "run_quantile_updates", quantile_q, quantile_goal, quantile_slopes, add_quantile_slope
)
