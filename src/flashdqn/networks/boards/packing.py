"""Weights in the order in which the kernels read them, and their gradients back."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from flashdqn.networks.boards.kernels import CHANNELS


def pack_stem(weight: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """[64, I, 3, 3] → [3, 2, 2, 64, 8]: rows, pairs of columns (the fourth is zero), the pair, channels, inputs."""
    padded = F.pad(weight, (0, 1, 0, 0, 0, 8 - weight.shape[1]))  # [64, 8, 3, 4]
    return padded.reshape(CHANNELS, 8, 3, 2, 2).permute(2, 3, 4, 0, 1).to(dtype).contiguous()


def pack_layers(weights: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """[L, 64, 64, 3, 3] → [L, 9, 8, 64, 8]: directions, groups of inputs, outputs, inputs of a group."""
    grouped = weights.reshape(-1, CHANNELS, 8, 8, 9)
    return grouped.permute(0, 4, 2, 1, 3).to(dtype).contiguous()


def pack_transposed(weights: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """The same for gradients: the last layer first, outputs and inputs exchanged, directions turned around."""
    return pack_layers(weights.flip(0, 3, 4).transpose(1, 2), dtype)


def unpack_layers(parts: Tensor) -> Tensor:
    """[L, slices, 64, 9, 64] → [L, 64, 64, 3, 3]."""
    return parts.sum(1).transpose(2, 3).reshape(-1, CHANNELS, CHANNELS, 3, 3)


def unpack_stem(parts: Tensor, inputs: int) -> Tensor:
    """[slices, 64, 3, 24] → [64, I, 3, 3]."""
    return parts.sum(0).view(CHANNELS, 3, 3, 8)[..., :inputs].permute(0, 3, 1, 2)


def unpack_biases(rows: Tensor, layers: int, slices: int) -> Tensor:
    """[layers · slices, then the stem's slices; 3, 64] → [1 + layers, 64]: the stem first."""
    stem, others = (
        rows[layers * slices :].sum((0, 1)),
        rows[: layers * slices].view(layers, -1, CHANNELS).sum(1),
    )
    return torch.cat((stem[None], others))
