# mypy: ignore-errors
"""Large batches: what an update computes row by row, and the three matrix products that are left, one kernel each.

With δ3 = ∂loss/∂Q(s, a) at the action taken, δ2 = (δ3 · W3) ⊙ [h2 > 0] and δ1 = (δ2 · W2) ⊙ [h1 > 0]:
∂W3 = δ3ᵀ · h2, ∂W2 = δ2ᵀ · h1, ∂W1 = δ1ᵀ · obs, and each bias has the sum of its δ over the rows.

`joint_forward` takes some rows through all networks to δ2, `joint_backward` to δ1. Both leave their part of the
small gradients. `joint_product` has ∂W2, and `joint_reduce` adds everything up. Tensor cores take TF32 numbers only
with the axis that is summed over side by side in memory, so W2 (for δ1), δ2 and h1 (for ∂W2) are stored transposed.
"""

from __future__ import annotations

import triton
import triton.language as tl

from flashdqn.training.backends.cuda.kernel_forward import count_step
from flashdqn.training.backends.cuda.kernel_layers import (
    action_values,
    first_hidden,
    load_obs,
    partial_action_values,
    second_hidden,
    wait_for_previous,
)
from flashdqn.training.backends.cuda.kernel_td import td_error


@triton.jit
def transpose_second_weights(flat, transposed, net: tl.constexpr, SIZE: tl.constexpr, PDL: tl.constexpr):
    """transposed[i, j] = W2[j, i], by tiles of SIZE · SIZE."""
    wait_for_previous(PDL)
    tile = tl.program_id(0)
    unit = (tile % (net.hidden1 // SIZE)) * SIZE + tl.arange(0, SIZE)
    column = (tile // (net.hidden1 // SIZE)) * SIZE + tl.arange(0, SIZE)
    weights = tl.load(flat + net.weight2 + column[:, None] * net.hidden1 + unit[None, :])
    tl.store(transposed + unit[:, None] * net.hidden2 + column[None, :], tl.trans(weights))


@triton.jit
def _kept_values(numbers, flat, rows, h2s, net: tl.constexpr, rules: tl.constexpr, tile: tl.constexpr):
    """Q of the observations; h2 stays in memory for the way back."""
    ROWS: tl.constexpr = tile.rows
    WIDTH: tl.constexpr = net.padded_actions
    q = tl.zeros((ROWS, WIDTH), tl.float32)
    for first in range(0, net.hidden2, tile.columns):
        column = first + tl.arange(0, tile.columns)
        h2 = second_hidden(numbers, flat, first, net, rules, tile)
        tl.store(h2s + rows[:, None] * net.hidden2 + column[None, :], h2)
        q += partial_action_values(h2, flat, first, net, rules, tile)
    return q


@triton.jit
def _third_gradients(
    rows, slope3, flat, work, gradient, net: tl.constexpr, rules: tl.constexpr, tile: tl.constexpr
):
    """This tile's part of ∂W3, ∂b2 and ∂b3, from δ3, [R, padded actions]; δ2 takes h2's place in memory."""
    action = tl.arange(0, net.padded_actions)
    real = action < net.actions
    for start in range(0, net.hidden2, tile.depth):
        column = start + tl.arange(0, tile.depth)
        place = work.hidden2 + rows[:, None] * net.hidden2 + column[None, :]
        h2 = tl.load(place)
        w3 = tl.load(
            flat + net.weight3 + action[:, None] * net.hidden2 + column[None, :],
            mask=real[:, None],
            other=0.0,
        )
        slope2 = tl.where(h2 > 0.0, tl.dot(slope3, w3, input_precision=rules.precision), 0.0)
        total = tl.dot(tl.trans(slope3), h2, input_precision=rules.precision)
        tl.store(place, slope2)
        tl.store(work.slopes2 + column[None, :] * rules.stride + rows[:, None], slope2)
        tl.store(gradient + net.small_bias2 + column, tl.sum(slope2, axis=0))
        tl.store(
            gradient + net.small_weight3 + action[:, None] * net.hidden2 + column[None, :],
            total,
            mask=real[:, None],
        )
    tl.store(gradient + net.small_bias3 + action, tl.sum(slope3, axis=0), mask=real)


@triton.jit
def joint_forward(
    flat, target, samples, work, step, net: tl.constexpr, rules: tl.constexpr, tile: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """One program: its rows through all networks, their TD error, and its part of ∂W3, ∂b2 and ∂b3."""
    wait_for_previous(PDL)
    index = tl.program_id(0)
    rows = index * tile.rows + tl.arange(0, tile.rows)
    numbers = load_obs(samples.next_obs, rows, net, rules)
    q_target = action_values(numbers, target, net, rules, tile)
    q_online = q_target
    if rules.networks == 3:
        q_online = action_values(numbers, flat, net, rules, tile)
    numbers = load_obs(samples.obs, rows, net, rules)
    q = _kept_values(numbers, flat, rows, work.hidden2, net, rules, tile)
    taken, slope, loss, size, value = td_error(
        q, q_target, q_online, rows, samples, net.padded_actions, net, rules
    )
    tl.store(work.priority + rows, size, mask=rows < rules.rows)
    tl.store(work.part_sums + 2 * index, tl.sum(loss, axis=0))
    tl.store(work.part_sums + 2 * index + 1, tl.sum(value, axis=0))
    slope3 = tl.where(taken[:, None] == tl.arange(0, net.padded_actions)[None, :], slope[:, None], 0.0)
    gradient = work.gradients + index * net.small_stride
    tl.debug_barrier()  # other threads of this program have stored the h2 that is read now
    _third_gradients(rows, slope3, flat, work, gradient, net, rules, tile)
    if index == 0:
        count_step(step, work.corrections)


@triton.jit
def joint_backward(
    flat, obs, work, net: tl.constexpr, rules: tl.constexpr, tile: tl.constexpr, PDL: tl.constexpr
):
    """One program: δ1 of its rows for some units, and their part of ∂W1 and ∂b1; h1 stays in memory, transposed."""
    wait_for_previous(PDL)
    ROWS: tl.constexpr = tile.rows
    UNITS: tl.constexpr = tile.units
    across = net.hidden1 // UNITS
    index = tl.program_id(0) // across
    rows = index * ROWS + tl.arange(0, ROWS)
    unit = (tl.program_id(0) % across) * UNITS + tl.arange(0, UNITS)
    slope1 = tl.zeros((ROWS, UNITS), tl.float32)
    for start in range(0, net.hidden2, tile.depth):
        column = start + tl.arange(0, tile.depth)
        slope2 = tl.load(work.hidden2 + rows[:, None] * net.hidden2 + column[None, :])
        w2 = tl.load(work.weight2 + unit[None, :] * net.hidden2 + column[:, None])  # [depth, units]
        slope1 = tl.dot(slope2, w2, slope1, input_precision=rules.precision)
    numbers = load_obs(obs, rows, net, rules)
    h1 = first_hidden(numbers, flat, unit, net, rules)
    tl.store(work.hidden1 + unit[None, :] * rules.stride + rows[:, None], h1)
    slope1 = tl.where(h1 > 0.0, slope1, 0.0)
    total = tl.dot(tl.trans(slope1), numbers, input_precision=rules.precision)
    entry = tl.arange(0, net.padded_inputs)
    gradient = work.gradients + index * net.small_stride
    tl.store(gradient + unit[:, None] * net.inputs + entry[None, :], total, mask=entry[None, :] < net.inputs)
    tl.store(gradient + net.bias1 + unit, tl.sum(slope1, axis=0))


@triton.jit
def joint_product(work, net: tl.constexpr, rules: tl.constexpr, tile: tl.constexpr, PDL: tl.constexpr):
    """A tile of ∂W2 = Σ δ2ᵀ · h1, [columns, units], over one chunk of rows."""
    wait_for_previous(PDL)
    COLUMNS: tl.constexpr = tile.columns
    UNITS: tl.constexpr = tile.units
    task = tl.program_id(0)
    across = net.hidden1 // UNITS
    column = (task % tile.tiles) // across * COLUMNS + tl.arange(0, COLUMNS)
    unit = (task % tile.tiles) % across * UNITS + tl.arange(0, UNITS)
    chunk = task // tile.tiles
    total = tl.zeros((COLUMNS, UNITS), tl.float32)
    end = tl.minimum((chunk + 1) * tile.length, rules.stride)
    for begin in range(chunk * tile.length, end, tile.rows):
        rows = begin + tl.arange(0, tile.rows)
        slope2 = tl.load(work.slopes2 + column[:, None] * rules.stride + rows[None, :])
        h1 = tl.load(work.hidden1 + unit[None, :] * rules.stride + rows[:, None])
        total = tl.dot(slope2, h1, total, input_precision=rules.precision)
    start = work.products + chunk * net.hidden1 * net.hidden2
    tl.store(start + column[:, None] * net.hidden1 + unit[None, :], total)


@triton.jit
def _add_parts(
    parts, entry, inside, STRIDE: tl.constexpr, COUNT: tl.constexpr, SIZE: tl.constexpr, AT_ONCE: tl.constexpr
):
    """Σ parts[k, entry] over k, AT_ONCE of them together, in a fixed order."""
    result = tl.zeros((SIZE,), tl.float32)
    for first in range(0, COUNT, AT_ONCE):
        part = first + tl.arange(0, AT_ONCE)
        some = tl.load(
            parts + part[:, None] * STRIDE + entry[None, :],
            mask=inside[None, :] & (part[:, None] < COUNT),
            other=0.0,
        )
        result += tl.sum(some, axis=0)
    return result


@triton.jit
def joint_reduce(
    work, net: tl.constexpr, tile: tl.constexpr, PARTS: tl.constexpr, SIZE: tl.constexpr, SMALL: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """The whole gradient: ∂W2 over the chunks, the rest over the row tiles; and Σ gradient² of each program.

    There are many row tiles, so a program takes fewer numbers of them, and more tiles at once.
    """
    wait_for_previous(PDL)
    program = tl.program_id(0)
    PRODUCTS: tl.constexpr = net.hidden1 * net.hidden2
    if program < tile.product_programs:
        entry = program * SIZE + tl.arange(0, SIZE)
        inside = entry < PRODUCTS
        result = _add_parts(work.products, entry, inside, PRODUCTS, tile.chunks, SIZE, 32)
        tl.store(work.gradient + net.weight2 + entry, result, mask=inside)
        tl.store(work.squares + program, tl.sum(result * result, axis=0))
    else:
        number = (program - tile.product_programs) * SMALL + tl.arange(0, SMALL)
        there = number < net.small_parameters
        total = _add_parts(work.gradients, number, there, net.small_stride, PARTS, SMALL, 128)
        spot = tl.where(number < net.weight2, number, number + PRODUCTS)
        tl.store(work.gradient + spot, total, mask=there)
        tl.store(work.squares + program, tl.sum(total * total, axis=0))
