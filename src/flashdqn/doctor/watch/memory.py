"""How much memory the process holds."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

STATM = Path("/proc/self/statm")


def read_resident_memory() -> int:
    """Bytes of resident memory; where the system does not say, the most there ever was."""
    try:
        return int(STATM.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def read_device_memory() -> int:
    """Bytes that torch's tensors hold on the GPU: a number that the host knows without asking the GPU."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    try:
        return int(cuda.memory_allocated()) if cuda is not None and cuda.is_initialized() else 0
    except (AttributeError, RuntimeError):
        return 0
