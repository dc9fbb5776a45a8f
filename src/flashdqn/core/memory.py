"""When memory runs out: many libraries say it, each in its own words."""

from __future__ import annotations

#: What PyTorch, CUDA, NumPy and the dynamic linker say, besides raising MemoryError.
SIGNS = (
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "out of memory",
    "std::bad_alloc",
    "unable to allocate",
    "failed to map segment",
    "can't start new thread",
    "resource temporarily unavailable",
)


def explain_shortage(error: BaseException) -> str | None:
    """One sentence if an error says that memory has run out; None if it says anything else."""
    text = " ".join(str(error).split())
    found = isinstance(error, MemoryError) or (
        isinstance(error, OSError | ImportError | RuntimeError | SystemError)
        and any(sign in text.lower() for sign in SIGNS)
    )
    if not found:
        return None
    said = f" ({text[:200]})" if text else ""
    return (
        f"There is not enough memory{said}. Make smaller what takes most of it: --replay.capacity, --envs, "
        "--eval.episodes, --network.hidden or --learn.batch-size; or allow the process more (ulimit -v); "
        "see docs/troubleshooting.md#out-of-memory."
    )
