"""Compiled functions by their address, with all their arguments in a table.

A function with twenty arrays costs Python several microseconds to call, and compiled code that calls it must have
been compiled together with it. Here every function has the same form, `f(worker, threads, table)`. The table, a row
of 64-bit words, holds an address and a shape for every array, and the bits of every number. It is made once. So
Python passes three numbers, and one kernel can call others that were compiled, and stored on disk, separately.
"""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped,unused-ignore]
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import make_array, populate_array

from flashdqn.compute.gemm import intrinsic
from flashdqn.compute.kernel_cache import load_driver, lock_driver
from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.compute.link_once import compile_driver_alone

_WORD = ir.IntType(64)
_BYTES = 8

#: How an address is called from Python.
_FOREIGN = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)

#: `TAKERS` defines the functions that read the table, `CALL` is the call of `play`.
_TABLE_DRIVER = """\
from numba import njit
from flashdqn.compute.calls import make_taker

TAKERS

@njit(nogil=True, error_model="numpy", _nrt=False)
def driver(worker, threads, table):
    CALL
"""

_CREW = """\
from numba import int64, njit, prange

@njit(parallel=True, nogil=True, error_model="numpy")
def driver(threads, mode, function, table):
    for worker in prange(threads):
        play(int64(worker), int64(threads), mode, function, table)
"""

#: How `play` is called, with the arguments of a table: by every worker, once, or for every board.
BY_WORKERS, ONCE = "play(worker, threads, {})", "play({})"
FOR_BOARDS = "for i in range({0}):\n        play(i, {1})"

IS_X86 = platform.machine().lower() in ("x86_64", "amd64")

#: The type of an argument: its name, and the number of axes; none: a number.
ArgumentType = tuple[str, int]


def make_type(name: str, axes: int) -> Any:
    """Numba's type of a number, or of an array whose rows lie one after the other."""
    number = getattr(types, name)
    return types.Array(number, axes, "C") if axes else number


def make_taker(name: str, axes: int) -> Any:
    """A function `take(table, place)` for compiled code: the argument of this type at a place of the table."""
    number, kind = make_type(name, 0), make_type(name, axes)

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        table, place = arguments

        def read(k: int) -> Any:
            address = build.add(table, build.mul(build.add(place, _WORD(k)), _WORD(_BYTES)))
            return build.load(build.inttoptr(address, _WORD.as_pointer()))

        value = context.get_data_type(number)
        if not axes:
            return build.bitcast(read(0), value) if isinstance(number, types.Float) else read(0)
        size = context.get_abi_sizeof(value)
        shape = [read(1 + axis) for axis in range(axes)]
        strides = [_WORD(size)]
        for length in reversed(shape[1:]):
            strides.insert(0, build.mul(strides[0], length))
        array = make_array(kind)(context, build)
        data = build.inttoptr(read(0), value.as_pointer())
        populate_array(array, data=data, shape=shape, strides=strides, itemsize=_WORD(size), meminfo=None)
        return array._getvalue()

    def take(typing: Any, table: Any, place: Any) -> Any:
        return kind(types.int64, types.int64), generate

    return intrinsic(take)


@intrinsic
def call_address(typing: Any, function: Any, worker: Any, threads: Any, table: Any) -> Any:
    """Call the compiled function at an address."""

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_WORD] * 3)
        build.call(build.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), generate


@intrinsic
def read_cycles(typing: Any) -> Any:
    """The processor's cycle counter: it only compares times within a call."""

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_WORD, [])
        function = cgutils.get_or_insert_function(build.module, kind, "llvm.readcyclecounter")
        return build.call(function, [])

    return types.int64(), generate


def _call_control(build: Any, name: str, value: Any) -> Any:
    """Read or write the control word of floating-point numbers, which x86 has for every thread."""
    place = cgutils.alloca_once_value(build, value)
    pointer = build.bitcast(place, ir.IntType(8).as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer()])
    build.call(cgutils.get_or_insert_function(build.module, kind, f"llvm.x86.sse.{name}"), [pointer])
    return build.load(place)


@intrinsic
def read_float_mode(typing: Any) -> Any:
    """How this thread computes: whether it flushes subnormal numbers. 0 where the processor is not x86."""

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        if not IS_X86:
            return _WORD(0)
        return build.zext(_call_control(build, "stmxcsr", ir.IntType(32)(0)), _WORD)

    return types.int64(), generate


