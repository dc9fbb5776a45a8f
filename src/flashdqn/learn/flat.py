"""A module's parameters as views of one tensor: optimizer, clipping and target update are one call each."""

from __future__ import annotations

import torch
from torch import Tensor, nn

#: Every parameter starts at a multiple of this many numbers, 64 bytes, which matrix libraries prefer. The padding
#: in between stays zero, because its gradient is zero.
ALIGNMENT = 16

#: Unused numbers on both sides of a tensor that several cores work on. A processor also fetches what lies behind
#: the part that it works on; if that belongs to another core, both wait. Memory that nobody touches is free.
GAP = 1 << 14


def make_zeros_apart(like: Tensor) -> Tensor:
    """Zeros like a tensor; a vector on the CPU has a gap on both sides."""
    if like.device.type != "cpu" or like.dim() != 1:
        return torch.zeros_like(like)
    return torch.zeros(len(like) + 2 * GAP, dtype=like.dtype)[GAP:-GAP]


class Flat:
    """All parameters of a module in `values`, [P], and all gradients in `gradient`, [P]; works for any module.

    The module works as before: its parameters and their `.grad` are views of these two tensors. You may load, copy
    and save it; but do not move it, change its dtype or drop its gradients afterwards (`holds` checks this). A
    frozen parameter has no `.grad`, so it stays as it is; but weight decay would move it.
    """

    def __init__(self, module: nn.Module) -> None:
        named = dict(module.named_parameters())
        self.names = list(named)
        self.shapes = [parameter.shape for parameter in named.values()]
        self.sizes = [parameter.numel() for parameter in named.values()]
        self.padded = [-(-size // ALIGNMENT) * ALIGNMENT for size in self.sizes]
        first = next(iter(named.values()))
        assert all(parameter.dtype == torch.float32 for parameter in named.values())
        self.values = torch.zeros(sum(self.padded), device=first.device)
        self.gradient = make_zeros_apart(self.values)
        values, gradients = self.split(self.values), self.split(self.gradient)
        for name, parameter in named.items():
            values[name].copy_(parameter.detach())
            parameter.data = values[name]
            if parameter.requires_grad:
                parameter.grad = gradients[name]

    def holds(self, module: nn.Module) -> bool:
        """Whether a module's parameters are (still) views of `values`."""
        places = [piece.data_ptr() for piece in self.split(self.values).values()]
        return places == [parameter.data_ptr() for parameter in module.parameters()]

    def split(self, flat: Tensor) -> dict[str, Tensor]:
        """Views of a tensor of this layout, by parameter name and in the shape of the parameter."""
        pieces = torch.split(flat, self.padded)
        return {
            name: piece[:size].view(shape)
            for name, piece, size, shape in zip(self.names, pieces, self.sizes, self.shapes, strict=True)
        }

    def without_tail(self, flat: Tensor) -> Tensor:
        """A tensor of this layout without the padding after the last parameter."""
        return flat[: sum(self.padded[:-1]) + self.sizes[-1]]

    def join(self, pieces: dict[str, Tensor]) -> Tensor:
        """One tensor of this layout from a tensor for each parameter."""
        flat: list[Tensor] = []
        for name, size, padded in zip(self.names, self.sizes, self.padded, strict=True):
            flat.append(pieces[name].reshape(-1))
            if padded > size:
                flat.append(self.values.new_zeros(padded - size))
        return torch.cat(flat)
