"""Compiled kernels on disk: never stale, never believed unchecked, and never a reason to stop.

Numba's own cache looks at one source file, that of the compiled function; it unpickles and runs whatever lies on
disk; and it needs a folder that it can write to. So we keep the machine code ourselves. Each kernel's driver (the
loop over boards) is known by a hash of all that goes into the compiled code (`fingerprint`), and the code for each
set of types lies in its own file with its checksum (`cache_entries`). Whatever goes wrong with the cache,
the kernel is compiled as if there were none.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numba.core.serialize

from flashdqn.compute.cache_entries import (
    drop_entry,
    find_entry,
    name_entry,
    remove_old_items,
    store_entry,
)
from flashdqn.compute.cache_folder import find_cache_folder, say_once
from flashdqn.compute.compilation import (
    CUDA_MARK,
    begin_compilation,
    end_compilation,
    find_kernel,
    report_waiting,
)
from flashdqn.compute.fingerprint import fingerprint_kernel, unwrap_function
from flashdqn.core.files import open_plain_file

if sys.platform != "win32":
    import fcntl

#: How long to wait for a process that compiles the same kernel; it may hang, or have been stopped.
LOCK_SECONDS = 120.0


def load_driver(function: Callable[..., None], source: str) -> Any:
    """The compiled-on-demand `driver` of `source`, in which `play` means `function`, cached on disk."""
    plain = unwrap_function(function)
    digest = fingerprint_kernel(function, source)
    name = f"flashdqn_kernel_{plain.__name__[:40]}{CUDA_MARK * ('cuda.jit' in source)}_{digest[:16]}"
    if name in sys.modules:
        return sys.modules[name].driver
    module = ModuleType(name)
    vars(module)["play"] = function
    # Registered before it runs: Numba imports the module by its name when it loads cached code.
    sys.modules[name] = module
    try:
        exec(compile(source, f"<{name}>", "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    if _is_importable(plain.__module__) and hasattr(module.driver, "_cache"):
        module.driver._cache = DriverCache(name, digest, is_cuda_driver(module.driver))
    return module.driver


def is_cuda_driver(driver: Any) -> bool:
    """Whether a driver is for CUDA, and not for the CPU."""
    return type(driver).__module__.startswith(("numba.cuda", "numba_cuda"))


def _is_importable(module: str | None) -> bool:
    """Whether another process can import a game's module by name: cached code needs it when it is loaded."""
    if module == "__main__":
        return True
    try:
        return module is not None and importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


class DriverCache:
    """What Numba asks for a driver's code before it compiles, and gives it to afterwards.

    It takes the place of Numba's own cache in a dispatcher (`numba.core.caching._Cache`).
    """

    cache_path = None

    def __init__(self, name: str, digest: str, cuda: bool) -> None:
        self.name, self._digest = name, digest
        self._codec = CudaCodec() if cuda else CpuCodec()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for arguments of these types, or None."""
        with self._codec.activate():
            target_context.refresh()
            try:
                key = self.make_key(sig, target_context.codegen())
                packed = find_entry(self.name, key)
            except Exception as error:
                say_once("damage", f"The cache cannot be read ({error}); the code is compiled again.")
                packed, key = None, ""
            found = None if packed is None else self._unpack(packed, sig, key, target_context)
        if found is None:
            begin_compilation(self.name)
        return found

    def _unpack(self, packed: bytes, sig: Any, key: str, target_context: Any) -> Any:
        try:
            known, data = pickle.loads(packed)
            return self._codec.rebuild(target_context, data) if known == sig else None
        except Exception as error:  # whole, but of no use here: for example a module that is gone
            if folder := find_cache_folder():
                drop_entry(folder / name_entry(self.name, key), error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code if that is possible."""
        end_compilation(self.name)
        try:
            if self._codec.can_keep(data):
                packed = self._codec.dumps((sig, self._codec.reduce(data)))
                store_entry(self.name, self.make_key(sig, data.codegen), packed)
                _remove_old_items_once()
        except Exception as error:
            say_once("store", f"Compiled code cannot be kept ({error}): the next start compiles again.")

    def make_key(self, sig: Any, codegen: Any) -> str:
        """What the code depends on: the kernel, the types of its arguments, the processor."""
        return f"{self._digest} {sig} {codegen.magic_tuple()}"

    def enable(self) -> None:
        """Numba may ask for it; it is always enabled."""

    def disable(self) -> None:
        """Numba may ask for it; it is always enabled."""

    def flush(self) -> None:
        """Numba may ask for it; files are never wrong, so none is removed."""


