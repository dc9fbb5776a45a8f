"""How work can run: operation by operation, compiled, or as a recording that the GPU replays.

Nothing here knows what the work is: `training/backends` applies these to the parts of a training. Those parts make
it safe: static shapes and addresses, ε and learning rate as device tensors, no branch on a tensor's value, random
numbers drawn by explicit generators.
"""

from __future__ import annotations

import copyreg
import functools
import importlib
import importlib.util
import os
import shutil
import types
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

import torch

from flashdqn.compute.compile_ahead import stop_awaited
from flashdqn.compute.tool_caches import guard_tool_cache

F = TypeVar("F", bound=Callable[..., Any])

#: The first GPUs that Triton knows.
OLDEST = (7, 0)

#: The modes that a user can ask for.
Mode = Literal["auto", "eager", "compile", "native", "graph"]
#: How one gradient step is computed: by autograd, by one compiled function, or by hand-written code.
Way = Literal["eager", "compile", "native"]


@dataclass(frozen=True)
class ExecutionPlan:
    """How a training runs: the way of its gradient steps, and whether a CUDA graph holds them, or `several` whole
    iterations, which decide everything on the device."""

    way: Way
    graph: bool = False
    several: bool = False

    @property
    def mode(self) -> Mode:
        """The mode that leads to this plan."""
        return "graph" if self.graph else self.way

    def __str__(self) -> str:
        if self.several:
            return "graph of several iterations"
        if not self.graph:
            return self.way
        return "graph" if self.way == "eager" else f"graph of {self.way} updates"


def compiler_missing(device: torch.device) -> str | None:
    """Why torch.compile cannot work here; None where it can."""
    if device.type == "cuda":
        # PyTorch's own `has_triton` loads its compiler, which takes seconds and may not be needed.
        there = importlib.util.find_spec("triton") is not None
        return None if there and torch.cuda.get_device_capability(device) >= OLDEST else "there is no Triton"
    found = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    return None if found else "there is no C++ compiler (g++ or clang++)"


@functools.cache
def load_torch_compiler() -> None:
    """Import what `compiled` needs, and start the processes that compile its kernels. That takes seconds, which are
    free while another process compiles the games."""
    guard_tool_cache("inductor")
    copyreg.pickle(torch.memory_format, reduce_memory_format)
    with suppress(Exception):  # whatever is wrong with it, `compiled` says so
        importlib.import_module("torch._inductor.compile_fx")
        if torch.cuda.is_available():  # on the CPU there are no such processes
            importlib.import_module("torch._inductor.async_compile").AsyncCompile.use_process_pool()


def count_cache_hits() -> int:
    """How often PyTorch has found compiled code on disk, in this process."""
    return int(importlib.import_module("torch._dynamo.utils").counters["inductor"]["fxgraph_cache_hit"])


def reduce_memory_format(
    value: torch.memory_format,
) -> tuple[Callable[[str], torch.memory_format], tuple[str]]:
    """A memory format as data, by its name.

    PyTorch keeps compiled code under a hash of pickled data, and Python pickles these objects by the first module
    that has imported `torch`. Without this, code that one program has compiled is not found by another.
    """
    return find_memory_format, (str(value).removeprefix("torch."),)


def find_memory_format(name: str) -> torch.memory_format:
    """The memory format with a name."""
    value: torch.memory_format = getattr(torch, name)
    return value


def compiled(function: F, before: Callable[[], None] | None = None) -> F:
    """`function` compiled as a whole; the compiled code is kept on disk for the next start. `before` is called when
    PyTorch has read the function and begins to compile: it waits for a helper that compiles the same. If that was
    in vain, nobody waits for the other helpers."""
    guard_tool_cache("inductor")
    load_torch_compiler()
    # A user can do nothing about it.
    warnings.filterwarnings("ignore", message=r"\s*Online softmax is disabled")

    def compile_later(graph: Any, inputs: Any) -> Any:
        assert before is not None
        before()
        known = count_cache_hits()
        code = importlib.import_module("torch._inductor.compile_fx").compile_fx(graph, inputs)
        if count_cache_hits() == known:
            stop_awaited()
        return code

    backend = "inductor" if before is None else compile_later
    code = copy_function_code(function)
    return cast(F, torch.compile(code, fullgraph=True, dynamic=False, backend=backend))


def copy_function_code(function: F) -> F:
    """The same function or method with its own code object.

    PyTorch stores what it compiled with the code object, at most eight times: the ninth training in a process that
    compiles the same method would be refused. A copy is also freed together with its training.
    """
    plain = getattr(function, "__func__", function)
    copy = types.FunctionType(
        plain.__code__.replace(), plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__
    )
    copy.__kwdefaults__ = plain.__kwdefaults__
    return cast(F, types.MethodType(copy, function.__self__) if hasattr(function, "__self__") else copy)


class Recorder:
    """Captures functions as CUDA graphs that share memory: they are replayed one at a time, never together."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call,unused-ignore]
        self._pool: Any = None

    def rehearse(self, function: Callable[[], object]) -> None:
        """Really run it on the stream that captures later: libraries allocate their workspaces at first use."""
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            function()
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def capture(
        self, function: Callable[[], object], generators: Iterable[torch.Generator]
    ) -> Callable[[], None]:
        """Record without running; the result replays it on the current stream.

        `generators` must be exactly those that it draws from: a replay first writes the state of each.
        """
        graph = torch.cuda.CUDAGraph()
        for generator in generators:
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph, pool=self._pool, stream=self.stream, capture_error_mode="thread_local"):
            function()
        self._pool = self._pool or graph.pool()
        return graph.replay
