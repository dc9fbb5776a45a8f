# mypy: ignore-errors
"""The forward pass of a two-layer MLP, as pieces that the kernels put together.

h1 = relu(W1 · obs + b1), h2 = relu(W2 · h1 + b2), Q = W3 · h2 + b3. All parameters lie in one vector, as
`arguments.Layout` says. Every sum has a fixed order, so the same inputs give the same bits. The first hidden layer
is never stored: with few inputs it is cheaper to compute it again.

In shapes, R is the rows of a tile. Triton wants the sizes of new blocks as separate constants, in capitals.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def wait_for_previous(PDL: tl.constexpr):
    """Let the next kernel be put in place, and wait until the one before has finished (both only with PDL).

    The order matters: no kernel lets the next one start before its own wait is over. So two kernels never overlap
    with a third, and what the kernel before the last one wrote may be read before the wait.
    """
    if PDL:
        gdc_wait()
        gdc_launch_dependents()


@triton.jit
def relu(x):
    """max(x, 0)."""
    return tl.where(x < 0.0, 0.0, x)  # NaN stays NaN, as in PyTorch


@triton.jit
def load_obs(obs, rows, net: tl.constexpr, rules: tl.constexpr):
    """Rows of the observations, [R, padded inputs] float32; bytes become obs / 255."""
    column = tl.arange(0, net.padded_inputs)
    inside = (rows[:, None] < rules.rows) & (column[None, :] < net.inputs)
    values = tl.load(obs + rows[:, None] * net.inputs + column[None, :], mask=inside, other=0)
    if rules.byte_obs:
        values = values.to(tl.float32) / 255.0
    return values


@triton.jit
def first_hidden(obs, flat, unit, net: tl.constexpr, rules: tl.constexpr):
    """h1 = relu(obs · W1ᵀ + b1) for some units of the first hidden layer, [R, units]."""
    column = tl.arange(0, net.padded_inputs)
    w1 = tl.load(
        flat + unit[None, :] * net.inputs + column[:, None], mask=column[:, None] < net.inputs, other=0.0
    )  # [padded inputs, units]
    b1 = tl.load(flat + net.bias1 + unit)
    return relu(tl.dot(obs, w1, input_precision=rules.precision) + b1[None, :])


@triton.jit
def second_hidden(obs, flat, first, net: tl.constexpr, rules: tl.constexpr, tile: tl.constexpr):
    """h2 = relu(h1 · W2ᵀ + b2) for a tile's columns from unit `first` on, [R, columns]."""
    ROWS: tl.constexpr = tile.rows
    COLUMNS: tl.constexpr = tile.columns
    column = first + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, net.hidden1, tile.depth):
        unit = start + tl.arange(0, tile.depth)
        w2 = tl.load(flat + net.weight2 + column[None, :] * net.hidden1 + unit[:, None])  # [depth, columns]
        h1 = first_hidden(obs, flat, unit, net, rules)
        total = tl.dot(h1, w2, total, input_precision=rules.precision)
    b2 = tl.load(flat + net.bias2 + column)
    return relu(total + b2[None, :])


@triton.jit
def partial_action_values(h2, flat, first, net: tl.constexpr, rules: tl.constexpr, tile: tl.constexpr):
    """h2 · W3ᵀ over a tile's columns, [R, padded actions]; the bias b3 comes with the first of them."""
    column = first + tl.arange(0, tile.columns)
    action = tl.arange(0, net.padded_actions)
    w3 = tl.load(
        flat + net.weight3 + action[None, :] * net.hidden2 + column[:, None],
        mask=action[None, :] < net.actions,
        other=0.0,
    )
    b3 = tl.load(flat + net.bias3 + action, mask=(action < net.actions) & (first == 0), other=0.0)
    return tl.dot(h2, w3, input_precision=rules.precision) + b3[None, :]


@triton.jit
def action_values(obs, flat, net: tl.constexpr, rules: tl.constexpr, tile: tl.constexpr):
    """Q of every action, [R, padded actions], by a tile's columns at a time."""
    ROWS: tl.constexpr = tile.rows
    WIDTH: tl.constexpr = net.padded_actions
    q = tl.zeros((ROWS, WIDTH), tl.float32)
    for first in range(0, net.hidden2, tile.columns):
        h2 = second_hidden(obs, flat, first, net, rules, tile)
        q += partial_action_values(h2, flat, first, net, rules, tile)
    return q
