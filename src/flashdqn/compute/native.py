"""Loops over arrays on the CPU, compiled by Numba and kept on disk.

Where PyTorch needs twenty small operations in a row, each costs about a microsecond, however little it does. A loop
that does all of them in one pass costs a few microseconds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numba
from torch import Tensor

from flashdqn.compute.calls import BY_WORKERS, AddressedKernel, ArgumentType, BoundCall, find_type
from flashdqn.compute.kernel_cache import load_driver, lock_driver
from flashdqn.compute.link_once import compile_driver_alone

_DRIVER = """\
from numba import njit

@njit(nogil=True, error_model="numpy")
def driver(ARGUMENTS):
    play(ARGUMENTS)
"""


def compile_native(function: Callable[..., None], signature: tuple[Any, ...]) -> Any:
    """A function marked `@scalar`, compiled for arguments of these Numba types, or loaded from disk. Arguments of
    other types are compiled when they first come."""
    arguments = ", ".join(f"a{k}" for k in range(len(signature)))
    driver = load_driver(function, _DRIVER.replace("ARGUMENTS", arguments))
    with lock_driver(driver), compile_driver_alone():
        driver.compile(signature)
    return driver


def compile_for_threads(function: Callable[..., None], arguments: tuple[Any, ...]) -> Crew:
    """A function `f(worker, threads, *arguments)` that all threads call at once: `result(threads, *arguments)`.

    The threads share the work among themselves. A thread that starts after the others are done must do no harm.
    It is compiled for arguments like these.
    """
    return Crew(function, [find_type(argument) for argument in arguments])


def compile_for_types(function: Callable[..., None], kinds: Sequence[ArgumentType]) -> Crew:
    """Like `compile_for_threads`, for arguments of these types: numbers, and arrays with some axes."""
    return Crew(function, kinds)


class Crew:
    """A kernel that threads share. What is called again and again is bound once."""

    def __init__(self, function: Callable[..., None], kinds: Sequence[ArgumentType]) -> None:
        self._kernel = AddressedKernel(function, kinds, BY_WORKERS)

    @property
    def stats(self) -> Any:
        """Numba's record of what was compiled or loaded."""
        return self._kernel.driver.stats

    def bind(self, *arguments: Any) -> BoundCall:
        """A call with these arguments, which needs only the number of threads."""
        return self._kernel.bind(*arguments)

    def __call__(self, threads: int, *arguments: Any) -> None:
        """Call it once."""
        self.bind(*arguments)(threads)


def bind_native(function: Callable[..., None], own: list[Tensor], given: list[Tensor]) -> Callable[..., None]:
    """A native function whose first arguments are fixed tensors; the arguments that follow are like `given`."""
    arrays = [tensor.numpy() for tensor in own]
    driver = compile_native(function, (*map(numba.typeof, arrays), *(numba.typeof(t.numpy()) for t in given)))
    return functools.partial(driver, *arrays)


class Views:
    """Tensors as NumPy arrays, remembered while the same tensors come again: each conversion costs a microsecond,
    and more where its code has left the cache."""

    def __init__(self) -> None:
        self._tensors: tuple[Tensor, ...] = ()
        self._arrays: tuple[Any, ...] = ()

    def __call__(self, *tensors: Tensor) -> tuple[Any, ...]:
        """The arrays of these tensors; they share memory."""
        known = self._tensors
        if len(known) != len(tensors) or any(a is not b for a, b in zip(known, tensors, strict=True)):
            self._tensors, self._arrays = tensors, tuple(tensor.numpy() for tensor in tensors)
        return self._arrays
