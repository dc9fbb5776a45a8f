"""CUDA C++ compiled while the program runs, by NVRTC; the machine code is kept on disk like that of other kernels.

A kernel's sizes are macros (`constants`), so the compiler knows them all. The code is known by its source, the
constants, the GPU's architecture and the compiler's version (`kernel_cache` says why we keep it ourselves). NVRTC
and the driver are called through `cuda.bindings`, which comes with PyTorch's CUDA packages and with numba-cuda.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from flashdqn.compute.cache_entries import find_entry, store_entry
from flashdqn.compute.compilation import begin_compilation, end_compilation
from flashdqn.core.errors import ExecutionError

#: What a kernel can be given: a tensor becomes its address, None a null pointer, an int 32 bits, a float 32 bits.
Argument = Tensor | int | float | None | ctypes.Structure


class CompiledCuda:
    """One `extern "C"` kernel of a source, compiled for the current device and loaded.

    `shared_bytes` is the dynamic shared memory of a block. `cluster` tells that the kernel has `__cluster_dims__`
    of this size: more than 8 blocks need to be allowed. `cooperative`: all blocks must be on the GPU at once.
    """

    def __init__(
        self,
        source: str,
        function: str,
        constants: Mapping[str, int | float] | None = None,
        shared_bytes: int = 0,
        cluster: int = 0,
        cooperative: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        self.function, self.shared_bytes, self.cooperative = function, shared_bytes, cooperative
        image = compile_cuda(source, function, constants or {}, find_architecture(), options)
        driver = _import_binding("driver")
        torch.cuda.current_stream()  # makes PyTorch's context current
        torch.cuda.synchronize()
        self._module = _check(driver.cuModuleLoadData(image), "load")  # never unloaded: graphs may hold it
        self._kernel = _check(driver.cuModuleGetFunction(self._module, function.encode()), "find")
        attribute = driver.CUfunction_attribute
        if shared_bytes > 48 * 1024:
            limit = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _check(driver.cuFuncSetAttribute(self._kernel, limit, shared_bytes), "give shared memory to")
        if cluster > 8:
            allowed = attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            _check(driver.cuFuncSetAttribute(self._kernel, allowed, 1), "allow a large cluster of")
        self._launch = driver.cuLaunchCooperativeKernel if cooperative else driver.cuLaunchKernel

    def read_attribute(self, name: str) -> int:
        """A number that the driver knows about the kernel: NUM_REGS, LOCAL_SIZE_BYTES, SHARED_SIZE_BYTES, …"""
        driver = _import_binding("driver")
        which = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(_check(driver.cuFuncGetAttribute(which, self._kernel), "ask about"))

    def __call__(self, blocks: int, threads: int, arguments: Sequence[Argument]) -> None:
        """Launch on PyTorch's current stream; neither allocates nor waits, so a CUDA graph can hold it."""
        packed = [pack_argument(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(packed))(*[ctypes.addressof(value) for value in packed])
        stream = torch.cuda.current_stream().cuda_stream
        grid, address = (blocks, 1, 1, threads, 1, 1), ctypes.addressof(pointers)
        given = (self._kernel, *grid, self.shared_bytes, stream, address)
        _check(self._launch(*given) if self.cooperative else self._launch(*given, 0), "launch")


def pack_argument(argument: Argument) -> Any:
    """An argument as the bytes that the kernel reads."""
    if argument is None:
        return ctypes.c_void_p(0)
    if isinstance(argument, Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    if isinstance(argument, bool | int):
        return ctypes.c_int32(argument)
    return ctypes.c_float(argument) if isinstance(argument, float) else argument


def compile_cuda(
    source: str,
    function: str,
    constants: Mapping[str, int | float],
    architecture: str,
    options: Sequence[str] = (),
) -> bytes:
    """The machine code of a source for an architecture such as "sm_90a": from disk, or compiled now."""
    nvrtc = _import_binding("nvrtc")
    flags = [f"--gpu-architecture={architecture}", "--std=c++17", "-default-device", *options]
    flags += [f"-D{name}={write_constant(value)}" for name, value in constants.items()]
    version = _check(nvrtc.nvrtcVersion(), "ask")
    digest = hashlib.sha256(source.encode()).hexdigest()
    name, key = f"flashdqn_kernel_{function}_{digest[:16]}", f"{digest} {flags} nvrtc {version}"
    found = find_entry(name, key)
    if found is not None:
        return found
    begin_compilation(name)
    image = _run_compiler(nvrtc, source, function, flags)
    end_compilation(name)
    store_entry(name, key, image)
    return image


def write_constant(value: int | float) -> str:
    """A number as C++ source; a float as one of 32 bits, exactly."""
    return f"{float(value).hex()}f" if isinstance(value, float) else str(int(value))


def _run_compiler(nvrtc: Any, source: str, function: str, flags: list[str]) -> bytes:
    program = _check(nvrtc.nvrtcCreateProgram(source.encode(), f"{function}.cu".encode(), 0, [], []), "read")
    try:
        error, *_ = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        if int(error) != 0:
            log = bytes(_check(nvrtc.nvrtcGetProgramLogSize(program), "read the log of"))
            _check(nvrtc.nvrtcGetProgramLog(program, log), "read the log of")  # fills the bytes in place
            raise ExecutionError(
                f"The kernel {function} does not compile: {log.decode(errors='replace')[:800]}"
            )
        image = bytes(_check(nvrtc.nvrtcGetCUBINSize(program), "compile"))
        _check(nvrtc.nvrtcGetCUBIN(program, image), "compile")
        return image
    finally:
        nvrtc.nvrtcDestroyProgram(program)


@functools.cache
def find_architecture() -> str:
    """The architecture of the current GPU; on Hopper with its own instructions."""
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


@functools.cache
def explain_missing_nvrtc() -> str | None:
    """Why CUDA C++ cannot be compiled here; None if it can."""
    if not torch.cuda.is_available():
        return "there is no CUDA GPU"
    try:
        _check(_import_binding("nvrtc").nvrtcVersion(), "ask")
        _import_binding("driver")
    except Exception as error:  # the package or its library is missing, or does not fit the driver
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return (
            f"cuda.bindings with NVRTC is missing ({reason}): pip install 'cuda-bindings' 'nvidia-cuda-nvrtc'"
        )
    return None


def _import_binding(name: str) -> Any:
    return importlib.import_module(f"cuda.bindings.{name}")


def _check(answer: tuple[Any, ...], verb: str) -> Any:
    """The value of a call of the driver or of NVRTC; ExecutionError if it failed."""
    error, *values = answer
    if int(error) != 0:
        raise ExecutionError(f"CUDA cannot {verb} a kernel: {getattr(error, 'name', error)}")
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)
