"""CUDA C++ compiled at run time: arguments, constants and the cache, with a stand-in for the compiler."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from cache_fixture import cache  # noqa: F401

from flashdqn.compute import nvrtc
from flashdqn.compute.cache_entries import find_entry
from flashdqn.compute.nvrtc import (
    CompiledCuda,
    compile_cuda,
    explain_missing_nvrtc,
    pack_argument,
    write_constant,
)
from flashdqn.core.errors import ExecutionError


class FakeCompiler:
    """NVRTC's functions; the "machine code" is made of the source and the options."""

    def __init__(self) -> None:
        self.calls, self.error, self.version = 0, 0, (13, 0)
        self.image = b""

    def nvrtcVersion(self) -> tuple[int, int, int]:  # noqa: N802
        return 0, *self.version

    def nvrtcCreateProgram(self, source: bytes, name: bytes, *_: Any) -> tuple[int, bytes]:  # noqa: N802
        return 0, source

    def nvrtcCompileProgram(self, program: bytes, count: int, options: list[bytes]) -> tuple[int]:  # noqa: N802
        self.calls += 1
        assert len(options) == count
        self.image = b"code of " + program + b" " + b" ".join(options)
        return (self.error,)

    def nvrtcGetProgramLogSize(self, program: bytes) -> tuple[int, int]:  # noqa: N802
        return 0, 7

    def nvrtcGetProgramLog(self, program: bytes, log: bytes) -> tuple[int]:  # noqa: N802
        ctypes.memmove(log, b"no such", 7)
        return (0,)

    def nvrtcGetCUBINSize(self, program: bytes) -> tuple[int, int]:  # noqa: N802
        return 0, len(self.image)

    def nvrtcGetCUBIN(self, program: bytes, image: bytes) -> tuple[int]:  # noqa: N802
        ctypes.memmove(image, self.image, len(self.image))
        return (0,)

    def nvrtcDestroyProgram(self, program: bytes) -> tuple[int]:  # noqa: N802
        return (0,)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> FakeCompiler:
    fake = FakeCompiler()
    monkeypatch.setattr(nvrtc, "_import_binding", lambda name: fake)
    return fake


def test_constants_are_exact() -> None:
    assert [write_constant(x) for x in (3, True, False, -7)] == ["3", "1", "0", "-7"]
    assert float.fromhex(write_constant(0.1).removesuffix("f")) == 0.1


def test_arguments_are_packed_as_the_kernel_reads_them() -> None:
    tensor = torch.zeros(3)
    assert pack_argument(tensor).value == tensor.data_ptr()
    assert pack_argument(None).value is None
    assert isinstance(pack_argument(5), ctypes.c_int32)
    assert isinstance(pack_argument(0.5), ctypes.c_float)
    struct = type("Pair", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_int)]})(3)
    assert pack_argument(struct) is struct


@pytest.mark.usefixtures("cache")
def test_code_is_compiled_once_for_each_source_constants_architecture_and_version(
    compiler: FakeCompiler,
) -> None:
    first = compile_cuda("source", "kernel", {"N": 1}, "sm_90a")
    assert compile_cuda("source", "kernel", {"N": 1}, "sm_90a") == first
    assert compiler.calls == 1
    for again in (
        ("other", {"N": 1}, "sm_90a"),
        ("source", {"N": 2}, "sm_90a"),
        ("source", {"N": 1}, "sm_80"),
    ):
        compile_cuda(again[0], "kernel", again[1], again[2])
    assert compiler.calls == 4
    compiler.version = (13, 1)
    compile_cuda("source", "kernel", {"N": 1}, "sm_90a")
    assert compiler.calls == 5


def test_a_damaged_file_is_compiled_again(
    cache: Path,  # noqa: F811
    compiler: FakeCompiler,
) -> None:
    first = compile_cuda("source", "kernel", {}, "sm_90a")
    (file,) = cache.glob("flashdqn_kernel_kernel_*.kernel")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert compile_cuda("source", "kernel", {}, "sm_90a") == first
    assert compiler.calls == 2
    assert find_entry("kernel", "nothing") is None


@pytest.mark.usefixtures("cache")
def test_what_does_not_compile_says_so(compiler: FakeCompiler) -> None:
    compiler.error = 6
    with pytest.raises(ExecutionError, match="kernel does not compile: no such"):
        compile_cuda("source", "kernel", {}, "sm_90a")


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str) -> Any:
        raise ImportError("No module named 'cuda'")

    monkeypatch.setattr(nvrtc, "_import_binding", find_nothing)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    explain_missing_nvrtc.cache_clear()
    try:
        assert "cuda.bindings with NVRTC is missing (No module named 'cuda')" in str(explain_missing_nvrtc())
    finally:
        explain_missing_nvrtc.cache_clear()


def test_a_failed_call_of_the_driver_is_one_sentence() -> None:
    failed = type("Failed", (), {"__int__": lambda self: 1, "name": "CUDA_ERROR_INVALID_VALUE"})()
    with pytest.raises(ExecutionError, match="CUDA cannot launch a kernel: CUDA_ERROR_INVALID_VALUE"):
        nvrtc._check((failed,), "launch")


@pytest.mark.parametrize("cooperative", [False, True])
def test_a_launch_names_kernel_grid_memory_stream_and_arguments(
    monkeypatch: pytest.MonkeyPatch, cooperative: bool
) -> None:
    seen: list[Any] = []

    def launch(kernel: Any, *numbers: int) -> tuple[int]:
        arguments = (ctypes.c_void_p * 2).from_address(numbers[8])
        values = (
            ctypes.c_int32.from_address(arguments[0]).value,
            ctypes.c_float.from_address(arguments[1]).value,
        )
        seen.append((kernel, numbers[:8], numbers[9:], values))
        return (0,)

    kernel = CompiledCuda.__new__(CompiledCuda)
    kernel._kernel, kernel._launch, kernel.cooperative, kernel.shared_bytes = (
        "kernel",
        launch,
        cooperative,
        64,
    )
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=9))
    kernel(3, 32, [7, 0.5])
    extra = () if cooperative else (0,)  # the driver's other way to give arguments
    assert seen == [("kernel", (3, 1, 1, 32, 1, 1, 64, 9), extra, (7, 0.5))]


@pytest.mark.skipif(explain_missing_nvrtc() is not None, reason="needs CUDA and NVRTC")
def test_a_kernel_runs_on_cuda_and_in_a_graph() -> None:
    source = """extern "C" __global__ void add(float* x, int n, float y) {
      if (threadIdx.x < n) x[threadIdx.x] += y * SCALE;
    }"""
    kernel = CompiledCuda(source, "add", {"SCALE": 2.0})
    x = torch.zeros(8, device="cuda")
    kernel(1, 32, [x, 5, 0.5])
    assert x.tolist() == [1.0] * 5 + [0.0] * 3
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(1, 32, [x, 8, 0.5])
    graph.replay()
    assert x.tolist() == [2.0] * 5 + [1.0] * 3
