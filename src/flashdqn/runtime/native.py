"""Loops over arrays on the CPU, compiled by Numba and kept on disk.

Where PyTorch would need twenty small operations one after the other, a loop that does them all in one pass costs a
few microseconds: each of those operations costs about one, whatever little it does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
from torch import Tensor

from flashdqn.envs.kernel_cache import load_driver, one_process_at_a_time

_DRIVER = """\
from numba import njit

@njit(cache=True, nogil=True, error_model="numpy")
def driver(ARGUMENTS):
    play(ARGUMENTS)
"""


def native(function: Callable[..., None], signature: tuple[Any, ...]) -> Any:
    """A function marked `@scalar`, compiled for arguments of these Numba types, or loaded from disk. Arguments of
    other types compile when they come."""
    arguments = ", ".join(f"a{k}" for k in range(len(signature)))
    driver = load_driver(function, _DRIVER.replace("ARGUMENTS", arguments))
    with one_process_at_a_time(driver):
        driver.compile(signature)
    return driver


def bound(function: Callable[..., None], own: list[Tensor], given: list[Tensor]) -> Callable[..., None]:
    """A native function whose first arguments are tensors that stay; those that follow are like `given`."""
    arrays = [tensor.numpy() for tensor in own]
    driver = native(function, (*map(numba.typeof, arrays), *(numba.typeof(t.numpy()) for t in given)))
    return functools.partial(driver, *arrays)
