# mypy: ignore-errors
"""Triton kernels of one DQN update of a two-layer MLP. `fused.py` launches them; nothing else imports this.

All parameters lie in one vector: W1 [H1, D], b1, W2 [H2, H1], b2, W3 [A, H2], b3. Every sum has a fixed order, so
the same inputs give the same bits. The first hidden layer is never stored: with few inputs it is cheaper to compute
it again. Names: D inputs, H1 and H2 widths, A actions, B rows; DP, AP and AQ are sizes padded for the hardware.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def _wait_for_previous(PDL: tl.constexpr):
    """Let the next kernel be put in place, and wait until the one before has finished (both only with PDL).

    The order matters: since nobody lets the next one start before its own wait is over, two kernels never overlap
    with a third, and what the kernel before the last one wrote may be read before the wait.
    """
    if PDL:
        gdc_wait()
        gdc_launch_dependents()


@triton.jit
def _relu(x):
    return tl.where(x < 0.0, 0.0, x)  # NaN stays NaN, as in PyTorch


@triton.jit
def _load_obs(obs, rows, B: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, BYTES: tl.constexpr):
    """Rows of the observations, [R, DP] float32."""
    column = tl.arange(0, DP)
    inside = (rows[:, None] < B) & (column[None, :] < D)
    values = tl.load(obs + rows[:, None] * D + column[None, :], mask=inside, other=0)
    if BYTES:
        values = values.to(tl.float32) / 255.0
    return values


@triton.jit
def _first_hidden(
    obs, flat, unit, D: tl.constexpr, DP: tl.constexpr, H1: tl.constexpr, PRECISION: tl.constexpr
):
    """relu(obs · W1ᵀ + b1) for some units of the first hidden layer, [R, units]."""
    column = tl.arange(0, DP)
    w1 = tl.load(
        flat + unit[None, :] * D + column[:, None], mask=column[:, None] < D, other=0.0
    )  # [DP, units]
    b1 = tl.load(flat + H1 * D + unit)
    return _relu(tl.dot(obs, w1, input_precision=PRECISION) + b1[None, :])


@triton.jit
def _second_hidden(
    obs, flat, first, D: tl.constexpr, DP: tl.constexpr, H1: tl.constexpr, H2: tl.constexpr, R: tl.constexpr,
    COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """COLUMNS units of the second hidden layer from unit `first` on, [R, COLUMNS]."""
    W2: tl.constexpr = H1 * D + H1
    column = first + tl.arange(0, COLUMNS)
    total = tl.zeros((R, COLUMNS), tl.float32)
    for start in range(0, H1, DEPTH):
        unit = start + tl.arange(0, DEPTH)
        w2 = tl.load(flat + W2 + column[None, :] * H1 + unit[:, None])  # [DEPTH, COLUMNS]
        h1 = _first_hidden(obs, flat, unit, D, DP, H1, PRECISION)
        total = tl.dot(h1, w2, total, input_precision=PRECISION)
    b2 = tl.load(flat + W2 + H2 * H1 + column)
    return _relu(total + b2[None, :])


@triton.jit
def _partial_action_values(
    h2, flat, first, D: tl.constexpr, H1: tl.constexpr, H2: tl.constexpr, A: tl.constexpr, AP: tl.constexpr,
    COLUMNS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """What COLUMNS hidden units add to the action values, [R, AP]; the bias comes with the first of them."""
    W3: tl.constexpr = H1 * D + H1 + H2 * H1 + H2
    column = first + tl.arange(0, COLUMNS)
    action = tl.arange(0, AP)
    w3 = tl.load(flat + W3 + action[None, :] * H2 + column[:, None], mask=action[None, :] < A, other=0.0)
    b3 = tl.load(flat + W3 + A * H2 + action, mask=(action < A) & (first == 0), other=0.0)
    return tl.dot(h2, w3, input_precision=PRECISION) + b3[None, :]


@triton.jit
def _action_values(
    obs, flat, rows, h2s, STORE: tl.constexpr, B: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, H1: tl.constexpr,
    H2: tl.constexpr, A: tl.constexpr, AP: tl.constexpr, R: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Q of every action, [R, AP], by COLUMNS hidden units at a time; STORE: leave the hidden layer in `h2s`."""
    q = tl.zeros((R, AP), tl.float32)
    for first in range(0, H2, COLUMNS):
        h2 = _second_hidden(obs, flat, first, D, DP, H1, H2, R, COLUMNS, DEPTH, PRECISION)
        if STORE:
            column = first + tl.arange(0, COLUMNS)
            tl.store(h2s + rows[:, None] * H2 + column[None, :], h2, mask=rows[:, None] < B)
        q += _partial_action_values(h2, flat, first, D, H1, H2, A, AP, COLUMNS, PRECISION)
    return q


