"""What the hand-written update computes between forward and backward: the next action, the target, the loss, its slope.

A head is four functions: `…_q` gives the expected values, `…_goal` the target of the loss, `…_slopes` loss, priority
and ∂loss / ∂output, and `add_…_slope` adds to these for a loss of the expected values. All work on `count` samples from
`first` on, and on matrices of [numbers, width]: a vector holds one number of several samples. The twins are in
`learn/heads.py` and `learn/distributional.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flashdqn.compute.gemm import (
    never_inlined,
    view_bool_matrix,
    view_float_matrix,
    view_float_row,
    view_matrix_like,
)
from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.compute.vector_math import exp_float, log_float
from flashdqn.training.backends.cpu.layers import (
    ACTIONS,
    BOOTSTRAP,
    CHANCE,
    GOAL,
    PICKED,
    POLICY,
    REWARDS,
    SIZE,
    SUMS,
    Q,
    add_row,
    copy_row,
    fill_row,
)
from flashdqn.training.backends.cpu.mlp import (
    ACTION,
    AT_ONCE,
    BATCH_COLUMNS,
    DISCOUNT,
    PRIORITY,
    REWARD,
    SAMPLE_WEIGHT,
    SAMPLES,
    SINGLE,
    WIDTH,
)

# More columns of a table of batches: the legal actions of observations, the experts' actions (addresses, 0 where there
# are none), how many rows have one, and the update's noise.
SEEN_LEGAL, EXPERT, SHOWN, NOISE = range(BATCH_COLUMNS, BATCH_COLUMNS + 4)
VARIANT_BATCH_COLUMNS = BATCH_COLUMNS + 4

# Entries of `numbers`: Huber's δ or κ; the first atom and the distance of two; α, τ and l₀ of Munchausen; the margin
# and its weight.
HUBER, V_MIN, STEP, ALPHA, TEMPERATURE, LOWEST_LOG, GAP, MARGIN_WEIGHT = range(8)
NUMBERS = 8

# The bootstraps.
GREEDY, DOUBLED, MUNCHAUSEN, GIVEN = range(4)


# ---- one number per action


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


# ---- quantiles


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


# ---- probabilities of atoms


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


# ---- what heads share


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


@never_inlined
def take_rewards(batch: Array, sizes: Array, rooms: Array, first: Scalar, end: Scalar) -> None:
    """The rewards of the transitions into REWARDS, where a bootstrap may add to them."""
    reward = view_float_matrix(batch[REWARD], 1, sizes[SAMPLES])[0]
    rewards = view_float_matrix(rooms[REWARDS], 1, sizes[WIDTH])[0]
    for b in range(first, end):
        rewards[b] = reward[b]


@never_inlined
def soften_policy(rooms: Array, legal: Scalar, sizes: Array, tau: Scalar, first: Scalar, end: Scalar) -> None:
    """π = softmax(Q/τ) over the legal actions into POLICY, and τ log π in the place of Q; both are 0 where an action is
    illegal. See `learn.bootstraps.soft_policy`."""
    actions, width = sizes[ACTIONS], sizes[WIDTH]
    q, policy = view_float_matrix(rooms[Q], actions, width), view_float_matrix(rooms[POLICY], actions, width)
    masked = view_bool_matrix(legal, sizes[SAMPLES], actions)
    for b in range(first, end):
        everything = True
        if legal:
            for a in range(actions):
                everything = everything and not masked[b, a]
        peak, total = SINGLE(-np.inf), SINGLE(0.0)
        for a in range(actions):
            if (everything or masked[b, a]) and not q[a, b] <= peak:
                peak = q[a, b]
        for a in range(actions):
            if everything or masked[b, a]:
                total += exp_float((q[a, b] - peak) / tau)
        log = tau * log_float(total)
        for a in range(actions):
            if everything or masked[b, a]:
                q[a, b] = q[a, b] - peak - log
                policy[a, b] = exp_float(q[a, b] / tau)
            else:
                q[a, b], policy[a, b] = SINGLE(0.0), SINGLE(0.0)


@never_inlined
def reward_log_policy(
    batch: Array, sizes: Array, numbers: Array, rooms: Array, first: Scalar, end: Scalar
) -> None:
    """r + α [τ log π(a|s)]_{l₀}^0, from τ log π(·|s) in the place of Q."""
    actions = view_matrix_like(batch[ACTION], 1, sizes[SAMPLES], batch)[0]
    logs = view_float_matrix(rooms[Q], sizes[ACTIONS], sizes[WIDTH])
    rewards = view_float_matrix(rooms[REWARDS], 1, sizes[WIDTH])[0]
    for b in range(first, end):
        log = logs[actions[b], b]
        log = numbers[LOWEST_LOG] if log < numbers[LOWEST_LOG] else log
        rewards[b] += numbers[ALPHA] * (SINGLE(0.0) if log > SINGLE(0.0) else log)


@never_inlined
def reward_entropy(batch: Array, sizes: Array, rooms: Array, first: Scalar, end: Scalar) -> None:
    """r − γ Σ_a π(a|s') τ log π(a|s'), from τ log π(·|s') in the place of Q."""
    logs = view_float_matrix(rooms[Q], sizes[ACTIONS], sizes[WIDTH])
    policy = view_float_matrix(rooms[POLICY], sizes[ACTIONS], sizes[WIDTH])
    discount = view_float_matrix(batch[DISCOUNT], 1, sizes[SAMPLES])[0]
    rewards = view_float_matrix(rooms[REWARDS], 1, sizes[WIDTH])[0]
    for b in range(first, end):
        entropy = SINGLE(0.0)
        for a in range(sizes[ACTIONS]):
            entropy -= policy[a, b] * logs[a, b]
        rewards[b] += discount[b] * entropy


def make_margin(add_slope: Any) -> Any:
    """The margin loss of demonstrations for a head: see `learn.loss.Margin`. Equal rivals share the slope, as in
    `amax`."""

    @never_inlined
    def add_margin(
        outputs: Scalar, slopes: Scalar, batch: Array, sizes: Array, numbers: Array, atoms: Array,
        rooms: Array, terms: Array, first: Scalar, end: Scalar,
    ) -> None:  # fmt: skip
        """See `make_margin`."""
        samples, actions = sizes[SAMPLES], sizes[ACTIONS]
        q = view_float_matrix(rooms[Q], actions, sizes[WIDTH])
        experts = view_matrix_like(batch[EXPERT], 1, batch[SHOWN], batch)[0]
        masked = view_bool_matrix(batch[SEEN_LEGAL], samples, actions)
        unit = numbers[MARGIN_WEIGHT] / SINGLE(samples)
        for b in range(first, min(end, batch[SHOWN])):
            expert = experts[b]
            own = q[expert, b]
            best, equals = own, 1
            for a in range(actions):
                if a != expert and (batch[SEEN_LEGAL] == 0 or masked[b, a]):
                    rival = q[a, b] + numbers[GAP]
                    if rival > best or rival != rival:
                        best, equals = rival, 0
                    equals += rival == best
            terms[0, b] += unit * (best - own)
            for a in range(actions):
                if (
                    a != expert
                    and (batch[SEEN_LEGAL] == 0 or masked[b, a])
                    and q[a, b] + numbers[GAP] == best
                ):
                    add_slope(outputs, slopes, sizes, atoms, a, b, q[a, b], unit / SINGLE(equals))
                    add_slope(outputs, slopes, sizes, atoms, expert, b, own, -unit / SINGLE(equals))

    return add_margin
