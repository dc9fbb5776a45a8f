"""How torch is set, what the networks are made of, and how long Python collected garbage."""

from __future__ import annotations

import gc
import sys
from time import perf_counter
from typing import Any

from . import counters as tally
from .counters import note_failure
from .rows import TorchSettings

garbage = [0, 0.0]
"""Collections of the oldest generation, and seconds of all collections, since training began."""
_began = [0.0]


def watch_garbage() -> None:
    """Time the garbage collector."""
    gc.callbacks.append(note_collection)


def note_collection(phase: str, info: dict[str, int]) -> None:
    """Called before and after each collection."""
    if not tally.first_step:
        return
    if phase == "start":
        _began[0] = perf_counter()
    elif _began[0]:
        garbage[0] += info.get("generation", 0) == 2
        garbage[1] += perf_counter() - _began[0]


def describe_settings() -> TorchSettings:
    """Everything that is known now; the defaults where torch does not tell."""
    torch = sys.modules.get("torch")
    try:
        return read_settings(torch) if hasattr(torch, "backends") else TorchSettings()
    except Exception as error:  # an older torch, or one that is only half imported
        note_failure(describe_settings, error)
        return TorchSettings()


def read_settings(torch: Any) -> TorchSettings:
    """Read the settings, without waking a GPU."""
    cuda = torch.cuda.is_initialized()
    learners = [f for f in list(tally.forwards.values()) if f.graded and f.module is not None]
    learner = max(learners, key=lambda f: f.seconds, default=None)
    layers = [m for m in learner.module.modules() if hasattr(m, "in_features")] if learner is not None else []
    dtypes = (
        {str(p.dtype).rpartition(".")[2] for p in learner.module.parameters()}
        if learner is not None
        else set()
    )
    return TorchSettings(
        tf32=bool(torch.backends.cuda.matmul.allow_tf32),
        capability=torch.cuda.get_device_capability()[0] if cuda else 0,
        cudnn_benchmark=bool(torch.backends.cudnn.benchmark),
        reserved=int(torch.cuda.memory_reserved()) if cuda else 0,
        allocated=int(torch.cuda.max_memory_allocated()) if cuda else 0,
        dtypes=tuple(sorted(dtypes)),
        widths=tuple((int(m.in_features), int(m.out_features)) for m in layers[:64]),
        network=type(learner.module).__name__ if learner is not None else "",
        collections=int(garbage[0]),
        collecting=garbage[1],
    )
