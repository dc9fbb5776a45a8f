"""Which device, how many threads, how much memory."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import torch

from flashdqn.compute.core_count import cores
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import describe_value

#: Stands for a limit that is not set.
UNLIMITED = 2**63
CGROUPS = Path("/sys/fs/cgroup")


def choose_device(name: str) -> torch.device:
    """The device of this name; `auto` takes CUDA where it is available."""
    if name == "cuda" and not torch.cuda.is_available():
        built = "this PyTorch build has no CUDA" if torch.version.cuda is None else "no GPU is visible"
        raise ConfigError(f"--device cuda was asked for, but {built}: use --device cpu or auto.")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name, 0) if name == "cuda" else torch.device(name)
    except (RuntimeError, TypeError):
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"The device must be cpu, cuda or auto, and is {describe_value(name)}.")
    return device


def free_bytes(device: torch.device) -> int:
    """Memory that can still be taken on a device; on the CPU what the kernel calls available."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return max(0, min(machine_free_bytes(), process_free_bytes(), group_free_bytes()))


def machine_free_bytes() -> int:
    """Memory that the machine still has."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def process_free_bytes() -> int:
    """Memory that this process may still take, as `ulimit -v` and `ulimit -d` allow."""
    try:
        import resource

        pages = list(map(int, Path("/proc/self/statm").read_text(encoding="ascii").split()))
    except (ImportError, OSError):  # not Linux
        return UNLIMITED
    page = os.sysconf("SC_PAGE_SIZE")
    limits = ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5]))
    left = [resource.getrlimit(which)[0] - used * page for which, used in limits]
    unlimited = [resource.getrlimit(which)[0] == resource.RLIM_INFINITY for which, _ in limits]
    return min((size for size, free in zip(left, unlimited, strict=True) if not free), default=UNLIMITED)


def group_free_bytes() -> int:
    """Memory that the control group of this process, a container for example, may still take."""
    free = UNLIMITED
    for line in _read_group_path():
        _, kinds, path = line.split(":", 2)
        if not kinds:
            root, names = CGROUPS, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            root = CGROUPS / "memory"
        else:
            continue
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(root):
                free = min(free, _read_group(folder, *names))
    return free


def _read_group_path() -> list[str]:
    """The control groups of this process, one for each line: number, controllers, path."""
    try:
        return Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []


def _read_group(folder: Path, most: str, used: str, cached: str) -> int:
    """What one control group may still take; files that are only cached count as free."""
    try:
        limit = (folder / most).read_text(encoding="ascii").strip()
        if limit == "max":
            return UNLIMITED
        stat = dict(
            line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        )
        taken = int((folder / used).read_text(encoding="ascii")) - int(stat.get(cached, 0))
        return int(limit) - max(0, taken)
    except (OSError, ValueError):
        return UNLIMITED


def format_bytes(count: int) -> str:
    """A size in GB, or in MB if it is small."""
    return f"{count / 1e9:,.1f} GB" if count >= 10**8 else f"{count / 1e6:.1f} MB"


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
