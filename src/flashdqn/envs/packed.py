"""Several tensors in one run of bytes, so that one copy moves them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

#: Bytes at whose multiples every tensor begins: whatever reads or writes it may do so in its widest steps.
ALIGNMENT = 128


@dataclass(frozen=True)
class Field:
    """One of the tensors, and where it begins."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    begin: int

    @property
    def end(self) -> int:
        """The byte after its last."""
        return self.begin + torch.Size(self.shape).numel() * self.dtype.itemsize


class Packing:
    """Places tensors of known shapes and dtypes one after the other; `nbytes` is what all of them take."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.fields: dict[str, Field] = {}
        self.nbytes = 0
        for name, tensor in tensors.items():
            field = Field(tuple(tensor.shape), tensor.dtype, self.nbytes)
            self.fields[name] = field
            self.nbytes = -(-field.end // ALIGNMENT) * ALIGNMENT

    def buffer(self, device: torch.device, pinned: bool = False) -> Tensor:
        """Memory for all of them; pinned, it can be copied from while the host goes on."""
        return torch.zeros(self.nbytes, dtype=torch.uint8, device=device, pin_memory=pinned)

    def views(self, buffer: Tensor) -> dict[str, Tensor]:
        """The tensors as they lie in a buffer: nothing is copied."""
        return {
            name: buffer[field.begin : field.end].view(field.dtype).view(field.shape)
            for name, field in self.fields.items()
        }
