"""Observations of several parts in one row of bytes, and the decoder that turns rows into a network's numbers.

    floats         4 bytes each, first
    Discrete       its number, 4 bytes
    bytes          as they are

So an image costs a byte for each pixel in the replay, and a Discrete 4 bytes, whatever else is there. Decoded, all
parts are float32 in the space's own order: bytes as 0 … 1, the numbers of a Discrete as one-hot vectors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from flashdqn.core.contract import ObsPart

Array = npt.NDArray[Any]
Storage = Literal["floats", "numbers", "bytes"]
#: In this order they lie in a row: what needs alignment comes first.
STORAGES: tuple[Storage, ...] = ("floats", "numbers", "bytes")


@dataclass(frozen=True)
class PackedField:
    """Where a part lies in a row of bytes."""

    part: ObsPart  # decoded
    storage: Storage
    begin: int
    end: int
    counts: tuple[int, ...] = ()  # of the values of each number


class PackedRows:
    """Packs parts into rows, and decodes rows. With a stack, a row holds the rows of several frames."""

    #: masks do not follow from the observations
    legal = None

    def __init__(self, fields: tuple[PackedField, ...], stack: int = 1) -> None:
        self.fields, self.stack = fields, stack
        self.nbytes = max(field.end for field in fields)
        self.float_bytes = max((f.end for f in fields if f.storage == "floats"), default=0)
        self.parts = tuple(_stack_part(field.part, stack) for field in fields)
        self.shape = (sum(part.size for part in self.parts),)

    def for_stack(self, stack: int) -> PackedRows:
        """The decoder of rows that each hold `stack` frames."""
        return PackedRows(self.fields, stack)

    def write(self, arrays: list[Array], out: Array) -> None:
        """Pack one array for each part, [N, …], into rows, [N, nbytes]."""
        for field, array in zip(self.fields, arrays, strict=True):
            dtype = {"floats": np.float32, "numbers": np.int32, "bytes": np.uint8}[field.storage]
            flat = np.ascontiguousarray(array.reshape(len(out), -1), dtype=dtype)
            out[:, field.begin : field.end] = flat.view(np.uint8)

    def floats(self, rows: Array) -> Array:
        """The float32 numbers in rows, [N, …]: all that may be NaN."""
        return np.ascontiguousarray(rows[:, : self.float_bytes]).view(np.float32)

    def __call__(self, obs: Tensor) -> Tensor:
        """Rows, [B, stack · nbytes] uint8, as numbers, [B, *shape] float32: part by part, all frames of each."""
        frames = obs.reshape(len(obs), self.stack, self.nbytes)
        return torch.cat([_decode_field(field, frames).flatten(1) for field in self.fields], 1)

    def check(self, obs: Tensor) -> None:
        """Every row can be decoded: none of its numbers is used as an index."""

    def __copy__(self) -> PackedRows:
        return self

    def __deepcopy__(self, memo: object) -> PackedRows:
        return self


def _stack_part(part: ObsPart, stack: int) -> ObsPart:
    return part._replace(shape=(stack * part.shape[0], *part.shape[1:]))


def _decode_field(field: PackedField, frames: Tensor) -> Tensor:
    """[B, stack, nbytes] → [B, stack, size] float32."""
    piece = frames[..., field.begin : field.end]
    if field.storage == "bytes":
        return piece / 255
    # A true copy: a single row counts as contiguous wherever it lies, and may not be aligned.
    piece = piece.clone(memory_format=torch.contiguous_format)
    if field.storage == "floats":
        return piece.view(torch.float32)
    numbers = piece.view(torch.int32)
    hot = [
        numbers[..., k : k + 1] == torch.arange(count, device=numbers.device)
        for k, count in enumerate(field.counts)
    ]
    return torch.cat(hot, -1).to(torch.float32)


def lay_out_fields(parts: list[tuple[ObsPart, Storage, tuple[int, ...]]]) -> tuple[PackedField, ...]:
    """Give each part its place in a row; the fields keep the order of the parts."""
    fields: dict[int, PackedField] = {}
    begin = 0
    for storage in STORAGES:
        for place, (part, kept, counts) in enumerate(parts):
            if kept == storage:
                size = len(counts) if storage == "numbers" else math.prod(part.shape)
                end = begin + size * (1 if storage == "bytes" else 4)
                fields[place] = PackedField(part, storage, begin, end, counts)
                begin = end
    return tuple(fields[place] for place in range(len(parts)))
