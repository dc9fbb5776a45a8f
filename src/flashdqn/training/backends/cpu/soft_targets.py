"""What Munchausen adds to rewards and demonstrations to the loss, in hand-written updates: see `heads.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from flashdqn.compute.gemm import (
    never_inlined,
    view_bool_matrix,
    view_float_matrix,
    view_matrix_like,
)
from flashdqn.compute.kernels import (
    Array,
    Scalar,
)
from flashdqn.compute.vector_math import (
    exp_float,
    log_float,
)
from flashdqn.training.backends.cpu.heads import (
    ALPHA,
    EXPERT,
    GAP,
    LOWEST_LOG,
    MARGIN_WEIGHT,
    SEEN_LEGAL,
    SHOWN,
)
from flashdqn.training.backends.cpu.layer_columns import (
    ACTIONS,
    POLICY,
    REWARDS,
    Q,
)
from flashdqn.training.backends.cpu.mlp import (
    ACTION,
    DISCOUNT,
    REWARD,
    SAMPLES,
    SINGLE,
    WIDTH,
)


@never_inlined
def take_rewards(batch: Array, sizes: Array, rooms: Array, first: Scalar, end: Scalar) -> None:
    """The rewards of the transitions into REWARDS, where a bootstrap may add to them."""
    reward = view_float_matrix(batch[REWARD], 1, sizes[SAMPLES])[0]
    rewards = view_float_matrix(rooms[REWARDS], 1, sizes[WIDTH])[0]
    for b in range(first, end):
        rewards[b] = reward[b]


@never_inlined
def soften_policy(rooms: Array, legal: Scalar, sizes: Array, tau: Scalar, first: Scalar, end: Scalar) -> None:
    """π = softmax(Q/τ) over the legal actions into POLICY, and τ log π in the place of Q; both are 0 where an
    action is illegal. See `learn.bootstraps.soft_policy`."""
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
