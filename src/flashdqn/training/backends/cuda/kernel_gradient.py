# mypy: ignore-errors
"""Second kernel of an update: the gradient and, if there are several chunks of rows, their sum.

With δ3 = ∂loss/∂Q(s, a) at the action taken, δ2 = (δ3 · W3) ⊙ [h2 > 0] and δ1 = (δ2 · W2) ⊙ [h1 > 0]:
∂W3 = δ3ᵀ · h2, ∂W2 = δ2ᵀ · h1, ∂W1 = δ1ᵀ · obs, and each bias has the sum of its δ over the rows.
"""

from __future__ import annotations

import triton
import triton.language as tl

from flashdqn.training.backends.cuda.kernel_layers import first_hidden, load_obs, wait_for_previous
from flashdqn.training.backends.cuda.kernel_td import td_signal


@triton.jit
def _second_slope(rows, taken, slope, h2s, flat, column, net: tl.constexpr, rules: tl.constexpr):
    """h2, and δ2 = ∂loss/∂Q(s, a) · W3[a] where h2 > 0: [R, columns] each."""
    w3 = tl.load(flat + net.weight3 + taken[:, None] * net.hidden2 + column[None, :])
    h2 = tl.load(
        h2s + rows[:, None] * net.hidden2 + column[None, :], mask=rows[:, None] < rules.rows, other=0.0
    )
    return h2, tl.where(h2 > 0.0, slope[:, None] * w3, 0.0)


@triton.jit
def _first_gradient(
    which, begin, flat, samples, work, gradient, net: tl.constexpr, rules: tl.constexpr, tiles: tl.constexpr
):
    """∂W1 = Σ δ1ᵀ · obs for some of its units, and ∂b1 = Σ δ1, from one chunk of rows; the sum of squares."""
    ROWS: tl.constexpr = tiles.rows1
    UNITS: tl.constexpr = tiles.units1
    INPUTS: tl.constexpr = net.padded_inputs
    unit = which * UNITS + tl.arange(0, UNITS)
    total = tl.zeros((UNITS, INPUTS), tl.float32)
    bias = tl.zeros((UNITS,), tl.float32)
    for offset in range(0, tiles.length, ROWS):
        rows = begin + offset + tl.arange(0, ROWS)
        taken, slope, _loss, _size, _value = td_signal(rows, samples, work, net, rules)
        numbers = load_obs(samples.obs, rows, net, rules)
        h1 = first_hidden(numbers, flat, unit, net, rules)
        slope1 = tl.zeros((ROWS, UNITS), tl.float32)
        for start in range(0, net.hidden2, tiles.depth1):
            column = start + tl.arange(0, tiles.depth1)
            w2 = tl.load(flat + net.weight2 + column[:, None] * net.hidden1 + unit[None, :])  # [depth, units]
            _h2, slope2 = _second_slope(rows, taken, slope, work.hidden2, flat, column, net, rules)
            slope1 = tl.dot(slope2, w2, slope1, input_precision=rules.precision)
        slope1 = tl.where(h1 > 0.0, slope1, 0.0)
        total = tl.dot(tl.trans(slope1), numbers, total, input_precision=rules.precision)
        bias += tl.sum(slope1, axis=0)
    entry = tl.arange(0, INPUTS)
    tl.store(gradient + unit[:, None] * net.inputs + entry[None, :], total, mask=entry[None, :] < net.inputs)
    tl.store(gradient + net.bias1 + unit, bias)
    return tl.sum(tl.sum(total * total, axis=1) + bias * bias, axis=0)


