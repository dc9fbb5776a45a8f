"""Kernels by address: the same results as Numba's own calls, for every kind of argument, and by all threads."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
import torch

from flashdqn.compute.calls import (
    BY_WORKERS,
    FOR_BOARDS,
    ONCE,
    AddressedKernel,
    BoundCall,
    call_address,
    find_places,
    find_type,
    pack_table,
)
from flashdqn.compute.gemm import never_inlined
from flashdqn.compute.kernels import Array, Kernel, Scalar, inner, scalar
from flashdqn.compute.threads import limit_threads

DTYPES = (np.float32, np.float64, np.int64, np.int32, np.int16, np.uint8, np.uint64, np.bool_)


@never_inlined
def add_all(first: Array, second: Array, third: Array, factor: Scalar, count: Scalar, out: Array) -> None:
    for i in range(second.shape[0]):
        for j in range(second.shape[1]):
            out[i, j] = count * (first[i] + factor * second[i, j] + third[i, j, 1])


@never_inlined
def mark_own(worker: Scalar, threads: Scalar, out: Array) -> None:
    for i in range(worker, len(out), threads):
        out[i] += 10 * threads + worker


@never_inlined
def call_twice(function: Scalar, table: Scalar) -> None:
    for worker in range(2):
        call_address(function, worker, 2, table)


@inner
def play(i: Scalar, board: Array, out: Array) -> None:
    out[i] = board[i, 0] + i


@scalar
def halve_each(worker: Scalar, threads: Scalar, numbers: Array) -> None:
    for i in range(worker, len(numbers), threads):
        numbers[i] *= 0.5


def bind(function: Any, how: str, *arguments: Any) -> BoundCall:
    return AddressedKernel(function, list(map(find_type, arguments)), how).bind(*arguments)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arrays_and_numbers_of_every_kind(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    first, second, third = (rng.integers(0, 2, shape).astype(dtype) for shape in ((3,), (3, 4), (3, 4, 2)))
    out = np.zeros((3, 4))
    bind(add_all, ONCE, first, second, third, 2.5, 3, out)()
    expected = 3 * (first[:, None].astype(float) + 2.5 * second + third[:, :, 1])
    assert np.array_equal(out, expected)


def test_a_table_has_addresses_shapes_and_bits() -> None:
    array = np.zeros((2, 3), dtype=np.float32)
    table = pack_table((array, 7, 0.5))
    assert table[1:].tolist() == [2, 3, 7, int(np.float64(0.5).view(np.int64))]
    assert find_places([find_type(x) for x in (array, 7, 0.5)]) == [0, 3, 4]
    with pytest.raises(AssertionError, match="row by row"):
        find_type(np.zeros((2, 3)).T)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_all_threads_come(threads: int) -> None:
    out = np.zeros(7, dtype=np.int64)
    call = bind(mark_own, BY_WORKERS, out)
    call(threads)
    assert out.tolist() == [10 * threads + i % threads for i in range(7)]


def test_compiled_code_calls_by_address() -> None:
    out = np.zeros(4, dtype=np.int64)
    called = bind(mark_own, BY_WORKERS, out)
    bind(call_twice, ONCE, called.address, called.table)()
    assert out.tolist() == [20, 21, 20, 21]


def test_games_of_ours_are_called_by_address_and_others_by_numba() -> None:
    board, out = torch.arange(8).reshape(4, 2), torch.zeros(4, dtype=torch.int64)
    launch = Kernel(play, parallel_from=64).bind(4, board, out)
    assert not isinstance(launch, BoundCall)  # this module is not ours: it could raise an exception
    own = bind(play, FOR_BOARDS, 4, board.numpy(), out.numpy())
    for call in (launch, own):
        out.zero_()
        call()
        assert out.tolist() == [0, 3, 6, 9]


def test_every_thread_flushes_what_the_asking_one_flushes() -> None:
    tiny, threads = np.float32(1e-38), max(2, min(4, int(numba.config.NUMBA_NUM_THREADS)))
    for flushes in (False, True):
        numbers = np.full(64, tiny, dtype=np.float32)
        call = bind(halve_each, BY_WORKERS, numbers)
        torch.set_flush_denormal(flushes)
        try:
            call(threads)
        finally:
            torch.set_flush_denormal(False)
        assert ((numbers == 0.0) == flushes).all()


def test_limits_of_threads_are_kept_by_a_crew() -> None:
    out = np.zeros(6, dtype=np.int64)
    call = bind(mark_own, BY_WORKERS, out)
    with limit_threads(1, 1):
        call(2)  # parts of a crew are not lost where one thread must do them all
    assert out.tolist() == [20, 21, 20, 21, 20, 21]
