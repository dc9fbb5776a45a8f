"""Games written once, as plain scalar Python for one board; compiled for CPU threads and for CUDA threads.

How to write a game of your own:

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
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np
import torch
from torch import Tensor

from flashdqn.envs.kernel_cache import load_driver
from flashdqn.errors import EnvError

#: a number inside a kernel, whose exact type Numba infers
Scalar: TypeAlias = Any
#: a NumPy or CUDA array inside a kernel
Array: TypeAlias = Any

F = TypeVar("F", bound=Callable[..., Any])

# Waking threads costs more than so few boards take. The work-queue layer, Numba's last resort,
# costs some 100 µs per launch where OpenMP costs 2.
PARALLEL_FROM = 64
PARALLEL_FROM_WORKQUEUE = 4096

_CPU_DRIVER = """\
from numba import njit, prange

@njit({options}cache=True, nogil=True, error_model="numpy", _nrt=False)
def driver(n, {arguments}):
    for i in {range}(n):
        play(i, {arguments})
"""

_CUDA_DRIVER = """\
from numba import cuda

@cuda.jit(cache=True, fastmath=False)
def driver(n, {arguments}):
    i = cuda.grid(1)
    if i < n:
        play(i, {arguments})
"""


def scalar(function: F) -> F:
    """Mark a function as kernel code: compiled where a kernel calls it, for the CPU and for CUDA alike."""
    compiled: F = numba.njit(nogil=True, error_model="numpy", forceinline=True, _nrt=False)(function)
    return compiled


def board_tensor(
    num_boards: int, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str
) -> Tensor:
    """Zeros [num_boards, *shape] for state that kernels index as `x[i, …]`, laid out for the device.

    On the CPU a board's numbers lie together. On CUDA the board is the last axis in memory, so that
    neighbouring threads touch neighbouring addresses; the tensor is a view with the board in front.
    """
    if torch.device(device).type == "cuda":
        return torch.zeros(*shape, num_boards, dtype=dtype, device=device).movedim(-1, 0)
    return torch.zeros(num_boards, *shape, dtype=dtype, device=device)


class Kernel:
    """A game's per-board function, `play(i, *arrays)`, that can be bound to tensors and launched."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function

    def bind(self, num_boards: int, *tensors: Tensor) -> Callable[[], None]:
        """Compile for these tensors (or load from disk) and return a launch that takes no arguments.

        All tensors must lie on one device and keep their storage for as long as the launch is used.
        Binding runs no board. On CUDA a launch goes to torch's current stream, hence into a CUDA graph
        where one is being captured.
        """
        devices = {tensor.device for tensor in tensors}
        if len(devices) != 1:
            raise EnvError(
                f"A kernel needs all its tensors on one device; they lie on {sorted(map(str, devices))}. "
                "Make them all with the same `device`."
            )
        device = devices.pop()
        if device.type == "cpu":
            return self._bind_cpu(num_boards, tensors)
        if device.type == "cuda":
            return self._bind_cuda(num_boards, tensors, device)
        raise EnvError(f"Kernels run on cpu and cuda, not on {device}; put the environment on the CPU.")

    def _bind_cpu(self, num_boards: int, tensors: tuple[Tensor, ...]) -> Callable[[], None]:
        options, loop = ("parallel=True, ", "prange") if _use_threads(num_boards) else ("", "range")
        source = _CPU_DRIVER.format(options=options, range=loop, arguments=_arguments(tensors))
        driver = load_driver(self.function, source)
        arrays = [tensor.numpy() for tensor in tensors]
        driver.compile((numba.int64, *map(numba.typeof, arrays)))
        return functools.partial(driver, num_boards, *arrays)

    def _bind_cuda(
        self, num_boards: int, tensors: tuple[Tensor, ...], device: torch.device
    ) -> Callable[[], None]:
        if not cuda_available():
            raise EnvError(
                "A kernel on CUDA needs numba-cuda, which cannot be used here. Install `flashdqn[cuda]`, "
                "or put the environment on the CPU: the learner may stay on CUDA."
            )
        driver = load_driver(self.function, _CUDA_DRIVER.format(arguments=_arguments(tensors)))
        return _CudaLaunch(driver, num_boards, tensors, device)


class _CudaLaunch:
    """Launches a CUDA driver on torch's current stream; one prepared configuration per stream."""

    def __init__(
        self, driver: Any, num_boards: int, tensors: tuple[Tensor, ...], device: torch.device
    ) -> None:
        self.func = driver
        self._tensors = tensors  # the device arrays below do not own their memory
        self._device = device
        # Few boards are spread over many multiprocessors, a warp each: a step is as slow as its slowest block.
        self._threads = 32 if num_boards < 8192 else 128
        self._blocks = -(-num_boards // self._threads)
        self._configured: dict[int, Any] = {}
        with torch.cuda.device(device):
            cuda = _import_numba_cuda()
            self._arguments = [num_boards, *map(cuda.as_cuda_array, tensors)]
            # No board is < 0: this compiles and loads the module, and runs nothing.
            self._on_stream(torch.cuda.current_stream(device).cuda_stream)(0, *self._arguments[1:])

    def __call__(self) -> None:
        stream = torch.cuda.current_stream(self._device).cuda_stream
        (self._configured.get(stream) or self._on_stream(stream))(*self._arguments)

    def _on_stream(self, stream: int) -> Any:
        cuda = _import_numba_cuda()
        with warnings.catch_warnings():
            # A small grid is what the user asked for; Numba would warn of low occupancy.
            warnings.simplefilter("ignore")
            configured = self.func[self._blocks, self._threads, cuda.external_stream(stream)]
        self._configured[stream] = configured
        return configured


def _arguments(tensors: tuple[Tensor, ...]) -> str:
    return ", ".join(f"a{k}" for k in range(len(tensors)))


def _use_threads(num_boards: int) -> bool:
    """Whether a parallel loop over so many boards is worth its launch."""
    if num_boards < PARALLEL_FROM or numba.get_num_threads() == 1:
        return False
    # get_num_threads() has started the threads, so that the layer is known.
    return num_boards >= PARALLEL_FROM_WORKQUEUE or numba.threading_layer() != "workqueue"


@functools.cache
def cuda_available() -> bool:
    """Whether kernels can run on CUDA: torch sees a GPU, and numba-cuda is installed and works with it."""
    if not torch.cuda.is_available() or importlib.util.find_spec("numba_cuda") is None:
        return False
    try:
        return bool(_import_numba_cuda().is_available())
    except Exception:  # whatever stops numba-cuda from loading, the games still run on the CPU
        return False


@functools.cache
def _import_numba_cuda() -> Any:
    # numba-cuda 0.30 asks for np.row_stack, which NumPy 2.5 no longer has.
    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # type: ignore[attr-defined]
    return importlib.import_module("numba.cuda")