@triton.jit
def _second_gradient(
    which, begin, flat, samples, work, gradient, net: tl.constexpr, rules: tl.constexpr, tiles: tl.constexpr
):
    """A tile of ∂W2 = Σ δ2ᵀ · h1, [columns, units], from one chunk of rows; its sum of squares."""
    COLUMNS: tl.constexpr = tiles.columns2
    UNITS: tl.constexpr = tiles.units2
    column = (which // (net.hidden1 // UNITS)) * COLUMNS + tl.arange(0, COLUMNS)
    unit = (which % (net.hidden1 // UNITS)) * UNITS + tl.arange(0, UNITS)
    total = tl.zeros((COLUMNS, UNITS), tl.float32)
    for offset in range(0, tiles.length, tiles.rows2):
        rows = begin + offset + tl.arange(0, tiles.rows2)
        taken, slope, _loss, _size, _value = td_signal(rows, samples, work, net, rules)
        _h2, slope2 = _second_slope(rows, taken, slope, work.hidden2, flat, column, net, rules)
        numbers = load_obs(samples.obs, rows, net, rules)
        h1 = first_hidden(numbers, flat, unit, net, rules)
        total = tl.dot(tl.trans(slope2), h1, total, input_precision=rules.precision)
    tl.store(gradient + net.weight2 + column[:, None] * net.hidden1 + unit[None, :], total)
    return tl.sum(tl.sum(total * total, axis=1), axis=0)


@triton.jit
def _third_gradient(
    which, chunk, flat, samples, work, gradient, net: tl.constexpr, rules: tl.constexpr, tiles: tl.constexpr
):
    """Some columns of ∂W3 = Σ δ3ᵀ · h2, their ∂b2 = Σ δ2, and ∂b3 = Σ δ3; the sum of squares.

    The first such task also has the priorities, and the chunk's sums of loss and Q.
    """
    ROWS: tl.constexpr = tiles.rows3
    COLUMNS: tl.constexpr = tiles.columns3
    ACTIONS: tl.constexpr = net.padded_actions
    column = which * COLUMNS + tl.arange(0, COLUMNS)
    choice = tl.arange(0, ACTIONS)
    total = tl.zeros((ACTIONS, COLUMNS), tl.float32)
    bias2 = tl.zeros((COLUMNS,), tl.float32)
    bias3 = tl.zeros((ACTIONS,), tl.float32)
    losses = tl.zeros((ROWS,), tl.float32)
    chosen = tl.zeros((ROWS,), tl.float32)
    for offset in range(0, tiles.length, ROWS):
        rows = chunk * tiles.length + offset + tl.arange(0, ROWS)
        taken, slope, loss, size, value = td_signal(rows, samples, work, net, rules)
        h2, slope2 = _second_slope(rows, taken, slope, work.hidden2, flat, column, net, rules)
        slope3 = tl.where(taken[:, None] == choice[None, :], slope[:, None], 0.0)  # [R, padded actions]
        total = tl.dot(tl.trans(slope3), h2, total, input_precision=rules.precision)
        bias2 += tl.sum(slope2, axis=0)
        bias3 += tl.sum(slope3, axis=0)
        losses += loss
        chosen += value
        tl.store(work.priority + rows, size, mask=(rows < rules.rows) & (which == 0))
    start = gradient + net.weight3
    tl.store(
        start + choice[:, None] * net.hidden2 + column[None, :], total, mask=choice[:, None] < net.actions
    )
    tl.store(gradient + net.bias2 + column, bias2)
    square = tl.sum(tl.sum(total * total, axis=0) + bias2 * bias2, axis=0)
    if which == 0:
        tl.store(gradient + net.bias3 + choice, bias3, mask=choice < net.actions)
        square += tl.sum(bias3 * bias3, axis=0)
        tl.store(work.part_sums + 2 * chunk, tl.sum(losses, axis=0))
        tl.store(work.part_sums + 2 * chunk + 1, tl.sum(chosen, axis=0))
    return square


@triton.jit
def gradient_kernel(
    flat, samples, work, net: tl.constexpr, rules: tl.constexpr, tiles: tl.constexpr, PDL: tl.constexpr
):
    """One task: a part of ∂W1, ∂W2 or ∂W3 from one chunk of rows, written to the chunk's own copy of the gradient.

    If there is one chunk, each task leaves its Σ gradient² for the norm; else `reduce_gradients` does.
    """
    wait_for_previous(PDL)
    task = tl.program_id(0)
    chunk = task // tiles.tasks
    part = task % tiles.tasks
    begin = chunk * tiles.length
    gradient = work.gradients + chunk * tiles.stride
    if part < tiles.tasks1:
        square = _first_gradient(part, begin, flat, samples, work, gradient, net, rules, tiles)
    elif part < tiles.tasks1 + tiles.tasks2:
        square = _second_gradient(
            part - tiles.tasks1, begin, flat, samples, work, gradient, net, rules, tiles
        )
    else:
        square = _third_gradient(
            part - tiles.tasks1 - tiles.tasks2, chunk, flat, samples, work, gradient, net, rules, tiles
        )
    if tiles.chunks == 1:
        tl.store(work.squares + part, square)


@triton.jit
def reduce_gradients(
    gradients, gradient, squares, PARAMETERS: tl.constexpr, STRIDE: tl.constexpr, CHUNKS: tl.constexpr,
    SIZE: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """gradient = Σ gradients[chunk], in the chunks' order; and Σ gradient² over each program's SIZE numbers."""
    wait_for_previous(PDL)
    index = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    result = tl.zeros((SIZE,), tl.float32)
    for chunk in tl.static_range(CHUNKS):
        result += tl.load(gradients + chunk * STRIDE + index, mask=index < PARAMETERS, other=0.0)
    tl.store(gradient + index, result, mask=index < PARAMETERS)
    tl.store(squares + tl.program_id(0), tl.sum(result * result, axis=0))
