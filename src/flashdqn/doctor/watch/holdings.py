"""The large arrays that a script holds, and what its lists hold: the replay, above all."""

from __future__ import annotations

from collections import deque
from typing import Any

from .rows import Holding

LARGE = 1 << 18
"""Elements from which on an array is noted."""
ARRAYS = ("numpy", "torch")

holdings: dict[str, Holding] = {}


def note_array(name: str, value: Any) -> None:
    """Note a large array by its name."""
    holdings[name] = Holding(name, describe_dtype(value), tuple(int(n) for n in value.shape), 1)


def note_elements(name: str, value: Any) -> None:
    """Note what a long list of arrays holds, by its newest element: an array, or a tuple with arrays in it."""
    kind = next((kind for kind in (list, deque) if issubclass(type(value), kind)), None)
    if kind is None or kind.__len__(value) < 100:
        return
    last = kind.__getitem__(value, -1)
    parts = list(last) if issubclass(type(last), tuple) or type(last) is list else [last]
    arrays = [part for part in parts if is_array(part)]
    if arrays:
        first = arrays[0]
        same = sum(tuple(part.shape) == tuple(first.shape) for part in arrays)
        holdings[name] = Holding(
            name, describe_dtype(first), (kind.__len__(value), *map(int, first.shape)), same
        )


def is_array(value: Any) -> bool:
    """Whether this is an array of numpy or a tensor, by its type alone."""
    kind = type(value)
    return kind.__module__.partition(".")[0] in ARRAYS and hasattr(kind, "shape") and hasattr(kind, "dtype")


def is_large_array(value: Any) -> bool:
    """Whether this is an array worth noting: not a parameter, and not part of a graph."""
    if not is_array(value) or getattr(value, "requires_grad", False):
        return False
    number = 1
    for size in value.shape:
        number *= int(size)
    return number >= LARGE


def describe_dtype(value: Any) -> str:
    """The kind of its numbers, without the library's name."""
    return str(value.dtype).rpartition(".")[2]
