# mypy: ignore-errors
"""Legal actions, the best of them, and the TD error, as pieces that the kernels put together."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def best_legal_action(q, legal, WIDTH: tl.constexpr):
    """argmax of Q over the legal columns, the lowest of equals; 0 where none is legal."""
    column = tl.arange(0, WIDTH)[None, :]
    q = tl.where(legal, q, -float("inf"))
    best = tl.max(q, axis=1)
    return tl.min(tl.where((q == best[:, None]) & legal, column, WIDTH), axis=1) % WIDTH


@triton.jit
def legal_actions(mask, rows, WIDTH: tl.constexpr, net: tl.constexpr, rules: tl.constexpr):
    """Which columns are legal actions, [R, WIDTH]."""
    column = tl.arange(0, WIDTH)
    legal = (rows[:, None] < rules.rows) & (column[None, :] < net.actions)
    if rules.masked:
        allowed = tl.load(mask + rows[:, None] * net.actions + column[None, :], mask=legal, other=0)
        legal = legal & (allowed != 0)
    return legal


@triton.jit
def td_error(
    q, q_target, q_online, rows, samples, WIDTH: tl.constexpr, net: tl.constexpr, rules: tl.constexpr
):
    """error = Q(s, a) − (r + γ Q_target(s', argmax Q_online(s'))), from three sets of action values, [R, WIDTH].

    Gives, each [R]: the action, ∂loss/∂Q(s, a), the weighted loss over B, the priority |error| and Q(s, a) over B.
    The loss is ½ error², or Huber's: δ (|error| − ½ δ) where |error| > δ.
    """
    inside = rows < rules.rows
    taken = tl.load(samples.action + rows, mask=inside, other=0).to(tl.int32)
    reward = tl.load(samples.reward + rows, mask=inside, other=0.0)
    gamma = tl.load(samples.discount + rows, mask=inside, other=0.0)
    weight = tl.load(samples.weight + rows, mask=inside, other=0.0)
    column = tl.arange(0, WIDTH)[None, :]
    best = best_legal_action(q_online, legal_actions(samples.mask, rows, WIDTH, net, rules), WIDTH)
    following = tl.sum(tl.where(column == best[:, None], q_target, 0.0), axis=1)
    value = tl.sum(tl.where(column == taken[:, None], q, 0.0), axis=1)
    error = value - (reward + gamma * following)
    size = tl.abs(error)
    slope = error
    loss = 0.5 * error * error
    if rules.huber > 0:
        loss = tl.where(size > rules.huber, rules.huber * (size - 0.5 * rules.huber), loss)
        slope = tl.where(
            error > rules.huber, rules.huber, tl.where(error < -rules.huber, -rules.huber, error)
        )
    slope = tl.where(inside, weight * slope / rules.rows, 0.0)
    loss = tl.where(inside, weight * loss / rules.rows, 0.0)
    value = tl.where(inside, value / rules.rows, 0.0)
    return taken, slope, loss, size, value


@triton.jit
def add_value_parts(values, rows, which, net: tl.constexpr, rules: tl.constexpr):
    """The action values of one network as the sum of what `forward_split` left, [R, value columns]."""
    part = which * rules.slices + tl.arange(0, rules.slices)[:, None, None]
    column = tl.arange(0, net.value_columns)[None, None, :]
    inside = (rows[None, :, None] < rules.rows) & (column < net.actions)
    start = values + (part * rules.rows + rows[None, :, None]) * net.value_columns
    return tl.sum(tl.load(start + column, mask=inside, other=0.0), axis=0)


@triton.jit
def td_signal(rows, samples, work, net: tl.constexpr, rules: tl.constexpr):
    """As `td_error`, from the parts of `forward_split`."""
    q = add_value_parts(work.value_parts, rows, 0, net, rules)
    q_target = add_value_parts(work.value_parts, rows, 1, net, rules)
    q_online = q_target
    if rules.networks == 3:
        q_online = add_value_parts(work.value_parts, rows, 2, net, rules)
    return td_error(q, q_target, q_online, rows, samples, net.value_columns, net, rules)