@intrinsic
def set_float_mode(typing: Any, mode: Any) -> Any:
    """Compute as the thread does that has read this mode."""

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        if IS_X86:
            _call_control(build, "ldmxcsr", build.trunc(arguments[0], ir.IntType(32)))
        return context.get_dummy_value()

    return types.void(types.int64), generate


@inner
def call_workers(worker: Scalar, threads: Scalar, mode: Scalar, function: Scalar, table: Scalar) -> None:
    """What every thread of a crew does. It computes as the thread that asks: a thread that was started before that
    one began to flush subnormal numbers would keep them, and be slow where Adam's moments decay."""
    set_float_mode(mode)
    call_address(function, worker, threads, table)


@inner
def note_float_mode(mode: Array) -> None:
    """Write this thread's mode."""
    mode[0] = read_float_mode()


class _Crew:
    """All threads call the function at an address."""

    def __init__(self) -> None:
        self._mode = np.zeros(1, dtype=np.int64)
        self._note = AddressedKernel(note_float_mode, [("int64", 1)], ONCE).bind(self._mode)
        self._driver = load_driver(call_workers, _CREW)
        with lock_driver(self._driver), compile_driver_alone():
            self._driver.compile((numba.int64,) * 4)

    def __call__(self, threads: int, function: int, table: int) -> None:
        self._note()
        self._driver(threads, int(self._mode[0]), function, table)


@functools.cache
def load_crew() -> _Crew:
    """Compiled once for all kernels."""
    return _Crew()


def find_type(argument: Any) -> ArgumentType:
    """The type of an array whose rows lie one after the other, or of a number."""
    found = numba.typeof(argument)
    if isinstance(found, types.Array):
        assert found.layout == "C", "arrays in a table lie row by row"
        return str(found.dtype).replace("bool", "boolean"), found.ndim
    return str(found), 0


def pack_table(arguments: Sequence[Any]) -> np.ndarray[Any, Any]:
    """The table of these arguments; the arrays must live as long as it is used."""
    words: list[int] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            words += [argument.ctypes.data, *argument.shape]
        elif isinstance(argument, float):
            words.append(int(np.float64(argument).view(np.int64)))
        else:
            words.append(int(argument))
    return np.array(words, dtype=np.int64)


def find_places(kinds: Sequence[ArgumentType]) -> list[int]:
    """Where each argument begins in the table."""
    lengths = [1 + axes for _, axes in kinds]
    return [sum(lengths[:k]) for k in range(len(kinds))]


def compile_to_address(function: Callable[..., None], kinds: Sequence[ArgumentType], how: str) -> Any:
    """Compile a kernel for a table with arguments of these types, or load it from disk; returns its driver."""
    names = {kind: f"take_{kind[0]}_{kind[1]}" for kind in kinds}
    takers = [f"{name} = make_taker({kind[0]!r}, {kind[1]})" for kind, name in names.items()]
    places = find_places(kinds)
    taken = [f"{names[kind]}(table, {place})" for kind, place in zip(kinds, places, strict=True)]
    given = (taken[0], ", ".join(taken[1:])) if how == FOR_BOARDS else (", ".join(taken),)
    call = how.format(*given)
    driver = load_driver(function, _TABLE_DRIVER.replace("TAKERS", "\n".join(takers)).replace("CALL", call))
    with lock_driver(driver), compile_driver_alone():
        driver.compile((numba.int64,) * 3)
    return driver


def find_address(driver: Any) -> int:
    """The address of a compiled driver."""
    result = next(iter(driver.overloads.values()))
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name))


class AddressedKernel:
    """A compiled kernel that takes a table; arguments of one set of types."""

    def __init__(self, function: Callable[..., None], kinds: Sequence[ArgumentType], how: str) -> None:
        self.driver = compile_to_address(function, kinds, how)
        self.address = find_address(self.driver)
        self.call = _FOREIGN(self.address)

    def bind(self, *arguments: Any) -> BoundCall:
        """A call with these arguments."""
        return BoundCall(self, arguments)


class BoundCall:
    """A kernel and its table. Called from Python, with a number of threads; or from compiled code by `address` and
    `table`."""

    def __init__(self, kernel: AddressedKernel, arguments: tuple[Any, ...]) -> None:
        self.arguments, self.words = arguments, pack_table(arguments)
        self.address, self.table = kernel.address, self.words.ctypes.data
        self._call = kernel.call

    def __call__(self, threads: int = 1) -> None:
        """Call it from Python, and wait until all threads are done."""
        if threads == 1:
            self._call(0, 1, self.table)
        else:
            load_crew()(threads, self.address, self.table)