@triton.jit
def _best_legal_action(q, legal, WIDTH: tl.constexpr):
    """The best legal column, the lowest of equals; 0 where none is legal."""
    column = tl.arange(0, WIDTH)[None, :]
    q = tl.where(legal, q, -float("inf"))
    best = tl.max(q, axis=1)
    return tl.min(tl.where((q == best[:, None]) & legal, column, WIDTH), axis=1) % WIDTH


@triton.jit
def _legal_actions(mask, rows, B: tl.constexpr, A: tl.constexpr, WIDTH: tl.constexpr, MASKED: tl.constexpr):
    """[R, WIDTH]: which columns are legal actions."""
    column = tl.arange(0, WIDTH)
    legal = (rows[:, None] < B) & (column[None, :] < A)
    if MASKED:
        legal = legal & (tl.load(mask + rows[:, None] * A + column[None, :], mask=legal, other=0) != 0)
    return legal


@triton.jit
def _td_error(
    q, q_target, q_online, rows, action, reward, discount, weight, mask, B: tl.constexpr, A: tl.constexpr,
    WIDTH: tl.constexpr, MASKED: tl.constexpr, HUBER: tl.constexpr,
):  # fmt: skip
    """From three sets of action values, [R, WIDTH], the TD error and what follows from it, each [R].

    Gives the action, ∂loss/∂Q(s, a), the weighted loss over B, the priority |error| and Q(s, a) over B.
    """
    inside = rows < B
    taken = tl.load(action + rows, mask=inside, other=0).to(tl.int32)
    r = tl.load(reward + rows, mask=inside, other=0.0)
    gamma = tl.load(discount + rows, mask=inside, other=0.0)
    w = tl.load(weight + rows, mask=inside, other=0.0)
    column = tl.arange(0, WIDTH)[None, :]
    best = _best_legal_action(q_online, _legal_actions(mask, rows, B, A, WIDTH, MASKED), WIDTH)
    following = tl.sum(tl.where(column == best[:, None], q_target, 0.0), axis=1)
    value = tl.sum(tl.where(column == taken[:, None], q, 0.0), axis=1)
    error = value - (r + gamma * following)
    size = tl.abs(error)
    slope = error
    loss = 0.5 * error * error
    if HUBER > 0:
        loss = tl.where(size > HUBER, HUBER * (size - 0.5 * HUBER), loss)
        slope = tl.where(error > HUBER, HUBER, tl.where(error < -HUBER, -HUBER, error))
    slope = tl.where(inside, w * slope / B, 0.0)
    loss = tl.where(inside, w * loss / B, 0.0)
    value = tl.where(inside, value / B, 0.0)
    return taken, slope, loss, size, value


@triton.jit
def _count_step(step, corrections):
    """Count the update, and work out Adam's two bias corrections (in float64: 1 − 0.999 would lose four digits)."""
    now = tl.load(step) + 1.0
    tl.store(step, now)
    t = now.to(tl.float64)
    tl.store(corrections, (1.0 - tl.exp(t * -0.10536051565782628)).to(tl.float32))  # ln 0.9
    tl.store(corrections + 1, tl.sqrt(1.0 - tl.exp(t * -0.0010005003335835335)).to(tl.float32))  # ln 0.999


