# mypy: ignore-errors
"""First kernel of an update: Q of online(obs), target(next_obs) and, for double DQN, online(next_obs).

It leaves parts of the action values, and the next kernel works out the TD error. It also counts the step: no other
kernel reads it before the next update. Large batches take `kernel_joint.py` instead.
"""

from __future__ import annotations

import triton
import triton.language as tl

from flashdqn.training.backends.cuda.kernel_layers import (
    load_obs,
    partial_action_values,
    second_hidden,
    wait_for_previous,
)


@triton.jit
def count_step(step, corrections):
    """Count the update; Adam's corrections 1 − 0.9ᵗ and √(1 − 0.999ᵗ), in float64 to keep their last digits."""
    now = tl.load(step) + 1.0
    tl.store(step, now)
    t = now.to(tl.float64)
    tl.store(corrections, (1.0 - tl.exp(t * -0.10536051565782628)).to(tl.float32))  # ln 0.9
    tl.store(corrections + 1, tl.sqrt(1.0 - tl.exp(t * -0.0010005003335835335)).to(tl.float32))  # ln 0.999


@triton.jit
def forward_split(
    flat, target, samples, work, step, net: tl.constexpr, rules: tl.constexpr, tile: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """Small batches: each program adds up one network's Q over its own slice of hidden units.

    value_parts[network, slice, row, a] = Σ h2[row, j] · W3[a, j] over the units j of the slice; + b3 in the first.
    """
    wait_for_previous(PDL)
    task = tl.program_id(0)
    part = task % (rules.networks * rules.slices)
    network = part // rules.slices  # 0: online(obs), 1: target(next_obs), 2: online(next_obs)
    first = (part % rules.slices) * tile.columns
    rows = (task // (rules.networks * rules.slices)) * tile.rows + tl.arange(0, tile.rows)
    inputs = samples.obs if network == 0 else samples.next_obs
    weights = target if network == 1 else flat
    numbers = load_obs(inputs, rows, net, rules)
    h2 = second_hidden(numbers, weights, first, net, rules, tile)
    q = partial_action_values(h2, weights, first, net, rules, tile)
    action = tl.arange(0, net.padded_actions)
    inside = (rows[:, None] < rules.rows) & (action[None, :] < net.actions)
    start = work.value_parts + (part * rules.rows + rows[:, None]) * net.value_columns
    tl.store(start + action[None, :], q, mask=inside)
    if network == 0:
        column = first + tl.arange(0, tile.columns)
        tl.store(
            work.hidden2 + rows[:, None] * net.hidden2 + column[None, :], h2, mask=rows[:, None] < rules.rows
        )
    if task == 0:
        count_step(step, work.corrections)
