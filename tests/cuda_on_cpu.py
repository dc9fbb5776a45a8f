"""CUDA C++ kernels without a GPU: the same source, compiled by g++ (`cuda_on_cpu.h`), instead of `CompiledCuda`."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from flashdqn.compute.nvrtc import Argument, pack_argument, write_constant

COMPILER = shutil.which("g++")
HEADER = Path(__file__).with_name("cuda_on_cpu.h")


class CudaOnCpu:
    """A kernel of a source, compiled for this processor; takes what `CompiledCuda` takes, on the CPU."""

    def __init__(
        self,
        source: str,
        function: str,
        constants: Mapping[str, int | float] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        flags = [f"-D{name}={write_constant(value)}" for name, value in (constants or {}).items()]
        flags += [option for option in options if option.startswith("-D")]
        self._run = ctypes.CDLL(build_library(source, function, tuple(flags))).run

    def __call__(self, blocks: int, threads: int, arguments: Sequence[Argument]) -> None:
        """Run all blocks, one after the other."""
        packed = [pack_argument(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(packed))(*[ctypes.addressof(value) for value in packed])
        self._run(blocks, threads, pointers)


@functools.cache
def build_library(source: str, function: str, flags: tuple[str, ...]) -> str:
    """The path of a library whose `run(blocks, threads, arguments)` launches the kernel."""
    assert COMPILER is not None
    found = re.search(rf"__global__[^(]*?(?:__launch_bounds__\([^)]*\)\s*)?{function}\(([^)]*)\)", source)
    assert found is not None, f"there is no kernel {function}"
    types = [re.sub(r"\s*\b\w+$", "", parameter.strip()) for parameter in found[1].split(",")]
    values = ", ".join(f"*({type_}*)given[{k}]" for k, type_ in enumerate(types))
    defined = "".join(f"#define {flag[2:].replace('=', ' ', 1)}\n" for flag in flags)  # after the header
    text = (
        f'#include "{HEADER}"\n{defined}{source}\nstatic void** given;\n'
        f"static void call_kernel() {{ {function}({values}); }}\n"
        'extern "C" void run(int blocks, int threads, void** arguments) {\n'
        "    given = arguments;\n    cpu::run_grid(blocks, threads, call_kernel);\n}\n"
    )
    key = hashlib.sha256("\0".join((text, HEADER.read_text())).encode()).hexdigest()[:20]
    folder = Path(tempfile.gettempdir()) / "flashdqn-cuda-on-cpu"
    folder.mkdir(exist_ok=True, mode=0o700)
    library = folder / f"{function}-{key}.so"
    if not library.exists():
        code = library.with_suffix(".cpp")
        code.write_text(text)
        made = library.with_suffix(f".{id(text)}.tmp")
        words = [COMPILER, "-O1", "-std=c++17", "-ffp-contract=off", "-shared", "-fPIC", "-w"]
        subprocess.run([*words, str(code), "-o", str(made)], check=True)
        made.rename(library)
    return str(library)
