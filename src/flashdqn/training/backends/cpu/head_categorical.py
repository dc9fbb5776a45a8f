"""The categorical head (C51) of hand-written updates: see `heads.py`."""

from __future__ import annotations

import numpy as np

from flashdqn.compute.gemm import (
    never_inlined,
    view_float_matrix,
    view_float_row,
)
from flashdqn.compute.kernels import (
    Array,
    Scalar,
    inner,
)
from flashdqn.compute.vector_math import (
    exp_float,
    log_float,
)
from flashdqn.training.backends.cpu.heads import (
    MUNCHAUSEN,
    STEP,
    V_MIN,
    pick_actions,
    pick_taken,
    write_taken,
)
from flashdqn.training.backends.cpu.layer_columns import (
    ACTIONS,
    BOOTSTRAP,
    CHANCE,
    GOAL,
    PICKED,
    POLICY,
    REWARDS,
    SIZE,
    SUMS,
    add_row,
    copy_row,
    fill_row,
)
from flashdqn.training.backends.cpu.mlp import (
    AT_ONCE,
    DISCOUNT,
    PRIORITY,
    SAMPLE_WEIGHT,
    SAMPLES,
    SINGLE,
    WIDTH,
)


@never_inlined
def categorical_q(
    outputs: Scalar, to: Scalar, sizes: Array, atoms: Array, rooms: Array, first: Scalar
) -> None:
    """Σ_i z_i p_i of every action."""
    width, count, size = sizes[WIDTH], sizes[AT_ONCE], sizes[SIZE]
    peak, total = (
        view_float_row(rooms[SUMS], 0, width, first, count),
        view_float_row(rooms[SUMS], 1, width, first, count),
    )
    for a in range(sizes[ACTIONS]):
        q = view_float_row(to, a, width, first, count)
        find_peaks(peak, outputs, a * size, size, width, first)
        fill_row(total, SINGLE(0.0))
        fill_row(q, SINGLE(0.0))
        for z in range(size):
            add_exps(total, q, view_float_row(outputs, a * size + z, width, first, count), peak, atoms[z])
        for b in range(count):
            q[b] /= total[b]


@inner
def find_peaks(peak: Array, outputs: Scalar, row: Scalar, size: Scalar, width: Scalar, first: Scalar) -> None:
    """The largest of `size` rows, for each sample."""
    copy_row(peak, view_float_row(outputs, row, width, first, len(peak)))
    for z in range(1, size):
        other = view_float_row(outputs, row + z, width, first, len(peak))
        for b in range(len(peak)):
            peak[b] = other[b] if other[b] > peak[b] else peak[b]


@inner
def add_exps(total: Array, weighted: Array, logits: Array, peak: Array, factor: Scalar) -> None:
    """Add e^(logit − peak), and `factor` times it."""
    for b in range(len(total)):
        part = exp_float(logits[b] - peak[b])
        total[b] += part
        weighted[b] += factor * part


@inner
def write_exps(to: Array, total: Array, logits: Array, peak: Array) -> None:
    """e^(logit − peak), and its sum."""
    for b in range(len(total)):
        part = exp_float(logits[b] - peak[b])
        to[b] = part
        total[b] += part


@never_inlined
def write_softmax(rows: Scalar, to: Scalar, sizes: Array, rooms: Array, first: Scalar) -> None:
    """The softmax over `size` rows, for each sample; SUMS has their peaks and the sums of e^(logit − peak)."""
    width, count, size = sizes[WIDTH], sizes[AT_ONCE], sizes[SIZE]
    peak, total = (
        view_float_row(rooms[SUMS], 0, width, first, count),
        view_float_row(rooms[SUMS], 1, width, first, count),
    )
    find_peaks(peak, rows, 0, size, width, first)
    fill_row(total, SINGLE(0.0))
    for z in range(size):
        write_exps(
            view_float_row(to, z, width, first, count),
            total,
            view_float_row(rows, z, width, first, count),
            peak,
        )
    inverse = view_float_row(rooms[SUMS], 2, width, first, count)
    for b in range(count):
        inverse[b] = SINGLE(1.0) / total[b]
    for z in range(size):
        row = view_float_row(to, z, width, first, count)
        for b in range(count):
            row[b] *= inverse[b]


@never_inlined
def categorical_goal(
    outputs: Scalar, batch: Array, sizes: Array, numbers: Array, atoms: Array, rooms: Array, chosen: Array,
    first: Scalar, end: Scalar,
) -> None:  # fmt: skip
    """Probabilities of the atoms nearest to r + γ z: see `learn.distributional.project_distribution`."""
    width, count, size, samples = sizes[WIDTH], sizes[AT_ONCE], sizes[SIZE], sizes[SAMPLES]
    if sizes[BOOTSTRAP] == MUNCHAUSEN:
        mix_distributions(outputs, sizes, rooms, first)
    else:
        pick_actions(outputs, sizes, rooms[PICKED], chosen, first, end)
        write_softmax(rooms[PICKED], rooms[CHANCE], sizes, rooms, first)
    for z in range(size):
        fill_row(view_float_row(rooms[GOAL], z, width, first, count), SINGLE(0.0))
    chance, goal = view_float_matrix(rooms[CHANCE], size, width), view_float_matrix(rooms[GOAL], size, width)
    reward = view_float_matrix(rooms[REWARDS], 1, width)
    discount = view_float_matrix(batch[DISCOUNT], 1, samples)
    v_min, step, last = numbers[V_MIN], numbers[STEP], size - 1
    for b in range(first, end):
        if np.isnan(reward[0, b]) or not np.isfinite(discount[0, b]):
            goal[0, b] = SINGLE(np.nan)  # it shows in the loss
            continue
        for z in range(size):
            place = (reward[0, b] + discount[0, b] * atoms[z] - v_min) / step
            place = min(max(place, SINGLE(0.0)), SINGLE(last))
            lower = int(place)
            upper = chance[z, b] * (place - SINGLE(lower))
            goal[lower, b] += chance[z, b] - upper
            goal[min(lower + 1, last), b] += upper


