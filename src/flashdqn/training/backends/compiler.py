"""What PyTorch has compiled for one training, so that a trial that comes back to it does not compile again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

from flashdqn.compute.graphs import compiled

F = TypeVar("F", bound=Callable[..., Any])


class Compiler:
    """Compiles each of a training's functions once; again for another number of threads: it is part of the code."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], Callable[..., Any]] = {}

    def compile(self, name: str, function: F) -> F:
        """The function as one compiled whole; `name` says which of the training's functions it is."""
        key = name, torch.get_num_threads()
        if key not in self._kept:
            self._kept[key] = compiled(function)
        return cast(F, self._kept[key])
