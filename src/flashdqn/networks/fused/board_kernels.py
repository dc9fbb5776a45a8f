# mypy: ignore-errors
"""The kernels of `BoardNorm` and ReLU: over all cells and channels of a sample.

A sample is [cells, channels]. A program has `SPAN` cells of one sample, `ROWS` at a time, and all channels.
Forward: one kernel measures mean and squares of every part, the next joins the parts and writes. Backward: one has
the sums of every channel, the next joins them and writes. All sums have a fixed order.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _load_cells(x, shift, row, channel, cells, channels, SHIFTED: tl.constexpr):
    """Some cells of a sample as float32, with the shift; and which of them there are."""
    inside = (row < cells)[:, None] & (channel < channels)[None, :]
    value = tl.load(x + row[:, None] * channels + channel[None, :], mask=inside, other=0.0).to(tl.float32)
    if SHIFTED:
        value += tl.load(shift + channel, mask=channel < channels, other=0.0)[None, :]
    return value, inside


@triton.jit
def measure_cells(
    x, shift, parts, cells, channels,
    SPAN: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, SHIFTED: tl.constexpr,
):  # fmt: skip
    """Mean of a part, and its sum of squared distances from that. Sums are of distances from one of the numbers: so
    little is lost where the mean is large."""
    part, sample = tl.program_id(0), tl.program_id(1)
    x += sample.to(tl.int64) * cells * channels
    channel, first = tl.arange(0, WIDTH), part * SPAN
    pivot = tl.load(x).to(tl.float32)
    sums = tl.zeros((ROWS, WIDTH), tl.float32)
    squares = tl.zeros((ROWS, WIDTH), tl.float32)
    for start in range(0, SPAN, ROWS):
        row = first + start + tl.arange(0, ROWS)
        value, inside = _load_cells(x, shift, row, channel, cells, channels, SHIFTED)
        apart = tl.where(inside, value - pivot, 0.0)
        sums += apart
        squares += apart * apart
    count = (tl.minimum(SPAN, cells - first) * channels).to(tl.float32)
    total = tl.sum(tl.sum(sums, 1), 0)
    spread = tl.sum(tl.sum(squares, 1), 0) - total * total / count
    place = parts + 2 * (sample * tl.num_programs(0) + part)
    tl.store(place, pivot + total / count)
    tl.store(place + 1, spread)


@triton.jit
def normalize_cells(
    x, shift, weight, bias, parts, stats, y, cells, channels,
    EPS: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr,
    SHIFTED: tl.constexpr,
):  # fmt: skip
    """ReLU of the normalized cells; the first part also keeps mean and 1 / standard deviation."""
    part, sample, count = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    which = tl.arange(0, PARTS)
    there = which < count
    means = tl.load(parts + 2 * (sample * count + which), mask=there, other=0.0)
    spreads = tl.load(parts + 2 * (sample * count + which) + 1, mask=there, other=0.0)
    sizes = tl.where(there, tl.minimum(SPAN, cells - which * SPAN) * channels, 0).to(tl.float32)
    total = cells * channels * 1.0
    mean = tl.sum(means * sizes, 0) / total
    variance = (tl.sum(spreads, 0) + tl.sum(sizes * (means - mean) * (means - mean), 0)) / total
    scale = 1.0 / tl.sqrt(variance + EPS)
    if part == 0:
        tl.store(stats + 2 * sample, mean)
        tl.store(stats + 2 * sample + 1, scale)
    start = sample.to(tl.int64) * cells * channels
    channel = tl.arange(0, WIDTH)
    w = tl.load(weight + channel, mask=channel < channels, other=0.0)[None, :]
    b = tl.load(bias + channel, mask=channel < channels, other=0.0)[None, :]
    for begin in range(0, SPAN, ROWS):
        row = part * SPAN + begin + tl.arange(0, ROWS)
        value, inside = _load_cells(x + start, shift, row, channel, cells, channels, SHIFTED)
        result = tl.maximum((value - mean) * scale * w + b, 0.0)
        place = y + start + row[:, None] * channels + channel[None, :]
        tl.store(place, result.to(y.dtype.element_ty), mask=inside)


@triton.jit
def measure_gradient(
    x, shift, weight, bias, stats, dy, sums, channel_sums, cells, channels,
    SPAN: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, SHIFTED: tl.constexpr,
):  # fmt: skip
    """Of a part: the gradients of shift and scale by channel, and the two sums that the gradient of x needs."""
    part, sample, count = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    start = sample.to(tl.int64) * cells * channels
    channel = tl.arange(0, WIDTH)
    w = tl.load(weight + channel, mask=channel < channels, other=0.0)
    b = tl.load(bias + channel, mask=channel < channels, other=0.0)
    mean, scale = tl.load(stats + 2 * sample), tl.load(stats + 2 * sample + 1)
    plain = tl.zeros((ROWS, WIDTH), tl.float32)
    scaled = tl.zeros((ROWS, WIDTH), tl.float32)
    for begin in range(0, SPAN, ROWS):
        row = part * SPAN + begin + tl.arange(0, ROWS)
        value, inside = _load_cells(x + start, shift, row, channel, cells, channels, SHIFTED)
        normal = (value - mean) * scale
        place = dy + start + row[:, None] * channels + channel[None, :]
        g = tl.load(place, mask=inside, other=0.0).to(tl.float32)
        g = tl.where(normal * w[None, :] + b[None, :] > 0.0, g, 0.0)
        plain += g
        scaled += g * normal
    by_channel, by_scale = tl.sum(plain, 0), tl.sum(scaled, 0)
    place = sample * count + part
    tl.store(channel_sums + 2 * place * channels + channel, by_scale, mask=channel < channels)
    tl.store(channel_sums + (2 * place + 1) * channels + channel, by_channel, mask=channel < channels)
    tl.store(sums + 2 * place, tl.sum(by_channel * w, 0))
    tl.store(sums + 2 * place + 1, tl.sum(by_scale * w, 0))


@triton.jit
def spread_gradient(
    x, shift, weight, bias, stats, dy, sums, dx, shift_sums, cells, channels,
    SPAN: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr, SHIFTED: tl.constexpr,
):  # fmt: skip
    """The gradient of x; and of the shift, as sums over the part."""
    part, sample, count = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    which = tl.arange(0, PARTS)
    total = cells * channels * 1.0
    places = sums + 2 * (sample * count + which)
    first = tl.sum(tl.load(places, mask=which < count, other=0.0), 0) / total
    second = tl.sum(tl.load(places + 1, mask=which < count, other=0.0), 0) / total
    start = sample.to(tl.int64) * cells * channels
    channel = tl.arange(0, WIDTH)
    w = tl.load(weight + channel, mask=channel < channels, other=0.0)[None, :]
    b = tl.load(bias + channel, mask=channel < channels, other=0.0)[None, :]
    mean, scale = tl.load(stats + 2 * sample), tl.load(stats + 2 * sample + 1)
    gathered = tl.zeros((ROWS, WIDTH), tl.float32)
    for begin in range(0, SPAN, ROWS):
        row = part * SPAN + begin + tl.arange(0, ROWS)
        value, inside = _load_cells(x + start, shift, row, channel, cells, channels, SHIFTED)
        normal = (value - mean) * scale
        offset = start + row[:, None] * channels + channel[None, :]
        g = tl.load(dy + offset, mask=inside, other=0.0).to(tl.float32)
        g = tl.where(normal * w + b > 0.0, g, 0.0)
        found = scale * (g * w - first - normal * second)
        tl.store(dx + offset, found.to(dx.dtype.element_ty), mask=inside)
        if SHIFTED:
            gathered += tl.where(inside, found, 0.0)
    if SHIFTED:
        place = shift_sums + (sample * count + part) * channels + channel
        tl.store(place, tl.sum(gathered, 0), mask=channel < channels)
