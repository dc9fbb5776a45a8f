"""Drivers that are compiled alone do what they do in Numba's own way."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from llvmlite.binding import Linkage

from flashdqn.compute import link_once
from flashdqn.compute.compilation import find_kernel
from flashdqn.compute.gemm import never_inlined
from flashdqn.compute.kernels import Array, Scalar, inner, scalar
from flashdqn.compute.native import compile_for_threads, compile_native

TABLE = numba.int64[:, ::1]
NUMBERS = np.arange(60).reshape(12, 5)


@scalar
def mix(x: Scalar, y: Scalar) -> Scalar:
    return (x * 3 + y) % 1000


@inner
def mix_twice(x: Scalar, y: Scalar) -> Scalar:
    return mix(mix(x, y), y)


@never_inlined
def fill_row(i: Scalar, numbers: Array, out: Array) -> None:
    for k in range(numbers.shape[1]):
        out[i, k] = mix_twice(numbers[i, k], i) + mix(k, i)


@inner
def fill_rows(numbers: Array, out: Array) -> None:
    for i in range(len(numbers)):
        fill_row(i, numbers, out)


@never_inlined
def fill_share(worker: Scalar, threads: Scalar, numbers: Array, out: Array) -> None:
    for i in range(worker, len(numbers), threads):
        fill_row(i, numbers, out)


@inner
def double(x: Scalar) -> Scalar:
    return 2 * x


@inner
def double_all(numbers: Array, out: Array) -> None:
    for i in range(len(numbers)):
        for k in range(numbers.shape[1]):
            out[i, k] = double(numbers[i, k])


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names of the libraries that become machine code; the cache is empty."""
    from flashdqn.compute import kernel_cache

    names: list[str] = []
    finalize = link_once._whole_finalize

    def note(library: Any) -> None:
        names.append(library.name)
        finalize(library)

    monkeypatch.setattr(link_once, "_whole_finalize", note)
    monkeypatch.setattr(kernel_cache, "find_entry", lambda name, key: None)
    return names


def mix_plainly(x: int, y: int) -> int:
    return (x * 3 + y) % 1000


def fill_plainly() -> list[list[int]]:
    return [
        [mix_plainly(mix_plainly(int(x), i), i) + mix_plainly(k, i) for k, x in enumerate(row)]
        for i, row in enumerate(NUMBERS)
    ]


def test_only_the_driver_and_what_python_may_call_become_machine_code(whole: list[str]) -> None:
    driver = compile_native(fill_rows, (TABLE, TABLE))
    assert set(whole) == {"driver", "mix"}  # a `scalar` function can be called from Python
    out = np.zeros_like(NUMBERS)
    driver(NUMBERS, out)
    assert out.tolist() == fill_plainly()
    assert mix(5, 6) == mix_plainly(5, 6)


def test_threads_share_the_same_code(whole: list[str]) -> None:
    driver = compile_for_threads(fill_share, (NUMBERS, NUMBERS))
    assert whole.count("driver") == 1
    assert {find_kernel(name) for name in whole} <= {"", "driver", "mix"}  # no parallel loop by itself
    for threads in (1, 2, 3):
        out = np.zeros_like(NUMBERS)
        driver(threads, NUMBERS, out)
        assert out.tolist() == fill_plainly()


def test_a_part_can_be_used_by_another_function_afterwards() -> None:
    compile_native(fill_rows, (TABLE, TABLE))

    @numba.njit
    def call(x: int, y: int) -> int:
        return mix_twice(x, y)

    assert call(7, 8) == mix_plainly(mix_plainly(7, 8), 8)


def test_an_unknown_version_of_numba_compiles_in_its_own_way(
    whole: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_once, "KNOWN_VERSIONS", (1, 2))
    driver = compile_native(double_all, (TABLE, TABLE))
    assert {"driver", "double", "double_all"} <= set(whole)
    out = np.zeros_like(NUMBERS)
    driver(NUMBERS, out)
    assert np.array_equal(out, 2 * NUMBERS)


class Library:
    """As much of Numba's as `list_all_parts` asks."""

    def __init__(self, *called: Library, is_part: bool = True) -> None:
        self._linking_libraries, self._is_part = list(called), is_part


def test_a_part_comes_after_all_that_call_it() -> None:
    """The linker drops what nobody has called yet, and a library may name one that it does not call."""
    last = Library()
    second = Library(last)
    first = Library(last, second)
    order = link_once.list_all_parts(Library(first, last, second))
    assert order == [first, second, last]
    whole = Library(Library(), is_part=False)
    assert link_once.list_all_parts(Library(whole)) == [whole]


@never_inlined
def count_pairs(months: Scalar) -> Scalar:
    """Fibonacci's rabbits: a function that calls itself twice cannot become a part of its caller."""
    if months < 2:
        return 1
    return count_pairs(months - 1) + count_pairs(months - 2)


@inner
def count_all_pairs(numbers: Array, out: Array) -> None:
    for i in range(len(numbers)):
        out[i, 0] = count_pairs(numbers[i, 0])


def test_the_parts_of_a_driver_are_visible_to_it_alone(whole: list[str]) -> None:
    """A kernel from another process may have other functions of the same names."""
    driver = compile_native(count_all_pairs, (TABLE, TABLE))
    assert whole, "it was compiled here"
    (compiled,) = driver.overloads.values()
    defined = [part for part in compiled.library._final_module.functions if not part.is_declaration]
    linkage = {part.linkage for part in defined if "count_pairs" in part.name}
    assert linkage == {Linkage.internal}
    assert [part.name for part in defined if part.linkage == Linkage.linkonce_odr] == []
    out = np.zeros_like(NUMBERS)
    driver(NUMBERS[:3], out)
    assert out[:3, 0].tolist() == [1, 8, 89]
