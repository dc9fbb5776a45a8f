"""Checks of saved tensors. A stranger's checkpoint may hold any numbers, and compiled code uses some as indices.

It does not look whether an index lies in its array: what is loaded must be in range, or a file could make a
training write anywhere in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashdqn.core.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor


def require_same_kind(what: str, found: Tensor, own: Tensor) -> None:
    """Refuse a tensor of another shape or type than the one that it is loaded into."""
    if found.shape != own.shape or found.dtype != own.dtype:
        raise CheckpointError(
            f"The state is damaged: {what} must be {own.dtype} {list(own.shape)}, and is {found.dtype} "
            f"{list(found.shape)}."
        )


def require_range(what: str, values: Tensor, low: int, high: int) -> None:
    """Refuse numbers that are not from `low` to `high`."""
    if values.numel() and (int(values.min()) < low or int(values.max()) > high):
        raise CheckpointError(f"The state is damaged: {what} must be from {low} to {high}.")


def require_everywhere(condition: Tensor, what: str) -> None:
    """Refuse a state in which something does not hold everywhere."""
    if not bool(condition.all()):
        raise CheckpointError(f"The state is damaged: {what}.")


def require_finite(what: str, values: Tensor) -> None:
    """Refuse NaN and infinity."""
    if not bool(values.isfinite().all()):
        raise CheckpointError(f"The state is damaged: {what} must be a number.")
