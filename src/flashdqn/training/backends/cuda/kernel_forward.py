# mypy: ignore-errors
"""First kernel of an update: Q of online(obs), target(next_obs) and, for double DQN, online(next_obs).

There are two, and a plan chooses one. `forward_split` leaves parts of the action values, and the next kernel works
out the TD error; `forward_joint` does that too. Both count the step: no other kernel reads it before the next one.
"""

from __future__ import annotations

import triton
import triton.language as tl

from flashdqn.training.backends.cuda.kernel_layers import (
    action_values,
    load_obs,
    partial_action_values,
    second_hidden,
    wait_for_previous,
)
from flashdqn.training.backends.cuda.kernel_td import td_error


@triton.jit
def _count_step(step, corrections):
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
        _count_step(step, work.corrections)


@triton.jit
def forward_joint(
    flat, target, samples, work, step, net: tl.constexpr, rules: tl.constexpr, tile: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """Large batches: one program takes a row tile through all networks, and to the slope of its loss."""
    wait_for_previous(PDL)
    index = tl.program_id(0)
    rows = index * tile.rows + tl.arange(0, tile.rows)
    numbers = load_obs(samples.next_obs, rows, net, rules)
    q_target = action_values(numbers, target, rows, work.hidden2, False, net, rules, tile)
    q_online = q_target
    if rules.networks == 3:
        q_online = action_values(numbers, flat, rows, work.hidden2, False, net, rules, tile)
    numbers = load_obs(samples.obs, rows, net, rules)
    q = action_values(numbers, flat, rows, work.hidden2, True, net, rules, tile)
    _, slope, loss, size, value = td_error(
        q, q_target, q_online, rows, samples, net.padded_actions, net, rules
    )
    tl.store(work.slopes + rows, slope, mask=rows < rules.rows)
    tl.store(work.priority + rows, size, mask=rows < rules.rows)
    tl.store(work.part_sums + 2 * index, tl.sum(loss, axis=0))
    tl.store(work.part_sums + 2 * index + 1, tl.sum(value, axis=0))
    if index == 0:
        _count_step(step, work.corrections)
