"""The one seam between the loop and how its work runs.

The loop is written once and calls `collect()` and `update(batch)`. Here they become what is really called.
What makes other modes possible lies elsewhere: static shapes, ε and learning rate as device tensors, no
branch on a tensor's value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

Mode = Literal["eager"]


def prepare(function: Callable[P, R], mode: Mode) -> Callable[P, R]:
    """`function` as the mode runs it; eager runs it as it is."""
    assert mode == "eager"
    return function
