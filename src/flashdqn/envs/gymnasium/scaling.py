"""Observations scaled to −1 … 1 by the bounds of their space.

A network reads a number that is always below 0.07, such as MountainCar's velocity, as almost nothing. What has no
finite bounds, and bytes, which a network reads as 0 … 1 anyway, stay as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import Space, spaces

if TYPE_CHECKING:
    from flashdqn.envs.gymnasium.spaces import Array, SpacePart


def scale_parts(space: Space[Any], parts: list[SpacePart]) -> list[SpacePart]:
    """The parts of a space, those with finite bounds scaled."""
    return [scale_part(find_space(space, part.path), part) for part in parts]


def find_space(space: Any, path: tuple[str | int, ...]) -> Any:
    """The plain space at a path."""
    for key in path:
        space = space[key]
    return space


def scale_part(space: Any, part: SpacePart) -> SpacePart:
    """A part whose numbers lie in −1 … 1, each by its own bounds."""
    if not isinstance(space, spaces.Box) or part.kind != "numbers" or part.dtype != np.float32:
        return part
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    # Bounds such as float32's largest number are none.
    bounded = (low > -1e30) & (high < 1e30) & (high > low)
    low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
    middle, factor = ((low + high) / 2).astype(np.float32), (2 / (high - low)).astype(np.float32)

    def encode(x: Array) -> Array:
        scaled: Array = (np.asarray(x, dtype=np.float32) - middle) * factor
        return scaled

    return replace(part, encode=encode, kind="numbers, scaled to -1 … 1" if bounded.any() else part.kind)