@never_inlined
def mix_distributions(outputs: Scalar, sizes: Array, rooms: Array, first: Scalar) -> None:
    """Σ_a π(a) p(a) into CHANCE."""
    width, count, size = sizes[WIDTH], sizes[AT_ONCE], sizes[SIZE]
    for z in range(size):
        fill_row(view_float_row(rooms[CHANCE], z, width, first, count), SINGLE(0.0))
    for a in range(sizes[ACTIONS]):
        write_softmax(outputs + 4 * a * size * width, rooms[PICKED], sizes, rooms, first)
        policy = view_float_row(rooms[POLICY], a, width, first, count)
        for z in range(size):
            to, part = (
                view_float_row(rooms[CHANCE], z, width, first, count),
                view_float_row(rooms[PICKED], z, width, first, count),
            )
            for b in range(count):
                to[b] += policy[b] * part[b]


@never_inlined
def categorical_slopes(
    outputs: Scalar, slopes: Scalar, batch: Array, sizes: Array, numbers: Array, atoms: Array, rooms: Array,
    terms: Array, first: Scalar, end: Scalar,
) -> None:  # fmt: skip
    """Cross-entropy; the priority is KL(target ‖ value)."""
    width, count, size, samples = sizes[WIDTH], sizes[AT_ONCE], sizes[SIZE], sizes[SAMPLES]
    pick_taken(outputs, batch, sizes, rooms, first, end)
    write_softmax(rooms[PICKED], rooms[CHANCE], sizes, rooms, first)
    peak, total = (
        view_float_row(rooms[SUMS], 0, width, first, count),
        view_float_row(rooms[SUMS], 1, width, first, count),
    )
    loss, entropy = (
        view_float_row(rooms[SUMS], 2, width, first, count),
        view_float_row(rooms[SUMS], 3, width, first, count),
    )
    whole, mean = (
        view_float_row(rooms[SUMS], 4, width, first, count),
        view_float_row(rooms[SUMS], 5, width, first, count),
    )
    for b in range(count):
        peak[b] += log_float(total[b])  # log Σ e^logit
    for row in (loss, entropy, whole, mean):
        fill_row(row, SINGLE(0.0))
    for z in range(size):
        goal, logit = (
            view_float_row(rooms[GOAL], z, width, first, count),
            view_float_row(rooms[PICKED], z, width, first, count),
        )
        add_row(mean, view_float_row(rooms[CHANCE], z, width, first, count), atoms[z])
        add_row(whole, goal, SINGLE(1.0))
        for b in range(count):
            loss[b] += goal[b] * (peak[b] - logit[b])
        for b in range(count):
            entropy[b] -= goal[b] * log_float(goal[b])
    for z in range(size):
        goal, chance = (
            view_float_row(rooms[GOAL], z, width, first, count),
            view_float_row(rooms[CHANCE], z, width, first, count),
        )
        for b in range(count):
            chance[b] = chance[b] * whole[b] - goal[b]
    weight = view_float_matrix(batch[SAMPLE_WEIGHT], 1, samples)
    priority = view_float_matrix(batch[PRIORITY], 1, samples)
    for b in range(end - first):
        terms[0, first + b] = loss[b] * weight[0, first + b] / samples
        terms[1, first + b] = mean[b]
        priority[0, first + b] = max(loss[b] - entropy[b], SINGLE(0.0))
    write_taken(slopes, batch, sizes, rooms[CHANCE], SINGLE(1.0) / SINGLE(samples), first, end)


@inner
def add_categorical_slope(
    outputs: Scalar, slopes: Scalar, sizes: Array, atoms: Array, action: Scalar, b: Scalar, q: Scalar,
    slope: Scalar,
) -> None:  # fmt: skip
    """∂Q / ∂logit_i = p_i (z_i − Q)."""
    size = sizes[SIZE]
    logits = view_float_matrix(outputs + 4 * action * size * sizes[WIDTH], size, sizes[WIDTH])
    to = view_float_matrix(slopes + 4 * action * size * sizes[WIDTH], size, sizes[WIDTH])
    peak, total = logits[0, b], SINGLE(0.0)
    for z in range(1, size):
        peak = max(peak, logits[z, b])
    for z in range(size):
        total += exp_float(logits[z, b] - peak)
    for z in range(size):
        to[z, b] += slope * exp_float(logits[z, b] - peak) / total * (atoms[z] - q)
