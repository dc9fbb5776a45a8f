"""How busy the GPU is, asked of the driver's own library (NVML) once a second, beside the training.

The number is what `nvidia-smi` shows: the share of the time in which at least one kernel ran. It counts the work of
all processes on the GPU.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable
from contextlib import suppress

import torch

LIBRARY = "libnvidia-ml.so.1"
SECONDS = 1.0

#: Asks once: the use of the GPU in percent, or None if the driver does not say.
AskUsage = Callable[[], float | None]


class Rates(ctypes.Structure):
    """NVML's nvmlUtilization_t."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


def find_gpu_usage(device: torch.device) -> AskUsage | None:
    """What asks the driver about this GPU; None on a CPU, without the library, or if the driver refuses."""
    if device.type != "cuda":
        return None
    with suppress(OSError, AttributeError, RuntimeError):
        library = ctypes.CDLL(LIBRARY)
        name = f"GPU-{torch.cuda.get_device_properties(device).uuid}".encode("ascii")
        handle = ctypes.c_void_p()
        if library.nvmlInit_v2() == 0 and library.nvmlDeviceGetHandleByUUID(name, ctypes.byref(handle)) == 0:
            ask = make_question(library, handle)
            return ask if ask() is not None else None
    return None


def make_question(library: ctypes.CDLL, handle: ctypes.c_void_p) -> AskUsage:
    """The question to the library about one GPU."""

    def ask() -> float | None:
        rates = Rates()
        answer = library.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates))
        return float(rates.gpu) if answer == 0 else None

    return ask


class GpuUsage:
    """The mean use of the GPU between two reads, sampled by a thread of its own."""

    def __init__(self, ask: AskUsage, seconds: float = SECONDS) -> None:
        self._ask, self._seconds = ask, seconds
        self._samples: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="gpu-usage", daemon=True)
        self._thread.start()

    def read(self) -> float:
        """The mean since the last read, in percent; NaN if there was no sample."""
        samples, self._samples = self._samples, []
        return math.fsum(samples) / len(samples) if samples else math.nan

    def close(self) -> None:
        """End the thread."""
        self._over.set()
        self._thread.join(timeout=5.0)

    def _sample(self) -> None:
        while not self._over.wait(self._seconds):
            usage = self._ask()
            if usage is not None:
                self._samples.append(usage)


def watch_gpu(device: torch.device) -> GpuUsage | None:
    """Start to watch a GPU; None if nothing can be said about it."""
    ask = find_gpu_usage(device)
    return GpuUsage(ask) if ask is not None else None
