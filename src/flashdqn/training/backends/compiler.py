"""What PyTorch has compiled for one training: a trial that returns to it does not compile again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

from flashdqn.compute.compile_ahead import is_compiled_elsewhere, wait_for
from flashdqn.compute.graphs import compiled

F = TypeVar("F", bound=Callable[..., Any])


class Compiler:
    """Compiles each function of a training once per number of threads, which is part of the compiled code."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], Callable[..., Any]] = {}

    def compile(self, name: str, function: F) -> F:
        """The function compiled as a whole; `name` identifies it within the training."""
        key = name, torch.get_num_threads()
        if key not in self._kept:
            if is_compiled_elsewhere(name):
                self._kept[key] = compiled(function, functools.partial(wait_for, name))
            else:
                self._kept[key] = compiled(function)
        return cast(F, self._kept[key])
