"""Compile a kernel's whole code once, instead of once for every function in it.

Numba turns every function into a library of its own: it links in all that the function calls, optimizes, and
generates machine code. Then the caller does the same again, and so on up to the driver. Only the driver is run, so
most of that work is thrown away. Within `compile_driver_alone`, functions below the driver stay parts: they are not
optimized, have no machine code, and do not contain what they call. The driver links all parts once.

A function that is needed by itself after all (a test calls it from Python) becomes a whole library at that moment.

The parts of a driver are visible to it alone. Numba numbers the functions of a process from 1 on, and the number is
all that distinguishes two functions which one maker has made. So kernels that were compiled in two processes can
have different functions of the same name; where a third process loads both from the cache, the second kernel would
call the first one's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba
from llvmlite.binding import Linkage
from numba.core import codegen

#: The name of the function that is run: see `kernel_cache.load_driver`.
DRIVER = "driver"
#: How Numba names the body of a parallel loop, which Python never calls.
PARALLEL_LOOP = "__numba_parfor_gufunc"
#: Versions of Numba whose libraries work as this module expects.
KNOWN_VERSIONS = (62, 69)

_alone = 0
_whole_finalize = codegen.CPUCodeLibrary.finalize
_whole_pointer = codegen.JITCodeLibrary.get_pointer_to_function
_add_to_engine = codegen.CPUCodeLibrary._finalize_final_module
_whole_environment = codegen.JITCPUCodegen.set_env


def is_known_numba() -> bool:
    """Whether this version of Numba is known to work with this module."""
    major, minor = (int(part) for part in numba.__version__.split(".")[:2])
    return major == 0 and KNOWN_VERSIONS[0] <= minor < KNOWN_VERSIONS[1]


@contextmanager
def compile_driver_alone() -> Iterator[None]:
    """Within it only drivers become machine code. What other threads compile meanwhile becomes whole on its use."""
    global _alone
    known = is_known_numba()
    _alone += known
    try:
        yield
    finally:
        _alone -= known


def finalize_library(library: Any) -> None:
    """Numba's `finalize`: nothing for a part of a driver, and for other libraries with the parts of all parts."""
    if _alone and library.name != DRIVER:
        library._is_part = True
        library._finalized = True
        return
    library._is_part = False
    library._linking_libraries = list_all_parts(library)
    _whole_finalize(library)


def add_driver(library: Any) -> None:
    """Numba's `_finalize_final_module`, which makes machine code: a driver's parts get no names that others see."""
    if library.name == DRIVER:
        for function in library._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal
    _add_to_engine(library)


def list_all_parts(library: Any) -> list[Any]:
    """The libraries that this one needs; of those that are parts only, also what they need.

    A library comes after all that call it: the linker drops what nobody has called yet.
    """
    called_first: dict[Any, None] = {}
    seen: set[Any] = set()
    waiting = [(other, False) for other in library._linking_libraries]
    while waiting:
        other, is_done = waiting.pop()
        if is_done:
            called_first[other] = None
        elif other not in seen:
            seen.add(other)
            waiting.append((other, True))
            if getattr(other, "_is_part", False):
                waiting += [(called, False) for called in other._linking_libraries]
    return list(reversed(called_first))


def get_pointer(library: Any, name: str) -> int:
    """Numba's `get_pointer_to_function`: what is called from Python must be whole."""
    library._ensure_finalized()
    if getattr(library, "_is_part", False):
        defined = {
            function.name for function in library._final_module.functions if not function.is_declaration
        }
        if name not in defined or library.name.startswith(PARALLEL_LOOP):
            return 0
        make_whole(library)
    pointer: int = _whole_pointer(library, name)
    return pointer


def set_environment(generator: Any, name: str, environment: Any) -> None:
    """Numba's `set_env`: a part has no place for it. Kernels do not need it, as code from the cache shows."""
    if generator._engine.get_global_value_address(name):
        _whole_environment(generator, name, environment)


def make_whole(library: Any) -> None:
    """Turn a part into a library of its own."""
    global _alone
    before, _alone = _alone, 0
    try:
        library._finalized, library._shared_module = False, None
        library.finalize()
    finally:
        _alone = before


def install() -> None:
    """Let Numba use the functions above."""
    if is_known_numba():
        codegen.CPUCodeLibrary.finalize = finalize_library
        codegen.JITCodeLibrary.get_pointer_to_function = get_pointer
        codegen.JITCPUCodegen.set_env = set_environment
        codegen.CPUCodeLibrary._finalize_final_module = add_driver


install()
