"""Normalization and ReLU, and sums with a bias or a context, each as one operation with its gradient."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor

#: Numbers that a program has at a time, and the most parts that a sample is cut into.
TILE, MOST_PARTS = 4096, 64
#: Programs that fill a GPU.
PROGRAMS = 1024
#: The most channels, or numbers in a row: a tile has at least one row.
MOST_WIDTH = 4096
#: Programs of a gradient over rows: each adds up its own share of the sums.
ROW_PROGRAMS = 512


def next_power(count: int) -> int:
    """The next power of two that is not smaller."""
    return 1 << max(0, count - 1).bit_length()


def cut_cells(samples: int, cells: int, channels: int) -> dict[str, int]:
    """How samples are cut: cells of a part, cells at a time, padded channels."""
    width = next_power(channels)
    rows = max(1, min(TILE // width, next_power(cells)))
    parts = min(MOST_PARTS, -(-PROGRAMS // samples))
    return {"SPAN": round_up(-(-cells // parts), rows), "ROWS": rows, "WIDTH": width}


def round_up(count: int, multiple: int) -> int:
    """The next multiple that is not smaller."""
    return -(-count // multiple) * multiple


def count_warps(rows: int, width: int) -> int:
    """Warps of a program: 16 numbers of a tile for each thread."""
    return max(1, min(8, rows * width // 512))


def sum_over_rows(x: Tensor) -> Tensor:
    """[…, W] → [W] float32, in a fixed order."""
    kernels, width = load_row_kernels(), x.shape[-1]
    count = x.numel() // width
    while True:
        wide = min(next_power(width), 64)
        rows = TILE // wide
        span = round_up(-(-count // ROW_PROGRAMS), rows)
        programs = -(-count // span)
        out = x.new_empty((programs, width), dtype=torch.float32)
        kernels.sum_rows[(programs, -(-width // wide))](
            x, out, count, width, span, ROWS=rows, WIDTH=wide, num_warps=count_warps(rows, wide)
        )
        if programs == 1:
            return out[0]
        x, count = out, programs


def load_board_kernels() -> Any:
    """The kernels over boards, imported when they are first needed: Triton is not everywhere."""
    return importlib.import_module("flashdqn.networks.fused.board_kernels")


def load_row_kernels() -> Any:
    """The kernels over rows."""
    return importlib.import_module("flashdqn.networks.fused.row_kernels")


class NormalizeCells(torch.autograd.Function):
    """ReLU(normalize(x + shift) · weight + bias) of cells [B, H, W, C], over all cells and channels of a sample."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, shift: Tensor | None, weight: Tensor, bias: Tensor, eps: float
    ) -> Tensor:
        """[B, H, W, C] → the same; `shift`, `weight` and `bias` have a number for each channel."""
        kernels, x = load_board_kernels(), x.contiguous()
        samples, cells, channels = len(x), x.shape[1] * x.shape[2], x.shape[3]
        cut = cut_cells(samples, cells, channels)
        parts = -(-cells // cut["SPAN"])
        found = x.new_empty((samples, parts, 2), dtype=torch.float32)
        stats, y = x.new_empty((samples, 2), dtype=torch.float32), torch.empty_like(x)
        given = x, x if shift is None else shift
        common = cut | {"SHIFTED": shift is not None, "num_warps": count_warps(cut["ROWS"], cut["WIDTH"])}
        grid = parts, samples
        kernels.measure_cells[grid](*given, found, cells, channels, **common)
        kernels.normalize_cells[grid](
            *given, weight, bias, found, stats, y, cells, channels, EPS=eps, PARTS=next_power(parts), **common
        )
        ctx.save_for_backward(x, shift, weight, bias, stats)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of x, shift, weight and bias."""
        x, shift, weight, bias, stats = ctx.saved_tensors
        kernels, gradient = load_board_kernels(), gradient.contiguous()
        samples, cells, channels = len(x), x.shape[1] * x.shape[2], x.shape[3]
        cut = cut_cells(samples, cells, channels)
        parts = -(-cells // cut["SPAN"])
        sums = stats.new_empty((samples, parts, 2))
        channel_sums = stats.new_empty((samples * parts, 2, channels))
        dx = torch.empty_like(x)
        shifted = shift is not None
        shift_sums = stats.new_empty((samples * parts, channels)) if shifted else sums
        given = x, shift if shifted else x, weight, bias, stats, gradient, sums
        common = cut | {"SHIFTED": shifted, "num_warps": count_warps(cut["ROWS"], cut["WIDTH"])}
        grid = parts, samples
        kernels.measure_gradient[grid](*given, channel_sums, cells, channels, **common)
        kernels.spread_gradient[grid](
            *given, dx, shift_sums, cells, channels, PARTS=next_power(parts), **common
        )
        by_channel = sum_over_rows(channel_sums.flatten(1)).view(2, channels)
        return dx, sum_over_rows(shift_sums) if shifted else None, by_channel[0], by_channel[1], None


class NormalizeRows(torch.autograd.Function):
    """ReLU(layer_norm(x) · weight + bias), row by row."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        """[…, W] → the same."""
        kernels, x = load_row_kernels(), x.contiguous()
        width = x.shape[-1]
        count = x.numel() // width
        stats, y = x.new_empty((count, 2), dtype=torch.float32), torch.empty_like(x)
        padded = next_power(width)
        rows = max(1, TILE // padded)
        kernels.normalize_rows[(-(-count // rows),)](
            x, weight, bias, stats, y, count, width,
            EPS=eps, ROWS=rows, WIDTH=padded, num_warps=count_warps(rows, padded),
        )  # fmt: skip
        ctx.save_for_backward(x, weight, bias, stats)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of x, weight and bias."""
        x, weight, bias, stats = ctx.saved_tensors
        kernels, gradient = load_row_kernels(), gradient.contiguous()
        width, count = x.shape[-1], len(stats)
        padded = next_power(width)
        rows = max(1, TILE // padded)
        span = round_up(-(-count // ROW_PROGRAMS), rows)
        programs = -(-count // span)
        dx, sums = torch.empty_like(x), stats.new_empty((programs, 2, width))
        kernels.find_row_gradient[(programs,)](
            x, weight, bias, stats, gradient, dx, sums, count, width, span,
            ROWS=rows, WIDTH=padded, num_warps=count_warps(rows, padded),
        )  # fmt: skip
        by_column = sum_over_rows(sums.flatten(1)).view(2, width)
        return dx, by_column[0], by_column[1], None


class AddResidual(torch.autograd.Function):
    """x + y + bias of cells [B, H, W, C], in the type of y."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
        """[B, H, W, C] twice, [C] → [B, H, W, C]."""
        kernels, x, y = load_row_kernels(), x.contiguous(), y.contiguous()
        width = y.shape[-1]
        count, padded, out = y.numel() // width, next_power(width), torch.empty_like(y)
        rows = max(1, TILE // padded)
        kernels.add_three[(-(-count // rows),)](
            x, y, bias, out, count, width, ROWS=rows, WIDTH=padded, num_warps=count_warps(rows, padded)
        )
        ctx.formats = x.dtype, y.dtype
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        """It goes everywhere as it is."""
        first, second = ctx.formats
        return gradient.to(first), gradient.to(second), sum_over_rows(gradient.contiguous())


class AddContext(torch.autograd.Function):
    """Cells [B, H, W, C] + [B, C] everywhere, in the type of the cells."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, context: Tensor) -> Tensor:
        """[B, H, W, C], [B, C] → [B, H, W, C]."""
        kernels, x, context = load_row_kernels(), x.contiguous(), context.contiguous()
        width = x.shape[-1]
        count, padded, out = x.numel() // width, next_power(width), torch.empty_like(x)
        rows = max(1, TILE // padded)
        kernels.add_context[(-(-count // rows),)](
            x, context, out, count, width, x.shape[1] * x.shape[2],
            ROWS=rows, WIDTH=padded, num_warps=count_warps(rows, padded),
        )  # fmt: skip
        ctx.number_format = context.dtype
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """As it is, and its sum over the cells."""
        return gradient, gradient.sum((1, 2)).to(ctx.number_format)