@triton.jit
def _forward_task(
    task, flat, target, obs, next_obs, values, h2s, B: tl.constexpr, D: tl.constexpr, DP: tl.constexpr,
    H1: tl.constexpr, H2: tl.constexpr, A: tl.constexpr, AP: tl.constexpr, AQ: tl.constexpr, BYTES: tl.constexpr,
    NETS: tl.constexpr, R: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One row tile of one network and COLUMNS of its hidden units: their part of the action values."""
    SLICES: tl.constexpr = H2 // COLUMNS
    part = task % (NETS * SLICES)  # 0: online(obs), 1: target(next_obs), 2: online(next_obs)
    net = part // SLICES
    first = (part % SLICES) * COLUMNS
    rows = (task // (NETS * SLICES)) * R + tl.arange(0, R)
    inputs = obs if net == 0 else next_obs
    weights = target if net == 1 else flat
    numbers = _load_obs(inputs, rows, B, D, DP, BYTES)
    h2 = _second_hidden(numbers, weights, first, D, DP, H1, H2, R, COLUMNS, DEPTH, PRECISION)
    q = _partial_action_values(h2, weights, first, D, H1, H2, A, AP, COLUMNS, PRECISION)
    action = tl.arange(0, AP)
    inside = (rows[:, None] < B) & (action[None, :] < A)
    tl.store(values + (part * B + rows[:, None]) * AQ + action[None, :], q, mask=inside)
    if net == 0:
        column = first + tl.arange(0, COLUMNS)
        tl.store(h2s + rows[:, None] * H2 + column[None, :], h2, mask=rows[:, None] < B)


@triton.jit
def forward_split(
    flat, target, obs, next_obs, values, h2s, step, corrections, B: tl.constexpr, D: tl.constexpr,
    DP: tl.constexpr, H1: tl.constexpr, H2: tl.constexpr, A: tl.constexpr, AP: tl.constexpr, AQ: tl.constexpr,
    BYTES: tl.constexpr, NETS: tl.constexpr, R: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    PRECISION: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Small batches: many programs, each with a part of one network's hidden units.

    The first program counts the step: nobody else reads it before the next kernel.
    """
    _wait_for_previous(PDL)
    task = tl.program_id(0)
    _forward_task(task, flat, target, obs, next_obs, values, h2s, B, D, DP, H1, H2, A, AP, AQ, BYTES, NETS, R,
                  COLUMNS, DEPTH, PRECISION)  # fmt: skip
    if task == 0:
        _count_step(step, corrections)


@triton.jit
def forward_joint(
    flat, target, obs, action, reward, discount, next_obs, mask, weight, h2s, slopes, priority, parts, step,
    corrections, B: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, H1: tl.constexpr, H2: tl.constexpr,
    A: tl.constexpr, AP: tl.constexpr, BYTES: tl.constexpr, MASKED: tl.constexpr, NETS: tl.constexpr,
    HUBER: tl.constexpr, R: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """Large batches: one program takes a row tile through all networks, and to the slope of its loss."""
    _wait_for_previous(PDL)
    tile = tl.program_id(0)
    rows = tile * R + tl.arange(0, R)
    numbers = _load_obs(next_obs, rows, B, D, DP, BYTES)
    q_target = _action_values(
        numbers, target, rows, h2s, False, B, D, DP, H1, H2, A, AP, R, COLUMNS, DEPTH, PRECISION
    )
    q_online = q_target
    if NETS == 3:
        q_online = _action_values(
            numbers, flat, rows, h2s, False, B, D, DP, H1, H2, A, AP, R, COLUMNS, DEPTH, PRECISION
        )
    numbers = _load_obs(obs, rows, B, D, DP, BYTES)
    q = _action_values(numbers, flat, rows, h2s, True, B, D, DP, H1, H2, A, AP, R, COLUMNS, DEPTH, PRECISION)
    _, slope, loss, size, value = _td_error(
        q, q_target, q_online, rows, action, reward, discount, weight, mask, B, A, AP, MASKED, HUBER
    )
    tl.store(slopes + rows, slope, mask=rows < B)
    tl.store(priority + rows, size, mask=rows < B)
    tl.store(parts + 2 * tile, tl.sum(loss, axis=0))
    tl.store(parts + 2 * tile + 1, tl.sum(value, axis=0))
    if tile == 0:
        _count_step(step, corrections)


@triton.jit
def _td_signal(
    rows, values, slopes, action, reward, discount, mask, weight, B: tl.constexpr, A: tl.constexpr,
    AQ: tl.constexpr, MASKED: tl.constexpr, NETS: tl.constexpr, SLICES: tl.constexpr, HUBER: tl.constexpr,
):  # fmt: skip
    """As `_td`, from the parts of action values that `forward_split` left; SLICES = 0: `forward_joint` did it."""
    if SLICES == 0:
        taken = tl.load(action + rows, mask=rows < B, other=0).to(tl.int32)
        slope = tl.load(slopes + rows, mask=rows < B, other=0.0)
        return taken, slope, slope, slope, slope
    else:
        q = _add_parts(values, rows, 0, B, A, AQ, SLICES)
        q_target = _add_parts(values, rows, 1, B, A, AQ, SLICES)
        q_online = q_target
        if NETS == 3:
            q_online = _add_parts(values, rows, 2, B, A, AQ, SLICES)
        return _td_error(
            q, q_target, q_online, rows, action, reward, discount, weight, mask, B, A, AQ, MASKED, HUBER
        )


@triton.jit
def _add_parts(values, rows, net, B: tl.constexpr, A: tl.constexpr, AQ: tl.constexpr, SLICES: tl.constexpr):
    """The action values of one network, [R, AQ]."""
    part = net * SLICES + tl.arange(0, SLICES)[:, None, None]
    column = tl.arange(0, AQ)[None, None, :]
    inside = (rows[None, :, None] < B) & (column < A)
    numbers = tl.load(values + (part * B + rows[None, :, None]) * AQ + column, mask=inside, other=0.0)
    return tl.sum(numbers, axis=0)


@triton.jit
def _second_slope(
    rows,
    taken,
    slope,
    h2s,
    flat,
    column,
    B: tl.constexpr,
    D: tl.constexpr,
    H1: tl.constexpr,
    H2: tl.constexpr,
):
    """The second hidden layer and the loss's slope before its ReLU, [R, columns] each."""
    W3: tl.constexpr = H1 * D + H1 + H2 * H1 + H2
    w3 = tl.load(flat + W3 + taken[:, None] * H2 + column[None, :])
    h2 = tl.load(h2s + rows[:, None] * H2 + column[None, :], mask=rows[:, None] < B, other=0.0)
    return h2, tl.where(h2 > 0.0, slope[:, None] * w3, 0.0)


@triton.jit
def _gradient1(
    which, begin, flat, obs, action, reward, discount, mask, weight, values, h2s, slopes, grads, B: tl.constexpr,
    D: tl.constexpr, DP: tl.constexpr, H1: tl.constexpr, H2: tl.constexpr, A: tl.constexpr, AQ: tl.constexpr,
    BYTES: tl.constexpr, MASKED: tl.constexpr, NETS: tl.constexpr, SLICES: tl.constexpr, HUBER: tl.constexpr,
    LENGTH: tl.constexpr, R: tl.constexpr, UNITS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of UNITS rows of W1 and of their biases, from LENGTH rows of the batch; its sum of squares."""
    W2: tl.constexpr = H1 * D + H1
    unit = which * UNITS + tl.arange(0, UNITS)
    total = tl.zeros((UNITS, DP), tl.float32)
    bias = tl.zeros((UNITS,), tl.float32)
    for offset in range(0, LENGTH, R):
        rows = begin + offset + tl.arange(0, R)
        taken, slope, _loss, _size, _value = _td_signal(
            rows,
            values,
            slopes,
            action,
            reward,
            discount,
            mask,
            weight,
            B,
            A,
            AQ,
            MASKED,
            NETS,
            SLICES,
            HUBER,
        )
        numbers = _load_obs(obs, rows, B, D, DP, BYTES)
        h1 = _first_hidden(numbers, flat, unit, D, DP, H1, PRECISION)
        slope1 = tl.zeros((R, UNITS), tl.float32)
        for start in range(0, H2, DEPTH):
            column = start + tl.arange(0, DEPTH)
            w2 = tl.load(flat + W2 + column[:, None] * H1 + unit[None, :])  # [DEPTH, UNITS]
            _h2, slope2 = _second_slope(rows, taken, slope, h2s, flat, column, B, D, H1, H2)
            slope1 = tl.dot(slope2, w2, slope1, input_precision=PRECISION)
        slope1 = tl.where(h1 > 0.0, slope1, 0.0)
        total = tl.dot(tl.trans(slope1), numbers, total, input_precision=PRECISION)
        bias += tl.sum(slope1, axis=0)
    entry = tl.arange(0, DP)
    tl.store(grads + unit[:, None] * D + entry[None, :], total, mask=entry[None, :] < D)
    tl.store(grads + H1 * D + unit, bias)
    return tl.sum(tl.sum(total * total, axis=1) + bias * bias, axis=0)


@triton.jit
def _gradient2(
    which, begin, flat, obs, action, reward, discount, mask, weight, values, h2s, slopes, grads, B: tl.constexpr,
    D: tl.constexpr, DP: tl.constexpr, H1: tl.constexpr, H2: tl.constexpr, A: tl.constexpr, AQ: tl.constexpr,
    BYTES: tl.constexpr, MASKED: tl.constexpr, NETS: tl.constexpr, SLICES: tl.constexpr, HUBER: tl.constexpr,
    LENGTH: tl.constexpr, R: tl.constexpr, COLUMNS: tl.constexpr, UNITS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of a tile of W2, [COLUMNS, UNITS]; its sum of squares."""
    W2: tl.constexpr = H1 * D + H1
    column = (which // (H1 // UNITS)) * COLUMNS + tl.arange(0, COLUMNS)
    unit = (which % (H1 // UNITS)) * UNITS + tl.arange(0, UNITS)
    total = tl.zeros((COLUMNS, UNITS), tl.float32)
    for offset in range(0, LENGTH, R):
        rows = begin + offset + tl.arange(0, R)
        taken, slope, _loss, _size, _value = _td_signal(
            rows,
            values,
            slopes,
            action,
            reward,
            discount,
            mask,
            weight,
            B,
            A,
            AQ,
            MASKED,
            NETS,
            SLICES,
            HUBER,
        )
        _h2, slope2 = _second_slope(rows, taken, slope, h2s, flat, column, B, D, H1, H2)
        numbers = _load_obs(obs, rows, B, D, DP, BYTES)
        h1 = _first_hidden(numbers, flat, unit, D, DP, H1, PRECISION)
        total = tl.dot(tl.trans(slope2), h1, total, input_precision=PRECISION)
    tl.store(grads + W2 + column[:, None] * H1 + unit[None, :], total)
    return tl.sum(tl.sum(total * total, axis=1), axis=0)


@triton.jit
def _gradient3(
    which, chunk, flat, action, reward, discount, mask, weight, values, h2s, slopes, priority, parts, grads,
    B: tl.constexpr, D: tl.constexpr, H1: tl.constexpr, H2: tl.constexpr, A: tl.constexpr, AP: tl.constexpr,
    AQ: tl.constexpr, MASKED: tl.constexpr, NETS: tl.constexpr, SLICES: tl.constexpr, HUBER: tl.constexpr,
    LENGTH: tl.constexpr, R: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of COLUMNS columns of W3, of their b2, and of b3; its sum of squares.

    After `forward_split` the first such task also has the priorities, and the chunk's sums of loss and Q.
    """
    W3: tl.constexpr = H1 * D + H1 + H2 * H1 + H2
    column = which * COLUMNS + tl.arange(0, COLUMNS)
    choice = tl.arange(0, AP)
    total = tl.zeros((AP, COLUMNS), tl.float32)
    bias2 = tl.zeros((COLUMNS,), tl.float32)
    bias3 = tl.zeros((AP,), tl.float32)
    losses = tl.zeros((R,), tl.float32)
    chosen = tl.zeros((R,), tl.float32)
    for offset in range(0, LENGTH, R):
        rows = chunk * LENGTH + offset + tl.arange(0, R)
        taken, slope, loss, size, value = _td_signal(
            rows,
            values,
            slopes,
            action,
            reward,
            discount,
            mask,
            weight,
            B,
            A,
            AQ,
            MASKED,
            NETS,
            SLICES,
            HUBER,
        )
        h2, slope2 = _second_slope(rows, taken, slope, h2s, flat, column, B, D, H1, H2)
        slope3 = tl.where(taken[:, None] == choice[None, :], slope[:, None], 0.0)  # [R, AP]
        total = tl.dot(tl.trans(slope3), h2, total, input_precision=PRECISION)
        bias2 += tl.sum(slope2, axis=0)
        bias3 += tl.sum(slope3, axis=0)
        if SLICES > 0:
            losses += loss
            chosen += value
            tl.store(priority + rows, size, mask=(rows < B) & (which == 0))
    tl.store(grads + W3 + choice[:, None] * H2 + column[None, :], total, mask=choice[:, None] < A)
    tl.store(grads + W3 - H2 + column, bias2)
    square = tl.sum(tl.sum(total * total, axis=0) + bias2 * bias2, axis=0)
    if which == 0:
        tl.store(grads + W3 + A * H2 + choice, bias3, mask=choice < A)
        square += tl.sum(bias3 * bias3, axis=0)
        if SLICES > 0:
            tl.store(parts + 2 * chunk, tl.sum(losses, axis=0))
            tl.store(parts + 2 * chunk + 1, tl.sum(chosen, axis=0))
    return square


@triton.jit
def _gradient_task(
    task, flat, obs, action, reward, discount, mask, weight, values, h2s, slopes, priority, parts, grads, squares,
    B: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, H1: tl.constexpr, H2: tl.constexpr, A: tl.constexpr,
    AP: tl.constexpr, AQ: tl.constexpr, STRIDE: tl.constexpr, BYTES: tl.constexpr, MASKED: tl.constexpr,
    NETS: tl.constexpr, SLICES: tl.constexpr, HUBER: tl.constexpr, CHUNKS: tl.constexpr, LENGTH: tl.constexpr,
    R1: tl.constexpr, I1: tl.constexpr, J1: tl.constexpr, R2: tl.constexpr, J2: tl.constexpr, I2: tl.constexpr,
    R3: tl.constexpr, J3: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A part of the gradient, from one chunk of LENGTH rows, written to the chunk's own copy of the gradient."""
    FIRST: tl.constexpr = H1 // I1
    SECOND: tl.constexpr = (H2 // J2) * (H1 // I2)
    TASKS: tl.constexpr = FIRST + SECOND + H2 // J3
    chunk = task // TASKS
    part = task % TASKS
    begin = chunk * LENGTH
    grads += chunk * STRIDE
    if part < FIRST:
        square = _gradient1(
            part, begin, flat, obs, action, reward, discount, mask, weight, values, h2s, slopes, grads, B, D, DP,
            H1, H2, A, AQ, BYTES, MASKED, NETS, SLICES, HUBER, LENGTH, R1, I1, J1, PRECISION,
        )  # fmt: skip
    elif part < FIRST + SECOND:
        square = _gradient2(
            part - FIRST, begin, flat, obs, action, reward, discount, mask, weight, values, h2s, slopes, grads, B,
            D, DP, H1, H2, A, AQ, BYTES, MASKED, NETS, SLICES, HUBER, LENGTH, R2, J2, I2, PRECISION,
        )  # fmt: skip
    else:
        square = _gradient3(
            part - FIRST - SECOND, chunk, flat, action, reward, discount, mask, weight, values, h2s, slopes,
            priority, parts, grads, B, D, H1, H2, A, AP, AQ, MASKED, NETS, SLICES, HUBER, LENGTH, R3, J3,
            PRECISION,
        )  # fmt: skip
    if CHUNKS == 1:
        tl.store(squares + part, square)


@triton.jit
def gradient_kernel(
    flat, obs, action, reward, discount, mask, weight, values, h2s, slopes, priority, parts, grads, squares,
    B: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, H1: tl.constexpr, H2: tl.constexpr, A: tl.constexpr,
    AP: tl.constexpr, AQ: tl.constexpr, STRIDE: tl.constexpr, BYTES: tl.constexpr, MASKED: tl.constexpr,
    NETS: tl.constexpr, SLICES: tl.constexpr, HUBER: tl.constexpr, CHUNKS: tl.constexpr, LENGTH: tl.constexpr,
    R1: tl.constexpr, I1: tl.constexpr, J1: tl.constexpr, R2: tl.constexpr, J2: tl.constexpr, I2: tl.constexpr,
    R3: tl.constexpr, J3: tl.constexpr, PRECISION: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """All parts of the gradient; CHUNKS copies of it, each from its own rows."""
    _wait_for_previous(PDL)
    _gradient_task(
        tl.program_id(0), flat, obs, action, reward, discount, mask, weight, values, h2s, slopes, priority, parts,
        grads, squares, B, D, DP, H1, H2, A, AP, AQ, STRIDE, BYTES, MASKED, NETS, SLICES, HUBER, CHUNKS, LENGTH,
        R1, I1, J1, R2, J2, I2, R3, J3, PRECISION,
    )  # fmt: skip


@triton.jit
def reduce_gradients(
    grads, total, squares, P: tl.constexpr, STRIDE: tl.constexpr, CHUNKS: tl.constexpr, SIZE: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """Add the chunks' gradients, in their order; and the sum of squares of the result, per program."""
    _wait_for_previous(PDL)
    index = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    result = tl.zeros((SIZE,), tl.float32)
    for chunk in tl.static_range(CHUNKS):
        result += tl.load(grads + chunk * STRIDE + index, mask=index < P, other=0.0)
    tl.store(total + index, result, mask=index < P)
    tl.store(squares + tl.program_id(0), tl.sum(result * result, axis=0))


@triton.jit
def adam_kernel(
    flat, target, exp_avg, exp_avg_sq, grad, squares, parts, corrections, step, lr, sums, first_bad,
    P: tl.constexpr, SQUARES: tl.constexpr, SQUARES_P: tl.constexpr, PARTS: tl.constexpr, PARTS_P: tl.constexpr,
    EPS: tl.constexpr, DECAY: tl.constexpr, CLIP: tl.constexpr, TAU: tl.constexpr, SIZE: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """Clip, Adam or AdamW, soft target (TAU = 0: none); the first program also adds up the statistics."""
    block = tl.program_id(0)
    index = block * SIZE + tl.arange(0, SIZE)
    inside = index < P
    p = tl.load(flat + index, mask=inside, other=0.0)
    m = tl.load(exp_avg + index, mask=inside, other=0.0)
    v = tl.load(exp_avg_sq + index, mask=inside, other=0.0)
    rate = tl.load(lr)
    t = p
    if TAU > 0:
        t = tl.load(target + index, mask=inside, other=0.0)
    _wait_for_previous(PDL)  # all of the above was written before this update began
    g = tl.load(grad + index, mask=inside, other=0.0)
    which = tl.arange(0, SQUARES_P)
    norm = tl.sqrt(tl.sum(tl.load(squares + which, mask=which < SQUARES, other=0.0), axis=0))
    if CLIP > 0:
        scale = CLIP / (norm + 1e-6)
        g *= tl.where(scale > 1.0, 1.0, scale)
    if DECAY > 0:
        p -= rate * DECAY * p
    m += 0.1 * (g - m)
    v += 0.001 * (g * g - v)
    p -= rate / tl.load(corrections) * m / (tl.sqrt(v) / tl.load(corrections + 1) + EPS)
    tl.store(flat + index, p, mask=inside)
    tl.store(exp_avg + index, m, mask=inside)
    tl.store(exp_avg_sq + index, v, mask=inside)
    if TAU > 0:
        tl.store(target + index, t + TAU * (p - t), mask=inside)
    if block == 0:
        part = tl.arange(0, PARTS_P)
        loss = tl.sum(tl.load(parts + 2 * part, mask=part < PARTS, other=0.0), axis=0)
        value = tl.sum(tl.load(parts + 2 * part + 1, mask=part < PARTS, other=0.0), axis=0)
        tl.store(sums, tl.load(sums) + loss)
        tl.store(sums + 1, tl.load(sums + 1) + value)
        tl.store(sums + 2, tl.load(sums + 2) + norm)
        finite = (loss - loss) == 0.0
        if (tl.load(first_bad) < 0) & (finite == 0):
            tl.store(first_bad, (tl.load(step) - 1.0).to(tl.int64))


@triton.jit
def policy_kernel(
    flat, obs, mask, eps, coin, luck, action, N: tl.constexpr, D: tl.constexpr, DP: tl.constexpr,
    H1: tl.constexpr, H2: tl.constexpr, A: tl.constexpr, AP: tl.constexpr, BYTES: tl.constexpr,
    MASKED: tl.constexpr, R: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """ε-greedy actions of R rows: the best legal one or, where coin < ε, a legal one by luck."""
    rows = tl.program_id(0) * R + tl.arange(0, R)
    inside = rows < N
    numbers = _load_obs(obs, rows, N, D, DP, BYTES)
    q = _action_values(
        numbers, flat, rows, action, False, N, D, DP, H1, H2, A, AP, R, COLUMNS, DEPTH, PRECISION
    )
    legal = _legal_actions(mask, rows, N, A, AP, MASKED)
    best = _best_legal_action(q, legal, AP)
    order = tl.cumsum(legal.to(tl.int32), axis=1)
    count = tl.sum(legal.to(tl.int32), axis=1)
    chance = tl.load(luck + rows, mask=inside, other=0.0)
    k = tl.minimum((chance * count.to(tl.float32)).to(tl.int32), count - 1)
    column = tl.arange(0, AP)[None, :]
    random = tl.sum(tl.where(legal & (order == k[:, None] + 1), column, 0), axis=1)
    explore = tl.load(coin + rows, mask=inside, other=1.0) < tl.load(eps + rows, mask=inside, other=0.0)
    tl.store(action + rows, tl.where(explore, random, best).to(tl.int64), mask=inside)
