"""Compiled kernels on disk, never stale.

Numba's own cache looks at one source file: the one of the compiled function, not those of its callees. So
each kernel's driver (the loop over boards) is written to its own file, whose name holds a hash of all
that goes into the compiled code: the bytecode of every function the kernel can reach, the constants they
use, and the versions of Python and Numba. Numba caches beside that file; any change makes another file.
The folder is `$FLASHDQN_CACHE`, else `~/.cache/flashdqn/kernels`, else a temporary one.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.metadata
import importlib.util
import inspect
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

if sys.platform != "win32":
    import fcntl


def load_driver(function: Callable[..., None], source: str) -> Any:
    """The compiled-on-demand `driver` of `source`, in which `play` means `function`, cached on disk."""
    if not _is_importable(_unwrap_function(function).__module__):
        source = source.replace("cache=True", "cache=False")
    digest = fingerprint_kernel(function, source)
    name = f"flashdqn_kernel_{_unwrap_function(function).__name__}_{digest}"
    if name in sys.modules:
        return sys.modules[name].driver
    path = cache_folder() / f"{name}.py"
    if not path.exists():
        _write_atomically(path, source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module)["play"] = function
    # Registered before it runs: Numba imports the module by its name when it loads cached code.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module.driver


@contextmanager
def lock_driver(driver: Any) -> Iterator[None]:
    """Hold this lock to compile or load a driver. Numba numbers the machine code of a driver's several types. Two
    processes that compile different types at once would take the same number, and later run the wrong code."""
    path = Path(driver.py_func.__code__.co_filename).with_suffix(".lock")
    with path.open("a") as file:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed, even after an error
        yield


def _is_importable(module: str | None) -> bool:
    """Whether another process can import a game's module by name: cached code needs it when it is loaded."""
    if module == "__main__":
        return True
    try:
        return module is not None and importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def fingerprint_kernel(function: Callable[..., None], source: str) -> str:
    """A hash of everything that shapes the machine code of `source` calling `function`."""
    module = _unwrap_function(function).__module__
    digest = hashlib.sha256(f"{sys.version}\n{_package_versions()}\n{module}\n{source}".encode())
    for part in _fingerprint_parts(function, set()):
        digest.update(part)
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> Path:
    """The folder for generated drivers and their machine code; created if it is missing."""
    asked = os.environ.get("FLASHDQN_CACHE")
    folder = Path(asked) if asked else Path("~/.cache/flashdqn/kernels").expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:  # a read-only home: compile once per process rather than not at all
        temporary = Path(tempfile.mkdtemp(prefix="flashdqn-kernels-"))
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        return temporary


@cache
def _package_versions() -> str:
    found = []
    for package in ("numba", "llvmlite", "numba-cuda", "numpy"):
        try:
            found.append(f"{package}={importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{package}=none")
    return " ".join(found)


def _unwrap_function(function: Any) -> FunctionType:
    """The Python function under a Numba dispatcher or intrinsic."""
    plain: FunctionType = getattr(function, "py_func", getattr(function, "_defn", function))
    return plain


def _fingerprint_parts(function: Any, seen: set[int]) -> Iterator[bytes]:
    """The bytecode of a function and of all it calls, and the constants they take from their modules."""
    plain = _unwrap_function(function)
    if id(plain) in seen:
        return
    seen.add(id(plain))
    # Cached code stores the module name of each function; the options are those of its decorator.
    options = sorted(getattr(function, "targetoptions", {}).items())
    yield f"{plain.__module__}.{plain.__qualname__} {options}".encode()
    yield from _code_parts(plain.__code__)
    # An intrinsic generates code, which may depend on all of its file.
    if hasattr(function, "_defn"):
        yield inspect.getsource(sys.modules[plain.__module__]).encode()
        return
    closure = inspect.getclosurevars(plain)
    for name, value in sorted({**closure.globals, **closure.nonlocals}.items()):
        used = {name: value}
        if isinstance(value, ModuleType):
            # `module.name` shows as two names; keep those that the module has.
            used = {n: getattr(value, n) for n in plain.__code__.co_names if hasattr(value, n)}
        for what, constant in used.items():
            if isinstance(_unwrap_function(constant), FunctionType):
                yield from _fingerprint_parts(constant, seen)
            elif isinstance(constant, np.ndarray):
                yield f"{what}={constant.dtype}{constant.shape}".encode() + constant.tobytes()
            elif isinstance(constant, bool | int | float | str | tuple | np.generic):
                yield f"{what}={constant!r}".encode()


def _code_parts(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant)
        else:
            yield repr(constant).encode()


def _write_atomically(path: Path, source: str) -> None:
    """Several processes may write the same file at once: the last one wins, and all write the same content."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w") as file:
        file.write(source)
    # Numba takes another file date for another source, so every writer sets the same date.
    os.utime(temporary, (0, 0))
    Path(temporary).replace(path)
