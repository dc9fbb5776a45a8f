"""Which device, how many threads, how much memory."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import torch

from flashdqn.compute.threads import cores
from flashdqn.core.errors import ConfigError


def choose_device(name: str) -> torch.device:
    """The device of this name; `auto` takes CUDA where it is available."""
    if name == "cuda" and not torch.cuda.is_available():
        built = "this PyTorch build has no CUDA" if torch.version.cuda is None else "no GPU is visible"
        raise ConfigError(f"--device cuda was asked for, but {built}: use --device cpu or auto.")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name, 0) if name == "cuda" else torch.device(name)


def free_bytes(device: torch.device) -> int:
    """Memory that can still be taken on a device; on the CPU what the kernel calls available."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def synchronize_device(device: torch.device) -> None:
    """Wait until the device has finished all its work: needed where a clock starts or stops."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def used_bytes(device: torch.device) -> int:
    """Memory that this process holds: on CUDA what PyTorch has allocated there, otherwise what is resident."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
    except OSError:
        return 0


def describe_hardware(device: torch.device) -> dict[str, Any]:
    """The hardware and the versions that a measurement belongs to."""
    import numba
    import numpy

    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else _cpu_name(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "numba": numba.__version__,
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
