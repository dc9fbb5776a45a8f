"""A kernel cache for one test, and a kernel to keep in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numba
import numpy as np
import pytest

from flashdqn.compute import cache_folder
from flashdqn.compute.kernels import scalar
from flashdqn.compute.native import compile_native

VECTOR = numba.float32[::1]


@scalar
def add_to(a, b):  # type: ignore[no-untyped-def]
    for i in range(a.size):
        a[i] += b[i]


@scalar
def subtract_from(a, b):  # type: ignore[no-untyped-def]
    for i in range(a.size):
        a[i] -= b[i]


def forget_processes_past() -> None:
    """As in a new process: nothing is loaded, nothing was said."""
    cache_folder.find_cache_folder.cache_clear()
    cache_folder._said.clear()
    for name in [name for name in sys.modules if name.startswith("flashdqn_kernel_add_to_")]:
        del sys.modules[name]


def start_again() -> tuple[int, int]:
    """Compile or load the kernel as a new process would, and use it: hits and misses of the cache."""
    forget_processes_past()
    driver = compile_native(add_to, (VECTOR, VECTOR))
    values = np.ones(4, np.float32)
    driver(values, np.full(4, 2.0, np.float32))
    assert values.tolist() == [3.0] * 4
    return sum(driver.stats.cache_hits.values()), sum(driver.stats.cache_misses.values())


HIT, MISS = (1, 0), (0, 1)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "cache"
    monkeypatch.setenv("FLASHDQN_CACHE", str(folder))
    forget_processes_past()
    yield folder
    forget_processes_past()


def find_only_entry(folder: Path) -> Path:
    (entry,) = folder.glob("*.kernel")
    return entry
