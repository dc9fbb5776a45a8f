"""Games written once, as plain scalar Python for one board; compiled for CPU threads and for CUDA threads.

How to write your own game:

1. Keep its state in torch tensors with the board as the first axis: `board_tensor(num_boards, shape, …)`.
2. Write helpers with `@scalar`: plain Python on numbers and on `array[i, k]`, no allocation, no exceptions.
3. Write one function `play(i, *arrays)` that moves board `i`, and wrap it: `Kernel(play)`.
4. `launch = kernel.bind(num_boards, *tensors)` compiles it for these tensors' device, dtypes and layouts;
   `launch()` then plays all boards. Nothing is copied: a launch reads and writes the tensors themselves.

The smallest whole game, a counter that jumps by a die::

    @scalar
    def play(i, total, rng):
        total[i] += 1 + below(random_bits(rng[i, 0], rng[i, 1]), 6)
        rng[i, 1] += 1

    launch = Kernel(play).bind(256, total, rng)
    launch()

For CPU and CUDA to agree bit by bit, avoid `a * b + c` in floats, which CUDA contracts to one rounding:
divide or multiply once, or look values up in a table made on the host.

Compiled code is kept on disk by `kernel_cache`, and compiled only in `bind`, never in a training loop.
"""

from __future__ import annotations

import functools
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np
import torch
from torch import Tensor

from flashdqn.compute.kernel_cache import load_driver, lock_driver
from flashdqn.compute.link_once import compile_driver_alone
from flashdqn.core.errors import EnvError

#: a number inside a kernel, whose exact type Numba infers
Scalar: TypeAlias = Any
#: a NumPy or CUDA array inside a kernel
Array: TypeAlias = Any

F = TypeVar("F", bound=Callable[..., Any])

# The work-queue layer, Numba's last resort, costs some 100 µs per launch where OpenMP costs 2.
PARALLEL_FROM_WORKQUEUE = 4096

#: Boards on CUDA that are played in blocks of one.
SPREAD = 512

# No reference counts: a kernel owns nothing, and atomic adds would cost more than most games.
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}

_SERIAL_DRIVER = f"""\
from numba import njit

@njit(**{_OPTIONS})
def driver(n, ARGUMENTS):
    for i in range(n):
        play(i, ARGUMENTS)
"""

# In chunks: prange keeps counting references in its loop body, so there is one call per chunk.
_PARALLEL_DRIVER = f"""\
from numba import int64, njit, prange

@njit(**{_OPTIONS})
def play_chunk(start, stop, ARGUMENTS):
    for i in range(start, stop):
        play(i, ARGUMENTS)

@njit(parallel=True, **{_OPTIONS})
def driver(n, chunk, ARGUMENTS):
    for c in prange((n + chunk - 1) // chunk):
        start = int64(c) * chunk
        play_chunk(start, min(start + chunk, n), ARGUMENTS)
"""

_CUDA_DRIVER = """\
from numba import cuda

@cuda.jit(fastmath=False)
def driver(n, ARGUMENTS):
    i = cuda.grid(1)
    if i < n:
        play(i, ARGUMENTS)
"""

_BLOCK_DRIVER = """\
from numba import cuda

@cuda.jit(fastmath=False)
def driver(n, ARGUMENTS):
    i = cuda.blockIdx.x
    if i < n:
        play(i, cuda.threadIdx.x, cuda.blockDim.x, ARGUMENTS)
"""


def scalar(function: F) -> F:
    """Mark a function as kernel code: compiled where a kernel calls it, for the CPU and for CUDA."""
    compiled: F = numba.njit(**_OPTIONS, forceinline=True)(function)
    return compiled


def inner(function: F) -> F:
    """Like `scalar`, for functions that only kernels call, never Python. Where they take many arrays, that halves
    the time to compile."""
    options = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiled: F = numba.njit(**options, forceinline=True)(function)
    return compiled


def board_tensor(
    num_boards: int, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str
) -> Tensor:
    """Zeros [num_boards, *shape] for state that kernels index as `x[i, …]`, laid out for the device.

    On the CPU the numbers of a board lie together. On CUDA the board is the last axis in memory, so
    neighboring threads touch neighboring addresses; the tensor is a view with the board in front.
    """
    if torch.device(device).type == "cuda":
        return torch.zeros(*shape, num_boards, dtype=dtype, device=device).movedim(-1, 0)
    return torch.zeros(num_boards, *shape, dtype=dtype, device=device)


