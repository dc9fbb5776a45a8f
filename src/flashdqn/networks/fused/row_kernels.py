# mypy: ignore-errors
"""The kernels of layer normalization and ReLU, row by row; of sums of tensors, and of sums over rows.

A program has `ROWS` rows at a time.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _load_rows(x, row, column, rows, width):
    """Some rows as float32, and which of their numbers there are."""
    inside = (row < rows)[:, None] & (column < width)[None, :]
    place = x + row[:, None].to(tl.int64) * width + column[None, :]
    return tl.load(place, mask=inside, other=0.0).to(tl.float32), inside


@triton.jit
def normalize_rows(
    x, weight, bias, stats, y, rows, width, EPS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    """ReLU of the normalized rows; mean and 1 / standard deviation are kept."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    value, inside = _load_rows(x, row, column, rows, width)
    w = tl.load(weight + column, mask=column < width, other=0.0)[None, :]
    b = tl.load(bias + column, mask=column < width, other=0.0)[None, :]
    mean = tl.sum(value, 1) / width
    apart = tl.where(inside, value - mean[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(apart * apart, 1) / width + EPS)
    tl.store(stats + 2 * row, mean, mask=row < rows)
    tl.store(stats + 2 * row + 1, scale, mask=row < rows)
    result = tl.maximum(apart * scale[:, None] * w + b, 0.0)
    place = y + row[:, None].to(tl.int64) * width + column[None, :]
    tl.store(place, result.to(y.dtype.element_ty), mask=inside)


@triton.jit
def find_row_gradient(
    x, weight, bias, stats, dy, dx, column_sums, rows, width, span, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    """The gradient of x; and of scale and shift, as sums over the `span` rows of this program."""
    program, column = tl.program_id(0), tl.arange(0, WIDTH)
    w = tl.load(weight + column, mask=column < width, other=0.0)[None, :]
    b = tl.load(bias + column, mask=column < width, other=0.0)[None, :]
    by_scale = tl.zeros((ROWS, WIDTH), tl.float32)
    by_shift = tl.zeros((ROWS, WIDTH), tl.float32)
    for begin in range(0, span, ROWS):
        row = program * span + begin + tl.arange(0, ROWS)
        value, inside = _load_rows(x, row, column, rows, width)
        mean = tl.load(stats + 2 * row, mask=row < rows, other=0.0)
        scale = tl.load(stats + 2 * row + 1, mask=row < rows, other=0.0)
        normal = (value - mean[:, None]) * scale[:, None]
        g, _ = _load_rows(dy, row, column, rows, width)
        g = tl.where(inside & (normal * w + b > 0.0), g, 0.0)
        by_scale += g * normal
        by_shift += g
        inner = g * w
        first, second = tl.sum(inner, 1) / width, tl.sum(inner * normal, 1) / width
        found = scale[:, None] * (inner - first[:, None] - normal * second[:, None])
        place = dx + row[:, None].to(tl.int64) * width + column[None, :]
        tl.store(place, found.to(dx.dtype.element_ty), mask=inside)
    place = column_sums + 2 * program * width + column
    tl.store(place, tl.sum(by_scale, 0), mask=column < width)
    tl.store(place + width, tl.sum(by_shift, 0), mask=column < width)


@triton.jit
def add_three(x, y, bias, out, rows, width, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """x + y + bias, where the bias has a number for each column."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    first, inside = _load_rows(x, row, column, rows, width)
    second, _ = _load_rows(y, row, column, rows, width)
    b = tl.load(bias + column, mask=column < width, other=0.0)[None, :]
    place = out + row[:, None].to(tl.int64) * width + column[None, :]
    tl.store(place, (first + second + b).to(out.dtype.element_ty), mask=inside)


@triton.jit
def add_context(x, context, out, rows, width, cells, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """x + context, where the context has a row for every `cells` rows of x."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    first, inside = _load_rows(x, row, column, rows, width)
    # Rows past the end of x lie past the end of the context too, and `rows` counts those of x.
    told = context + (row // cells)[:, None].to(tl.int64) * width + column[None, :]
    second = tl.load(told, mask=inside, other=0.0).to(tl.float32)
    place = out + row[:, None].to(tl.int64) * width + column[None, :]
    tl.store(place, (first + second).to(out.dtype.element_ty), mask=inside)


@triton.jit
def sum_rows(x, out, rows, width, span, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """The sum of each program's `span` rows; a second axis of programs has other columns."""
    program = tl.program_id(0)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    for begin in range(0, span, ROWS):
        row = program * span + begin + tl.arange(0, ROWS)
        total += _load_rows(x, row, column, rows, width)[0]
    tl.store(out + program * width + column, tl.sum(total, 0), mask=column < width)
