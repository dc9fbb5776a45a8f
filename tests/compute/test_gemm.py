"""Products in registers against NumPy in double precision, transposes, and counters; for every register file."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashdqn.compute.gemm import (
    LANES,
    finish_stage,
    increment_counter,
    make_tile,
    make_transpose,
    multiply_matrices,
    never_inlined,
    read_counter,
    transpose_matrix,
    wait_for_counter,
)
from flashdqn.compute.native import compile_for_threads

Numbers = np.ndarray[Any, Any]
NO_LIMIT = np.float32(-np.inf)


@numba.njit
def multiply(a, row, column, b, line, c, out, m, n, k, start, step, low, gate):  # type: ignore[no-untyped-def]
    multiply_matrices(a, row, column, b, line, c, out, m, n, k, start, step, low, gate)


@numba.njit
def turn(x, rows, line, columns, y, out):  # type: ignore[no-untyped-def]
    transpose_matrix(x, rows, line, columns, y, out)


def draw(rng: np.random.Generator, *shape: int) -> Numbers:
    return rng.standard_normal(shape).astype(np.float32)


def at(array: Numbers) -> int:
    return int(array.ctypes.data)


@given(
    m=st.integers(1, 40),
    vectors=st.integers(1, 5),
    k=st.integers(1, 70),
    spare=st.integers(0, 9),
    transposed=st.booleans(),
    floor=st.booleans(),
    gated=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=200)
def test_products(
    m: int, vectors: int, k: int, spare: int, transposed: bool, floor: bool, gated: bool, seed: int
) -> None:
    """A as it is or transposed, lines longer than they need be; nothing outside of C is touched."""
    rng, n = np.random.default_rng(seed), vectors * LANES
    a = draw(rng, *((k, m + spare) if transposed else (m, k + spare)))
    b, start, gate = draw(rng, k, n + spare), draw(rng, m), draw(rng, m, n + spare)
    c = np.full((m + 1, n + spare), 7.0, dtype=np.float32)
    row, column = (1, m + spare) if transposed else (k + spare, 1)
    low, shut, line = np.float32(0.0) if floor else NO_LIMIT, at(gate) if gated else 0, n + spare
    multiply(at(a), row, column, at(b), line, at(c), line, m, n, k, at(start), 1, low, shut)
    left = a[:, :m].T if transposed else a[:, :k]
    expected = np.maximum(left.astype(np.float64) @ b[:, :n] + start[:, None], low)
    if gated:
        expected = np.where(gate[:, :n] <= 0, 0, expected)
    np.testing.assert_allclose(c[:m, :n], expected, rtol=1e-4, atol=1e-4)
    assert (c[m] == 7).all()
    assert (c[:m, n:] == 7).all()


def test_half_a_vector_of_columns() -> None:
    rng, half = np.random.default_rng(0), LANES // 2
    a, b, c, zero = draw(rng, 13, 9), draw(rng, 9, LANES), draw(rng, 13, LANES), np.zeros(1, np.float32)
    multiply(at(a), 9, 1, at(b), LANES, at(c), LANES, 13, half, 9, at(zero), 0, NO_LIMIT, 0)
    np.testing.assert_allclose(c[:, :half], (a @ b)[:, :half], rtol=1e-5, atol=1e-5)


def test_a_number_does_not_depend_on_its_place_in_a_tile() -> None:
    """Bit by bit: so threads may cut the work as they like."""
    rng, line, k = np.random.default_rng(1), 4 * LANES, 100
    a, b, zero, whole = draw(rng, 29, k), draw(rng, k, line), np.zeros(1, np.float32), draw(rng, 29, line)
    multiply(at(a), k, 1, at(b), line, at(whole), line, 29, line, k, at(zero), 0, NO_LIMIT, 0)
    for first in range(29):
        for vector in range(4):
            part, columns = np.zeros((1, LANES), np.float32), b[:, vector * LANES :]
            multiply(
                at(a[first:]), k, 1, at(columns), line, at(part), LANES, 1, LANES, k, at(zero), 0, NO_LIMIT, 0
            )
            assert (part[0] == whole[first, vector * LANES : (vector + 1) * LANES]).all()


def test_nan_is_not_lost() -> None:
    rng = np.random.default_rng(2)
    a, b, start, c = draw(rng, 8, 4), draw(rng, 4, LANES), np.zeros(8, np.float32), draw(rng, 8, LANES)
    a[3, 2] = np.nan
    multiply(at(a), 4, 1, at(b), LANES, at(c), LANES, 8, LANES, 4, at(start), 1, np.float32(0), 0)
    assert np.isnan(c[3]).all()
    assert np.isfinite(np.delete(c, 3, axis=0)).all()


@pytest.mark.parametrize(("lanes", "rows"), [(16, 8), (8, 6), (4, 8)])
def test_tiles_for_other_machines(lanes: int, rows: int) -> None:
    """What would run on AVX2 and NEON, computed by whatever this machine has."""
    tile, transpose = make_tile(rows, 2, lanes), make_transpose(lanes)

    @numba.njit
    def run(a, b, c, zero, k, x, y):  # type: ignore[no-untyped-def]
        tile(a, k, 1, b, 2 * lanes, c, 2 * lanes, k, zero, 0, np.float32(-np.inf), 0)
        transpose(x, lanes, y, lanes)

    rng, k = np.random.default_rng(3), 11
    a, b, c = draw(rng, rows, k), draw(rng, k, 2 * lanes), draw(rng, rows, 2 * lanes)
    x, y, zero = draw(rng, lanes, lanes), draw(rng, lanes, lanes), np.zeros(1, np.float32)
    run(at(a), at(b), at(c), at(zero), k, at(x), at(y))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)
    assert (y == x.T).all()


@given(rows=st.integers(1, 40), columns=st.integers(1, 40), seed=st.integers(0, 99))
@settings(deadline=None)
def test_turning(rows: int, columns: int, seed: int) -> None:
    x = draw(np.random.default_rng(seed), rows, columns + 3)
    y = np.full((columns, rows + 2), 7.0, dtype=np.float32)
    turn(at(x), rows, columns + 3, columns, at(y), rows + 2)
    assert (y[:, :rows] == x[:, :columns].T).all()
    assert (y[:, rows:] == 7).all()


@never_inlined
def count_up(worker: Any, threads: Any, counters: Any, times: Any) -> None:
    """Every thread counts the first counter up, then the second, and waits until one has."""
    for _ in range(times):
        increment_counter(counters)
    increment_counter(counters + 64)
    wait_for_counter(counters + 64, 1)


@never_inlined
def report_parts(worker: Any, threads: Any, counters: Any, seen: Any) -> None:
    """Every thread reports another number of parts, and waits for its own; then it reports none."""
    for k in range(seen.shape[1]):
        finish_stage(counters + 64 * k, worker + 1, worker + 1)
        finish_stage(counters + 64 * k, 0, 1)
        seen[worker, k] = read_counter(counters + 64 * k)


@numba.njit
def read(address):  # type: ignore[no-untyped-def]
    return read_counter(address)


@pytest.mark.parametrize("threads", [1, 2])
def test_counters_are_everybodys(threads: int) -> None:
    counters = np.zeros(16, dtype=np.int64)
    arguments = (at(counters), 100_000)
    compile_for_threads(count_up, arguments)(threads, *arguments)
    assert counters[0] == 100_000 * threads
    assert counters[8] == threads
    assert read(at(counters)) == counters[0]


@pytest.mark.parametrize("threads", [1, 2])
def test_finished_parts_are_reported_at_once(threads: int) -> None:
    counters, seen = np.zeros(8 * 1000, dtype=np.int64), np.zeros((threads, 1000), dtype=np.int64)
    arguments = (at(counters), seen)
    compile_for_threads(report_parts, arguments)(threads, *arguments)
    assert (counters[0::8] == threads * (threads + 1) // 2).all()
    assert (seen > np.arange(threads)[:, None]).all()