_skipped = False


@contextmanager
def skip_kernels() -> Iterator[None]:
    """Within it skippable kernels are bound to nothing: for an environment that is only asked for its sizes."""
    global _skipped
    before, _skipped = _skipped, True
    try:
        yield
    finally:
        _skipped = before


class Kernel:
    """A game's per-board function, `play(i, *arrays)`, which can be bound to tensors and launched.

    With `parallel_from` boards or more, the CPU plays them in threads. A launch with threads costs a few µs when
    the cores are idle, but milliseconds when another process holds one. So set a high number for a light game.
    """

    def __init__(
        self, function: Callable[..., None], parallel_from: int = 64, skippable: bool = False
    ) -> None:
        """`skippable`: nothing but the games themselves depends on it (see `skip_kernels`)."""
        self.function = function
        self.parallel_from = parallel_from
        self.skippable = skippable

    def bind(self, num_boards: int, *tensors: Tensor) -> Callable[[], None]:
        """Compile for these tensors (or load from disk) and return a launch that takes no arguments.

        All tensors must lie on one device and keep their storage for as long as the launch is used.
        Binding does not run any board. On CUDA a launch goes to torch's current stream, and so into a CUDA graph
        where one is being captured.
        """
        devices = {tensor.device for tensor in tensors}
        if len(devices) != 1:
            raise EnvError(
                f"A kernel needs all its tensors on one device; they lie on {sorted(map(str, devices))}. "
                "Make them all with the same `device`."
            )
        device = devices.pop()
        if _skipped and self.skippable:
            return lambda: None
        if device.type == "cpu":
            return self._bind_cpu(num_boards, tensors)
        if device.type == "cuda":
            return self._bind_cuda(num_boards, tensors, device)
        raise EnvError(f"Kernels run on cpu and cuda, not on {device}; put the environment on the CPU.")

    def _bind_cpu(self, num_boards: int, tensors: tuple[Tensor, ...]) -> Callable[[], None]:
        arrays = [tensor.numpy() for tensor in tensors]
        threads = self._worthwhile_threads(num_boards)
        if threads == 1 and self._is_own and all(array.flags.c_contiguous for array in arrays):
            return bind_boards(self.function, num_boards, arrays)  # also for compiled code that calls it
        if threads == 1:
            template, counts = _SERIAL_DRIVER, [num_boards]
        else:
            template, counts = _PARALLEL_DRIVER, [num_boards, -(-num_boards // threads)]
        driver = _load(self.function, template, len(tensors))
        with lock_driver(driver), compile_driver_alone():
            driver.compile((*[numba.int64] * len(counts), *map(numba.typeof, arrays)))
        return functools.partial(driver, *counts, *arrays)

    @property
    def _is_own(self) -> bool:
        """Whether it is one of ours. A user's game may raise an exception, which only Numba's own calls pass on."""
        plain = getattr(self.function, "py_func", self.function)
        return str(plain.__module__).startswith("flashdqn.")

    def _worthwhile_threads(self, num_boards: int) -> int:
        before = torch.get_num_threads()
        threads = int(numba.get_num_threads())  # if it starts OpenMP's threads, PyTorch's number changes too
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)
        if threads == 1 or num_boards < self.parallel_from:
            return 1
        # get_num_threads() has started the threads, so the layer is known.
        if numba.threading_layer() == "workqueue" and num_boards < PARALLEL_FROM_WORKQUEUE:
            return 1
        return threads

    def _bind_cuda(
        self, num_boards: int, tensors: tuple[Tensor, ...], device: torch.device
    ) -> Callable[[], None]:
        if not cuda_available():
            raise EnvError(
                "A kernel on CUDA needs numba-cuda, which cannot be used here. Install `flashdqn[cuda]`, "
                "or put the environment on the CPU: the learner may stay on CUDA."
            )
        driver = _load(self.function, _CUDA_DRIVER, len(tensors))
        return _CudaLaunch(driver, num_boards, tensors, device)


def bind_boards(
    function: Callable[..., None], num_boards: int, arrays: list[np.ndarray[Any, Any]]
) -> Callable[[], None]:
    """A launch of a game's function by one thread, as a `calls.BoundCall`."""
    from flashdqn.compute.calls import FOR_BOARDS, AddressedKernel, find_type

    arguments = (num_boards, *arrays)
    return AddressedKernel(function, list(map(find_type, arguments)), FOR_BOARDS).bind(*arguments)


class BlockKernel:
    """A function only for CUDA, `play(i, thread, threads, *arrays)`: a block of threads works on each board.

    For work that is slow with one thread per board. The threads of a block meet at `cuda.syncthreads()`; the
    function and all that it calls are marked with `cuda.jit(device=True)`, where `cuda` is `import_numba_cuda()`.
    """

    def __init__(self, function: Callable[..., None], threads: int) -> None:
        self.function, self.threads = function, threads

    def bind(self, num_boards: int, *tensors: Tensor) -> Callable[[], None]:
        """Like `Kernel.bind`, for tensors on one CUDA device. It is always skippable."""
        if _skipped:
            return lambda: None
        driver = _load(self.function, _BLOCK_DRIVER, len(tensors))
        return _CudaLaunch(driver, num_boards, tensors, tensors[0].device, self.threads)


class _CudaLaunch:
    """Launches a CUDA driver on torch's current stream; one prepared configuration per stream.

    It uses one thread per board or, if `threads` is given, a block of `threads` threads.
    """

    def __init__(
        self,
        driver: Any,
        num_boards: int,
        tensors: tuple[Tensor, ...],
        device: torch.device,
        threads: int | None = None,
    ) -> None:
        self.func = driver
        self._tensors = tensors  # the device arrays below do not own their memory
        self._device = device
        self._threads = threads or choose_block_size(num_boards)
        self._blocks = num_boards if threads else -(-num_boards // self._threads)
        self._configured: dict[int, Any] = {}
        with torch.cuda.device(device):
            cuda = import_numba_cuda()
            self._arguments = [num_boards, *map(cuda.as_cuda_array, tensors)]
            # No board is < 0: this compiles and loads the module, but runs nothing.
            with lock_driver(driver):
                self._on_stream(torch.cuda.current_stream(device).cuda_stream)(0, *self._arguments[1:])

    def __call__(self) -> None:
        stream = torch.cuda.current_stream(self._device).cuda_stream
        (self._configured.get(stream) or self._on_stream(stream))(*self._arguments)

    def _on_stream(self, stream: int) -> Any:
        cuda = import_numba_cuda()
        with warnings.catch_warnings():
            # The user asked for a small grid; Numba would warn of low occupancy.
            warnings.simplefilter("ignore")
            configured = self.func[self._blocks, self._threads, cuda.external_stream(stream)]
        self._configured[stream] = configured
        return configured


def choose_block_size(num_boards: int) -> int:
    """Boards of a block, one thread each. Boards of a warp wait for each other where they take different ways, so
    few boards are spread over all multiprocessors; many fill them anyway."""
    if num_boards >= 8192:
        return 128
    return max(1, min(32, num_boards // SPREAD))


def _load(function: Callable[..., None], template: str, num_arrays: int) -> Any:
    """The driver of a function that takes `num_arrays` arrays."""
    arguments = ", ".join(f"a{k}" for k in range(num_arrays))
    return load_driver(function, template.replace("ARGUMENTS", arguments))


@functools.cache
def cuda_available() -> bool:
    """Whether kernels can run on CUDA: torch sees a GPU, and numba-cuda is installed and works with it."""
    if not torch.cuda.is_available() or importlib.util.find_spec("numba_cuda") is None:
        return False
    try:
        return bool(import_numba_cuda().is_available())
    except Exception:  # numba-cuda may fail in many ways; the games still run on the CPU
        return False


@functools.cache
def import_numba_cuda() -> Any:
    """The module `numba.cuda`."""
    # numba-cuda 0.30 asks for np.row_stack, which NumPy 2.5 no longer has.
    if not hasattr(np, "row_stack"):
        vars(np)["row_stack"] = np.vstack
    with warnings.catch_warnings():
        # What numba-cuda warns of while it loads does not concern the user, even where warnings are errors.
        warnings.simplefilter("ignore")
        return importlib.import_module("numba.cuda")
