"""A hash of everything that shapes a kernel's machine code: the same in every process, another after any change."""

from __future__ import annotations

import enum
import hashlib
import importlib.metadata
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np

#: Settings of Numba (`NUMBA_OPT`, …) that change the code it makes.
_NUMBA_SETTINGS = ("OPT", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT")

#: How drivers are linked (`link_once.py`). Kernels of form 1 showed the names of their parts to each other.
LINKED_FORM = 2

#: What `repr` shows in full, without an address.
_PLAIN = (
    *(bool, int, float, complex, str, bytes, range, slice, type(None), type(...)),
    *(np.generic, np.dtype, numba.types.Type),
)


def fingerprint_kernel(function: Callable[..., None], source: str) -> str:
    """A hash of everything that shapes the machine code of `source` calling `function`."""
    module = unwrap_function(function).__module__
    digest = hashlib.sha256(f"{sys.version}\n{_describe_numba()}\n{module}\n{source}".encode())
    for part in _fingerprint_parts(function, set()):
        digest.update(part)
    return digest.hexdigest()


@cache
def _describe_numba() -> str:
    """Versions and settings of the compiler."""
    found = []
    for package in ("numba", "llvmlite", "numba-cuda", "numpy"):
        try:
            found.append(f"{package}={importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{package}=none")
    found.append(f"linked={LINKED_FORM}")
    found += [f"{name}={getattr(numba.config, name, None)}" for name in _NUMBA_SETTINGS]
    return " ".join(found)


def unwrap_function(function: Any) -> FunctionType:
    """The Python function under a Numba dispatcher or intrinsic."""
    plain: FunctionType = getattr(function, "py_func", getattr(function, "_defn", function))
    return plain


def describe_constant(value: Any) -> str:
    """A text that is the same for equal values in every process. `repr` is not: the order of a set depends on the
    process's hash seed, and some objects show their address."""
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(describe_constant, value)))}}}"
    if isinstance(value, dict):
        pairs = (f"{describe_constant(key)}: {describe_constant(held)}" for key, held in value.items())
        return f"{{{', '.join(sorted(pairs))}}}"
    if isinstance(value, tuple | list):
        return f"{type(value).__qualname__}({', '.join(map(describe_constant, value))})"
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}={describe_constant(value.value)}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, _PLAIN):
        return f"{type(value).__qualname__}:{value!r}"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    return f"a {type(value).__module__}.{type(value).__qualname__}"


def _fingerprint_parts(function: Any, seen: set[int]) -> Iterator[bytes]:
    """The bytecode of a function and of all it calls, and the constants they take from their modules."""
    plain = unwrap_function(function)
    if id(plain) in seen:
        return
    seen.add(id(plain))
    # Cached code stores the module name of each function; the options are those of its decorator.
    options = describe_constant(dict(getattr(function, "targetoptions", {})))
    yield f"{plain.__module__}.{plain.__qualname__} {options}".encode()
    yield from _code_parts(plain.__code__)
    closure = inspect.getclosurevars(plain)
    used = {**closure.globals, **closure.nonlocals}
    # An intrinsic generates code, which may depend on all of its file, and on what its maker was told.
    if hasattr(function, "_defn"):
        yield inspect.getsource(sys.modules[plain.__module__]).encode()
        used = dict(closure.nonlocals)
    for name, value in sorted(used.items()):
        held = {name: value}
        if isinstance(value, ModuleType):
            # `module.name` shows as two names; keep those that the module has.
            held = {n: getattr(value, n) for n in plain.__code__.co_names if hasattr(value, n)}
        for what, constant in held.items():
            yield from _constant_parts(what, constant, seen)


def _constant_parts(name: str, constant: Any, seen: set[int]) -> Iterator[bytes]:
    if isinstance(unwrap_function(constant), FunctionType):
        yield from _fingerprint_parts(constant, seen)
        return
    yield f"{name}={describe_constant(constant)}".encode()
    if isinstance(constant, tuple):  # of functions, for example
        for k, held in enumerate(constant):
            yield from _constant_parts(f"{name}[{k}]", held, seen)


def _code_parts(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant)
        else:
            yield describe_constant(constant).encode()
