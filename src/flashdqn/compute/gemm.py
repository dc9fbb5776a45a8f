"""Products of small matrices on the CPU, in registers, and counters by which threads share the work.

A library's matrix product packs its factors first, which is expensive where they are small. These are multiplied
without copying: a tile of the result, `ROWS` rows by one or two vectors, stays in registers while the sum runs. It
is written in LLVM's own language, because Numba's loops do not guarantee what stays in a register.
`benchmarks/update.py` measures the products of an update this way and with PyTorch's library.

Every number of a product is one sum, from the first term to the last, whatever tile it is in and whichever thread
computes it: results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

import llvmlite.binding  # type: ignore[import-untyped,unused-ignore]
import numba
import numba.extending
from llvmlite import ir  # type: ignore[import-untyped,unused-ignore]
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import make_array, populate_array

from flashdqn.compute.kernels import Scalar

F = TypeVar("F", bound=Callable[..., Any])

_INT, _FLOAT, _BYTE = ir.IntType(64), ir.FloatType(), 4


def _register_file() -> tuple[int, int]:
    """Floats in a vector register, and rows of a tile: two accumulators per row must fit beside the factors."""
    features = llvmlite.binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 16, 8  # 32 registers
    if features.get("avx"):
        return 8, 6  # 16 registers
    return 4, 8  # NEON has 32; with SSE's 16 some spill


LANES, ROWS = _register_file()

_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}
_UNWRAPPED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # only kernels call these functions


def never_inlined(function: F) -> F:
    """Like `kernels.inner`, but compiled once and called instead of inlined: tiles are long."""
    compiled: F = numba.njit(**_OPTIONS, **_UNWRAPPED)(function)
    return compiled


def never_inlined_as(name: str, function: Callable[..., Any]) -> Any:
    """`never_inlined` for a function that was made for something, under a name of its own: the name of its variable
    in its module, by which a compiler in another process finds it."""
    code, closure = function.__code__, function.__closure__
    return never_inlined(FunctionType(code, function.__globals__, name, function.__defaults__, closure))


def with_fast_sums(function: F) -> F:
    """Like `kernels.inner`, but sums may be reordered for speed; the order is always the same."""
    fast = {"reassoc", "contract"}
    compiled: F = numba.njit(**_OPTIONS, **_UNWRAPPED, fastmath=fast, forceinline=True)(function)
    return compiled


def intrinsic(definition: Callable[..., Any]) -> Any:
    """A function that generates the code of its calls."""
    return numba.extending.intrinsic(definition)


def make_tile(rows: int, vectors: int, lanes: int = LANES) -> Any:
    """`tile(a, row, column, b, line, c, out, k, start, step, low, gate)`: C = A B for a tile of `rows` x `vectors`.

    All but `low`, a float32, are addresses or integers; strides count floats. A[r, i] lies at a + r·row + i·column,
    B's rows are `line` apart, C's rows `out`, and k > 0 terms are summed. The sums of row r begin with the number
    at start + r·step, and end no lower than `low`, except for NaN. Where `gate` is not 0, it is the address of a
    matrix with the layout of C, and where that matrix is 0 or less the result is 0.
    """
    vector = ir.VectorType(_FLOAT, lanes)
    zero = ir.Constant(vector, [0.0] * lanes)

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        a, row, column, b, line, c, out, k, start, step, low, gate = arguments
        row, column, line, out, step = (build.mul(x, _INT(_BYTE)) for x in (row, column, line, out, step))
        function = ir.FunctionType(vector, [vector] * 3)
        multiply_add = cgutils.get_or_insert_function(build.module, function, f"llvm.fmuladd.v{lanes}f32")

        def load(address: Any, kind: Any) -> Any:
            return build.load(build.inttoptr(address, kind.as_pointer()), align=_BYTE)

        def splat(value: Any) -> Any:
            single = build.insert_element(zero, value, ir.IntType(32)(0))
            return build.shuffle_vector(
                single, zero, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            )

        def places(base: Any, line: Any) -> list[Any]:
            """The addresses at which rows begin."""
            found = [base]
            for _ in range(rows - 1):
                found.append(build.add(found[-1], line))
            return found

        first = [splat(load(place, _FLOAT)) for place in places(start, step)]
        steps = places(_INT(0), row)
        before = build.block
        loop, after = build.append_basic_block("sum"), build.append_basic_block("summed")
        build.branch(loop)
        build.position_at_end(loop)
        i, left, right = (build.phi(_INT) for _ in range(3))
        sums = [[build.phi(vector) for _ in range(vectors)] for _ in range(rows)]
        b_row = [load(build.add(right, _INT(_BYTE * lanes * v)), vector) for v in range(vectors)]
        more = []
        for r in range(rows):
            factor = splat(load(build.add(left, steps[r]), _FLOAT))
            more.append([build.call(multiply_add, [factor, b_row[v], sums[r][v]]) for v in range(vectors)])
        following = build.add(i, _INT(1)), build.add(left, column), build.add(right, line)
        for phi, begin, then in zip((i, left, right), (_INT(0), a, b), following, strict=True):
            phi.add_incoming(begin, before)
            phi.add_incoming(then, loop)
        for r in range(rows):
            for v in range(vectors):
                sums[r][v].add_incoming(first[r], before)
                sums[r][v].add_incoming(more[r][v], loop)
        build.cbranch(build.icmp_signed("<", following[0], k), loop, after)

        build.position_at_end(after)
        lowest = splat(low)

        def store(gated: bool) -> None:
            for r, (place, other) in enumerate(zip(places(c, out), places(gate, out), strict=True)):
                for v in range(vectors):
                    value = build.select(build.fcmp_ordered("<", more[r][v], lowest), lowest, more[r][v])
                    offset = _INT(_BYTE * lanes * v)
                    if gated:
                        closed = build.fcmp_ordered("<=", load(build.add(other, offset), vector), zero)
                        value = build.select(closed, zero, value)
                    build.store(
                        value, build.inttoptr(build.add(place, offset), vector.as_pointer()), align=_BYTE
                    )

        with build.if_else(build.icmp_signed("!=", gate, _INT(0))) as (then, otherwise):
            with then:
                store(gated=True)
            with otherwise:
                store(gated=False)
        return context.get_dummy_value()

    def tile(typing: Any, a: Any, row: Any, column: Any, b: Any, line: Any, c: Any, out: Any, k: Any, start: Any,
             step: Any, low: Any, gate: Any) -> Any:  # fmt: skip
        whole = types.int64
        return types.void(*[whole] * 10, types.float32, whole), generate

    return intrinsic(tile)


def make_transpose(lanes: int = LANES) -> Any:
    """`transpose(x, line, y, out)`: write the square block at address x to y, with rows and columns exchanged. It
    has as many rows as a vector has numbers; `line` and `out` count floats."""
    vector = ir.VectorType(_FLOAT, lanes)

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        x, line, y, out = arguments

        def place(base: Any, line: Any, row: int) -> Any:
            address = build.add(base, build.mul(line, _INT(_BYTE * row)))
            return build.inttoptr(address, vector.as_pointer())

        rows = [build.load(place(x, line, r), align=_BYTE) for r in range(lanes)]
        step = lanes // 2
        while step:  # exchange the corners of ever smaller squares
            upper = [j if not j & step else j - step + lanes for j in range(lanes)]
            lower = [j + step if not j & step else j + lanes for j in range(lanes)]
            masks = [ir.Constant(ir.VectorType(ir.IntType(32), lanes), mask) for mask in (upper, lower)]
            for r in range(lanes):
                if not r & step:
                    pair = rows[r], rows[r + step]
                    rows[r], rows[r + step] = (build.shuffle_vector(*pair, mask) for mask in masks)
            step //= 2
        for r in range(lanes):
            build.store(rows[r], place(y, out, r), align=_BYTE)
        return context.get_dummy_value()

    def transpose(typing: Any, x: Any, line: Any, y: Any, out: Any) -> Any:
        return types.void(*[types.int64] * 4), generate

    return intrinsic(transpose)


_transpose = make_transpose()


@never_inlined
def transpose_matrix(x: Scalar, rows: Scalar, line: Scalar, columns: Scalar, y: Scalar, out: Scalar) -> None:
    """Write the float32 matrix [rows, columns] at x to y as [columns, rows]; `line` and `out` count floats."""
    for i in range(0, rows, LANES):
        for j in range(0, columns, LANES):
            if i + LANES <= rows and j + LANES <= columns:
                _transpose(x + 4 * (i * line + j), line, y + 4 * (j * out + i), out)
            else:
                source, to = view_float_matrix(x, rows, line), view_float_matrix(y, columns, out)
                for k in range(i, min(i + LANES, rows)):
                    for b in range(j, min(j + LANES, columns)):
                        to[b, k] = source[k, b]


_WIDE, _HALF = make_tile(ROWS, 2), make_tile(ROWS, 1, LANES // 2)
_NARROW = [make_tile(rows, 1) for rows in range(1, ROWS + 1)]
_ONE, _TWO, _THREE, _FOUR, _FIVE, _SIX = _NARROW[:6]
_SEVEN, _WHOLE = _NARROW[min(6, ROWS - 1)], _NARROW[-1]


@never_inlined
def multiply_matrices(
    a: Scalar, row: Scalar, column: Scalar, b: Scalar, line: Scalar, c: Scalar, out: Scalar,
    m: Scalar, n: Scalar, k: Scalar, start: Scalar, step: Scalar, low: Scalar, gate: Scalar,
) -> None:  # fmt: skip
    """C = A B, [m, n] from [m, k] and [k, n], without copying; n is a multiple of `LANES`, or half of it, and then
    B and C must have room for a whole vector. See `make_tile`."""
    j = 0
    while j < n:
        vectors = 2 if n - j >= 2 * LANES else 1
        i = 0
        while i < m:
            left, right, to = a + 4 * i * row, b + 4 * j, c + 4 * (i * out + j)
            begin, shut = start + 4 * i * step, gate + 4 * (i * out + j) if gate else 0
            rows = min(m - i, ROWS)
            if rows == ROWS and vectors == 2:
                _WIDE(left, row, column, right, line, to, out, k, begin, step, low, shut)
            elif rows == ROWS and n < LANES:
                _HALF(left, row, column, right, line, to, out, k, begin, step, low, shut)
            else:
                for v in range(vectors):
                    _multiply_rows(
                        rows, left, row, column, right + 4 * LANES * v, line, to + 4 * LANES * v, out, k, begin,
                        step, low, shut + 4 * LANES * v if gate else 0,
                    )  # fmt: skip
            i += rows
        j += vectors * LANES


@never_inlined
def _multiply_rows(
    rows: Scalar, a: Scalar, row: Scalar, column: Scalar, b: Scalar, line: Scalar, c: Scalar, out: Scalar,
    k: Scalar, start: Scalar, step: Scalar, low: Scalar, gate: Scalar,
) -> None:  # fmt: skip
    """A tile of `rows` rows, one vector wide."""
    if rows == ROWS:
        _WHOLE(a, row, column, b, line, c, out, k, start, step, low, gate)
    elif rows == 1:
        _ONE(a, row, column, b, line, c, out, k, start, step, low, gate)
    elif rows == 2:
        _TWO(a, row, column, b, line, c, out, k, start, step, low, gate)
    elif rows == 3:
        _THREE(a, row, column, b, line, c, out, k, start, step, low, gate)
    elif rows == 4:
        _FOUR(a, row, column, b, line, c, out, k, start, step, low, gate)
    elif rows == 5:
        _FIVE(a, row, column, b, line, c, out, k, start, step, low, gate)
    elif rows == 6:
        _SIX(a, row, column, b, line, c, out, k, start, step, low, gate)
    else:
        _SEVEN(a, row, column, b, line, c, out, k, start, step, low, gate)


@intrinsic
def prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Start to load the memory at an index of an array (counted over all axes) before it is needed."""

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        data = make_array(signature.args[0])(context, build, arguments[0]).data
        place = build.bitcast(build.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        function = cgutils.get_or_insert_function(build.module, kind, "llvm.prefetch.p0")
        build.call(function, [place, number(0), number(3), number(1)])  # for reading, soon, data
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def increment_counter(typing: Any, counter: Any) -> Any:
    """Add one to the counter at this address, atomically; returns its value before."""

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        place = build.inttoptr(arguments[0], _INT.as_pointer())
        return build.atomic_rmw("add", place, _INT(1), "acq_rel")

    return types.int64(types.int64), generate


@intrinsic
def read_counter(typing: Any, counter: Any) -> Any:
    """The value of the counter at this address; all that was written before it was counted is visible then."""

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        place = build.inttoptr(arguments[0], _INT.as_pointer())
        return build.load_atomic(place, "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def add_to_counter(typing: Any, counter: Any, amount: Any) -> Any:
    """Add to the counter at this address, atomically."""

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        place = build.inttoptr(arguments[0], _INT.as_pointer())
        build.atomic_rmw("add", place, arguments[1], "acq_rel")
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@never_inlined
def wait_for_counter(counter: Scalar, total: Scalar) -> None:
    """Wait until the counter has reached `total`. This spins, because the threads that count are at work."""
    while read_counter(counter) < total:
        pass


@never_inlined
def finish_stage(counter: Scalar, finished: Scalar, total: Scalar) -> None:
    """Report all parts that this thread has finished, and wait until the threads together have finished `total`.

    One report for all: the counter's memory moves from core to core with every report, which takes a third of a
    microsecond where they are far apart.
    """
    if finished:
        add_to_counter(counter, finished)
    wait_for_counter(counter, total)


def _generate_view(kind: Any) -> Any:
    """Code for a view of rows and columns at an address: Numba's own view needs its memory manager."""

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        array = make_array(signature.return_type)(context, build)
        size = context.get_abi_sizeof(context.get_data_type(kind))
        data = build.inttoptr(arguments[0], context.get_data_type(kind).as_pointer())
        shape = list(arguments[1:3])
        strides = [build.mul(shape[1], _INT(size)), _INT(size)]
        populate_array(array, data=data, shape=shape, strides=strides, itemsize=_INT(size), meminfo=None)
        return array._getvalue()

    return generate


@intrinsic
def view_float_matrix(typing: Any, address: Any, rows: Any, columns: Any) -> Any:
    """View the float32 matrix at an address."""
    kind = types.Array(types.float32, 2, "C")
    return kind(*[types.int64] * 3), _generate_view(types.float32)


@intrinsic
def view_bool_matrix(typing: Any, address: Any, rows: Any, columns: Any) -> Any:
    """View the matrix of booleans at an address."""
    kind = types.Array(types.boolean, 2, "C")
    return kind(*[types.int64] * 3), _generate_view(types.boolean)


@intrinsic
def view_matrix_like(typing: Any, address: Any, rows: Any, columns: Any, like: Any) -> Any:
    """View the matrix at an address, with the dtype of another array."""
    kind = types.Array(like.dtype, 2, "C")
    return kind(*[types.int64] * 3, like), _generate_view(like.dtype)


@intrinsic
def view_float_row(typing: Any, matrix: Any, row: Any, width: Any, first: Any, count: Any) -> Any:
    """View `count` numbers, from `first` on, of a row of the float32 matrix at an address; rows are `width`
    apart."""
    kind = types.Array(types.float32, 1, "C")

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        address, line, length, begin, size = arguments
        offset = build.mul(build.add(build.mul(line, length), begin), _INT(_BYTE))
        data = build.inttoptr(build.add(address, offset), _FLOAT.as_pointer())
        array = make_array(signature.return_type)(context, build)
        populate_array(
            array, data=data, shape=[size], strides=[_INT(_BYTE)], itemsize=_INT(_BYTE), meminfo=None
        )
        return array._getvalue()

    return kind(*[types.int64] * 5), generate
