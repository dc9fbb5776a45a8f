"""CUDA C++ that is compiled when a program starts, by the compiler library that comes with PyTorch (NVRTC)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from flashdqn.core.errors import ExecutionError

#: cuFuncSetAttribute: how much shared memory a block may ask for.
MAX_DYNAMIC_SHARED = 8


def load_nvrtc() -> ctypes.CDLL:
    """NVRTC of PyTorch's CUDA version; ExecutionError if there is none."""
    major = str(torch.version.cuda).split(".")[0]
    for name in (f"libnvrtc.so.{major}", "libnvrtc.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    try:  # wheels bring it in a folder of their own
        from cuda.pathfinder import load_nvidia_dynamic_lib  # type: ignore[import-not-found,unused-ignore]

        return ctypes.CDLL(load_nvidia_dynamic_lib("nvrtc").abs_path)
    except (ImportError, RuntimeError, OSError) as error:
        raise ExecutionError("there is no NVRTC, the compiler library of CUDA") from error


def compile_module(source: str, options: Sequence[str]) -> bytes:
    """The machine code (cubin) of a program; ExecutionError with the compiler's words if it does not compile."""
    library = load_nvrtc()
    program = ctypes.c_void_p()
    check_nvrtc(
        library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    )
    try:
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        result = library.nvrtcCompileProgram(program, len(options), words)
        size = ctypes.c_size_t()
        if result:
            check_nvrtc(library.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
            log = ctypes.create_string_buffer(size.value)
            check_nvrtc(library.nvrtcGetProgramLog(program, log))
            raise ExecutionError(f"NVRTC does not compile this program: {log.value.decode()}")
        check_nvrtc(library.nvrtcGetCUBINSize(program, ctypes.byref(size)))
        code = ctypes.create_string_buffer(size.value)
        check_nvrtc(library.nvrtcGetCUBIN(program, code))
        return code.raw
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def check_nvrtc(result: int) -> None:
    """Raise if NVRTC reports an error."""
    if result:
        raise ExecutionError(f"NVRTC failed with error {result}")


class CudaModule:
    """Loaded machine code on the current device; its kernels run on PyTorch's current stream."""

    def __init__(self, code: bytes) -> None:
        self.device = torch.cuda.current_device()
        torch.cuda.current_stream()  # PyTorch makes the context
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._module = ctypes.c_void_p()
        self._functions: dict[str, ctypes.c_void_p] = {}
        self._check(self._driver.cuModuleLoadData(ctypes.byref(self._module), code))

    def launch(
        self, name: str, grid: int, block: int, shared: int, arguments: Sequence[Tensor | int]
    ) -> None:
        """Run a kernel; tensors are passed as addresses, numbers as int. A CUDA graph can hold it."""
        values = [
            ctypes.c_void_p(value.data_ptr()) if isinstance(value, Tensor) else ctypes.c_int(value)
            for value in arguments
        ]
        places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        sizes = grid, 1, 1, block, 1, 1, shared
        with torch.cuda.device(self.device):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            function = self._find(name, shared)
            self._check(self._driver.cuLaunchKernel(function, *sizes, stream, places, None))

    def _find(self, name: str, shared: int) -> ctypes.c_void_p:
        if name not in self._functions:
            function = ctypes.c_void_p()
            self._check(self._driver.cuModuleGetFunction(ctypes.byref(function), self._module, name.encode()))
            self._check(self._driver.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, shared))
            self._functions[name] = function
        return self._functions[name]

    def _check(self, result: int) -> None:
        if result:
            words = ctypes.c_char_p()
            self._driver.cuGetErrorString(result, ctypes.byref(words))
            raise ExecutionError(f"CUDA failed: {(words.value or b'unknown error').decode()}")
