"""What the hand-written update computes between forward and backward: the next action, the target, the loss, its
slope.

A head is four functions: `…_q` gives the expected values, `…_goal` the target of the loss, `…_slopes` loss,
priority and ∂loss / ∂output, and `add_…_slope` adds to these for a loss of the expected values. All work on
`count` samples from `first` on, and on matrices of [numbers, width]: a vector holds one number of several
samples. The twins are in `learn/heads.py` and `learn/distributional.py`.

Here are the scalar head and what all heads share; `head_quantile.py` and `head_categorical.py` have the others,
`soft_targets.py` what Munchausen and demonstrations add.
"""

from __future__ import annotations

import numpy as np

from flashdqn.compute.gemm import (
    never_inlined,
    view_float_matrix,
    view_float_row,
    view_matrix_like,
)
from flashdqn.compute.kernels import (
    Array,
    Scalar,
    inner,
)
from flashdqn.training.backends.cpu.layer_columns import (
    ACTIONS,
    BOOTSTRAP,
    GOAL,
    PICKED,
    POLICY,
    REWARDS,
    SIZE,
    copy_row,
    fill_row,
)
from flashdqn.training.backends.cpu.mlp import (
    ACTION,
    AT_ONCE,
    BATCH_COLUMNS,
    DISCOUNT,
    PRIORITY,
    SAMPLE_WEIGHT,
    SAMPLES,
    SINGLE,
    WIDTH,
)

# More columns of a table of batches: the legal actions of observations, the experts' actions (addresses, 0 where
# there are none), how many rows have one, and the update's noise.
SEEN_LEGAL, EXPERT, SHOWN, NOISE = range(BATCH_COLUMNS, BATCH_COLUMNS + 4)
VARIANT_BATCH_COLUMNS = BATCH_COLUMNS + 4

# Entries of `numbers`: Huber's δ or κ; the first atom and the distance of two; α, τ and l₀ of Munchausen; the
# margin and its weight.
HUBER, V_MIN, STEP, ALPHA, TEMPERATURE, LOWEST_LOG, GAP, MARGIN_WEIGHT = range(8)
NUMBERS = 8

# The bootstraps.
GREEDY, DOUBLED, MUNCHAUSEN, GIVEN = range(4)


@never_inlined
def scalar_q(outputs: Scalar, to: Scalar, sizes: Array, atoms: Array, rooms: Array, first: Scalar) -> None:
    """The output itself."""
    for a in range(sizes[ACTIONS]):
        own = view_float_row(outputs, a, sizes[WIDTH], first, sizes[AT_ONCE])
        copy_row(view_float_row(to, a, sizes[WIDTH], first, sizes[AT_ONCE]), own)


@never_inlined
def scalar_goal(
    outputs: Scalar, batch: Array, sizes: Array, numbers: Array, atoms: Array, rooms: Array, chosen: Array,
    first: Scalar, end: Scalar,
) -> None:  # fmt: skip
    """r + γ Q⁻."""
    select_or_expect(outputs, sizes, rooms, chosen, first, end)
    shift_by_reward(batch, sizes, rooms, first, end)


@never_inlined
def scalar_slopes(
    outputs: Scalar, slopes: Scalar, batch: Array, sizes: Array, numbers: Array, atoms: Array, rooms: Array,
    terms: Array, first: Scalar, end: Scalar,
) -> None:  # fmt: skip
    """Huber's loss: see `mlp.compute_loss_slopes`."""
    samples, width = sizes[SAMPLES], sizes[WIDTH]
    actions = view_matrix_like(batch[ACTION], 1, samples, batch)
    weight = view_float_matrix(batch[SAMPLE_WEIGHT], 1, samples)
    priority, huber = view_float_matrix(batch[PRIORITY], 1, samples), numbers[HUBER]
    q, to = (
        view_float_matrix(outputs, sizes[ACTIONS], width),
        view_float_matrix(slopes, sizes[ACTIONS], width),
    )
    goal = view_float_matrix(rooms[GOAL], 1, width)
    clear_slopes(slopes, sizes, first)
    for b in range(first, end):
        action = actions[0, b]
        error = q[action, b] - goal[0, b]
        cut, rest = error, SINGLE(0.5) * error  # NaN too
        if abs(error) > huber:
            cut = np.copysign(huber, error)
            rest = error - SINGLE(0.5) * cut
        slope = weight[0, b] * cut / samples
        to[action, b] = slope
        priority[0, b] = abs(error)
        terms[0, b] = slope * rest
        terms[1, b] = q[action, b]