class CpuCodec:
    """Compiled code for the CPU, as data and back."""

    def activate(self) -> AbstractContextManager[None]:
        """Numba's setting while code is loaded."""
        return nullcontext()

    def dumps(self, data: Any) -> bytes:
        """Pickled as Numba does it."""
        packed: bytes = numba.core.serialize.dumps(data)
        return packed

    def can_keep(self, result: Any) -> bool:
        """Whether the code can be used by another process."""
        return not result.library.has_dynamic_globals and all(part.can_cache for part in result.lifted)

    def reduce(self, result: Any) -> Any:
        """Data that can be pickled."""
        return result._reduce()

    def rebuild(self, target_context: Any, data: Any) -> Any:
        """What `reduce` was given."""
        from numba.core.compiler import CompileResult

        return CompileResult._rebuild(target_context, *data)


class CudaCodec:
    """A compiled CUDA kernel, as data and back."""

    def activate(self) -> AbstractContextManager[None]:
        """Numba's setting while code is loaded."""
        from numba.core.target_extension import target_override

        context: AbstractContextManager[None] = target_override("cuda")
        return context

    def dumps(self, data: Any) -> bytes:
        """Pickled as numba-cuda does it; older versions use Numba's own way."""
        try:
            serialize = importlib.import_module("numba.cuda.serialize")
        except ImportError:
            serialize = numba.core.serialize
        packed: bytes = serialize.dumps(data)
        return packed

    def can_keep(self, kernel: Any) -> bool:
        """Whether the code can be used by another process: not if it was made for one size of grid."""
        return not getattr(kernel, "launch_config_sensitive", False)

    def reduce(self, kernel: Any) -> Any:
        """Data that can be pickled."""
        return kernel._reduce_states()

    def rebuild(self, target_context: Any, data: Any) -> Any:
        """What `reduce` was given."""
        return importlib.import_module("numba.cuda.dispatcher")._Kernel._rebuild(**data)


_old_items_removed = False


def _remove_old_items_once() -> None:
    """Tidy up, at most once in a process, and only in one that has added something."""
    global _old_items_removed
    if not _old_items_removed and (folder := find_cache_folder()):
        _old_items_removed = True
        remove_old_items(folder)


@contextmanager
def lock_driver(driver: Any) -> Iterator[None]:
    """Hold this lock to compile or load a driver: one process compiles, the others wait and load. It only saves
    work, so where it cannot be had, or for long, everyone compiles."""
    name, folder = getattr(getattr(driver, "_cache", None), "name", None), find_cache_folder()
    if name is None or folder is None or sys.platform == "win32":
        yield
        return
    path = folder / f"{name}.lock"
    handle = _open_lock(path, name)
    try:
        yield
    finally:
        if handle is not None:
            with suppress(OSError):
                path.unlink()  # who waits for it compiles as well, and does no harm
            os.close(handle)


def _open_lock(path: Path, name: str) -> int | None:
    """A handle of a locked file; None where there is no lock to be had."""
    try:
        handle = open_plain_file(path, os.O_RDWR | os.O_CREAT, mode=0o600)
    except OSError:
        return None
    try:
        if not _try_lock(handle):
            with report_waiting(find_kernel(name)):
                stop = time.monotonic() + LOCK_SECONDS
                while not _try_lock(handle):
                    if time.monotonic() > stop:
                        raise TimeoutError
                    time.sleep(0.02)
    except OSError:  # it took too long, or a file system without locks
        os.close(handle)
        return None
    return handle


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
