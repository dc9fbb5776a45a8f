"""The quantile head of hand-written updates: see `heads.py`."""

from __future__ import annotations

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
from flashdqn.training.backends.cpu.heads import (
    HUBER,
    pick_taken,
    select_or_expect,
    shift_by_reward,
    write_taken,
)
from flashdqn.training.backends.cpu.layer_columns import (
    ACTIONS,
    CHANCE,
    GOAL,
    PICKED,
    SIZE,
    SUMS,
    add_row,
    fill_row,
)
from flashdqn.training.backends.cpu.mlp import (
    AT_ONCE,
    PRIORITY,
    SAMPLE_WEIGHT,
    SAMPLES,
    SINGLE,
    WIDTH,
)


@never_inlined
def quantile_q(outputs: Scalar, to: Scalar, sizes: Array, atoms: Array, rooms: Array, first: Scalar) -> None:
    """The mean of the quantiles."""
    width, count, size = sizes[WIDTH], sizes[AT_ONCE], sizes[SIZE]
    share = SINGLE(1.0) / SINGLE(size)
    for a in range(sizes[ACTIONS]):
        q = view_float_row(to, a, width, first, count)
        fill_row(q, SINGLE(0.0))
        for z in range(size):
            add_row(q, view_float_row(outputs, a * size + z, width, first, count), share)


@never_inlined
def quantile_goal(
    outputs: Scalar, batch: Array, sizes: Array, numbers: Array, atoms: Array, rooms: Array, chosen: Array,
    first: Scalar, end: Scalar,
) -> None:  # fmt: skip
    """r + γ θ⁻ of every quantile."""
    select_or_expect(outputs, sizes, rooms, chosen, first, end)
    shift_by_reward(batch, sizes, rooms, first, end)


@never_inlined
def quantile_slopes(
    outputs: Scalar, slopes: Scalar, batch: Array, sizes: Array, numbers: Array, atoms: Array, rooms: Array,
    terms: Array, first: Scalar, end: Scalar,
) -> None:  # fmt: skip
    """The quantile Huber loss: see `learn.distributional.quantile_huber_loss`."""
    width, count, size, samples = sizes[WIDTH], sizes[AT_ONCE], sizes[SIZE], sizes[SAMPLES]
    pick_taken(outputs, batch, sizes, rooms, first, end)
    loss, apart = (
        view_float_row(rooms[SUMS], 0, width, first, count),
        view_float_row(rooms[SUMS], 1, width, first, count),
    )
    mean, kappa = view_float_row(rooms[SUMS], 2, width, first, count), numbers[HUBER]
    for row in (loss, apart, mean):
        fill_row(row, SINGLE(0.0))
    for i in range(size):
        own, slope = (
            view_float_row(rooms[PICKED], i, width, first, count),
            view_float_row(rooms[CHANCE], i, width, first, count),
        )
        fill_row(slope, SINGLE(0.0))
        add_row(mean, own, SINGLE(1.0) / SINGLE(size))
        for j in range(size):
            goal = view_float_row(rooms[GOAL], j, width, first, count)
            if kappa > 0:
                add_quantile_huber(slope, loss, own, goal, atoms[i], kappa)
            else:
                add_quantile_error(slope, loss, own, goal, atoms[i])
            add_distance(apart, own, goal)
    weight = view_float_matrix(batch[SAMPLE_WEIGHT], 1, samples)
    priority, share = view_float_matrix(batch[PRIORITY], 1, samples), SINGLE(1.0) / SINGLE(size)
    for b in range(end - first):
        factor = weight[0, first + b] * share / SINGLE(samples)
        terms[0, first + b] = loss[b] * factor
        terms[1, first + b] = mean[b]
        priority[0, first + b] = apart[b] * share * share
    write_taken(slopes, batch, sizes, rooms[CHANCE], share / SINGLE(samples), first, end)


@inner
def add_quantile_huber(
    slope: Array, loss: Array, own: Array, goal: Array, tau: Scalar, kappa: Scalar
) -> None:
    """The part of a pair of quantiles: with u = goal − own and c = u clipped to ±κ, the loss is
    |τ − 1{u < 0}| c (u − c/2) / κ, and its slope −|τ − 1{u < 0}| c / κ."""
    low, high = (SINGLE(1.0) - tau) / kappa, tau / kappa
    for b in range(len(loss)):
        u = goal[b] - own[b]
        cut = kappa if u > kappa else u
        cut = -kappa if cut < -kappa else cut
        part = (low if u < SINGLE(0.0) else high) * cut
        slope[b] -= part
        loss[b] += part * (u - SINGLE(0.5) * cut)


@inner
def add_quantile_error(slope: Array, loss: Array, own: Array, goal: Array, tau: Scalar) -> None:
    """The same for κ = 0: |τ − 1{u < 0}| |u|."""
    for b in range(len(loss)):
        u = goal[b] - own[b]
        part = tau - SINGLE(1.0) if u < SINGLE(0.0) else tau
        slope[b] -= part if u != SINGLE(0.0) else SINGLE(0.0)
        loss[b] += part * u


@inner
def add_distance(to: Array, one: Array, other: Array) -> None:
    """to += |one − other|."""
    for b in range(len(to)):
        to[b] += abs(one[b] - other[b])


@inner
def add_quantile_slope(
    outputs: Scalar, slopes: Scalar, sizes: Array, atoms: Array, action: Scalar, b: Scalar, q: Scalar,
    slope: Scalar,
) -> None:  # fmt: skip
    """∂Q / ∂quantile is 1/N."""
    size = sizes[SIZE]
    to = view_float_matrix(slopes, sizes[ACTIONS] * size, sizes[WIDTH])
    for z in range(size):
        to[action * size + z, b] += slope / SINGLE(size)