@inner
def add_scalar_slope(
    outputs: Scalar, slopes: Scalar, sizes: Array, atoms: Array, action: Scalar, b: Scalar, q: Scalar,
    slope: Scalar,
) -> None:  # fmt: skip
    """∂Q / ∂output is 1."""
    view_float_matrix(slopes, sizes[ACTIONS], sizes[WIDTH])[action, b] += slope


@never_inlined
def clear_slopes(slopes: Scalar, sizes: Array, first: Scalar) -> None:
    """∂loss / ∂output is 0 unless something is written there."""
    for i in range(sizes[ACTIONS] * sizes[SIZE]):
        fill_row(view_float_row(slopes, i, sizes[WIDTH], first, sizes[AT_ONCE]), SINGLE(0.0))


@never_inlined
def pick_actions(
    outputs: Scalar, sizes: Array, to: Scalar, actions: Array, first: Scalar, end: Scalar
) -> None:
    """The numbers of one action for each sample, [size, width]."""
    size, width = sizes[SIZE], sizes[WIDTH]
    given = view_float_matrix(outputs, sizes[ACTIONS] * size, width)
    picked = view_float_matrix(to, size, width)
    for z in range(size):
        for b in range(first, end):
            picked[z, b] = given[actions[b] * size + z, b]


@never_inlined
def pick_taken(outputs: Scalar, batch: Array, sizes: Array, rooms: Array, first: Scalar, end: Scalar) -> None:
    """The numbers of the actions that were taken."""
    actions = view_matrix_like(batch[ACTION], 1, sizes[SAMPLES], batch)[0]
    pick_actions(outputs, sizes, rooms[PICKED], actions, first, end)


@never_inlined
def write_taken(
    slopes: Scalar, batch: Array, sizes: Array, given: Scalar, factor: Scalar, first: Scalar, end: Scalar
) -> None:
    """The slopes of the actions that were taken, times weight and `factor`; those of the others are 0."""
    size, width = sizes[SIZE], sizes[WIDTH]
    actions = view_matrix_like(batch[ACTION], 1, sizes[SAMPLES], batch)[0]
    weight = view_float_matrix(batch[SAMPLE_WEIGHT], 1, sizes[SAMPLES])[0]
    to, rows = view_float_matrix(slopes, sizes[ACTIONS] * size, width), view_float_matrix(given, size, width)
    clear_slopes(slopes, sizes, first)
    for z in range(size):
        for b in range(first, end):
            to[actions[b] * size + z, b] = rows[z, b] * weight[b] * factor


@never_inlined
def select_or_expect(
    outputs: Scalar, sizes: Array, rooms: Array, chosen: Array, first: Scalar, end: Scalar
) -> None:
    """The numbers of the chosen action or, with a soft policy, their expectation: into GOAL."""
    width, count, size = sizes[WIDTH], sizes[AT_ONCE], sizes[SIZE]
    if sizes[BOOTSTRAP] != MUNCHAUSEN:
        pick_actions(outputs, sizes, rooms[GOAL], chosen, first, end)
        return
    for z in range(size):
        to = view_float_row(rooms[GOAL], z, width, first, count)
        fill_row(to, SINGLE(0.0))
        for a in range(sizes[ACTIONS]):
            row = view_float_row(outputs, a * size + z, width, first, count)
            policy = view_float_row(rooms[POLICY], a, width, first, count)
            for b in range(count):
                to[b] += policy[b] * row[b]


@never_inlined
def shift_by_reward(batch: Array, sizes: Array, rooms: Array, first: Scalar, end: Scalar) -> None:
    """GOAL = r + γ GOAL."""
    discount = view_float_matrix(batch[DISCOUNT], 1, sizes[SAMPLES])[0]
    rewards, goal = (
        view_float_matrix(rooms[REWARDS], 1, sizes[WIDTH])[0],
        view_float_matrix(rooms[GOAL], sizes[SIZE], sizes[WIDTH]),
    )
    for z in range(sizes[SIZE]):
        for b in range(first, end):
            goal[z, b] = rewards[b] + discount[b] * goal[z, b]
