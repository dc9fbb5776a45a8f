"""The DataLoaders that a script goes through: how they were set, and how often they began."""

from __future__ import annotations

import functools
import sys
from time import perf_counter
from types import ModuleType
from typing import Any

from .counters import catch_failures, note_failure
from .frames import locate_script_line
from .rows import LoaderUse

loaders: dict[int, LoaderUse] = {}
"""By the loader's id."""
MOST = 32


@catch_failures
def watch_loaders(module: ModuleType) -> None:
    """Note each start of an epoch; what the loader does in it is seen by the looks."""
    original = module.DataLoader.__iter__

    @functools.wraps(original)
    def begin(self: Any) -> Any:
        start = perf_counter()
        result = original(self)
        note_epoch(self, perf_counter() - start)
        return result

    module.DataLoader.__iter__ = begin


def note_epoch(loader: Any, seconds: float) -> None:
    """Count an epoch of a loader."""
    try:
        known = loaders.get(id(loader))
        if known is None and len(loaders) >= MOST:
            return
        loaders[id(loader)] = describe_loader(loader, known, seconds)
    except Exception as error:
        note_failure(note_epoch, error)


def describe_loader(loader: Any, known: LoaderUse | None, seconds: float) -> LoaderUse:
    """A loader's settings, with one epoch more than before."""
    place = locate_script_line(sys._getframe(2))
    dataset = getattr(loader, "dataset", None)
    return LoaderUse(
        file=place[0].co_filename if place else "",
        line=place[1] if place else 0,
        workers=int(getattr(loader, "num_workers", 0) or 0),
        batch=int(getattr(loader, "batch_size", 0) or 0),
        pinned=bool(getattr(loader, "pin_memory", False)),
        persistent=bool(getattr(loader, "persistent_workers", False)),
        dataset=type(dataset).__name__,
        length=count_examples(dataset),
        epochs=(known.epochs if known else 0) + 1,
        starting=(known.starting if known else 0.0) + seconds,
    )


def count_examples(dataset: Any) -> int:
    """How many examples a dataset has; 0 where it does not know."""
    length = getattr(type(dataset), "__len__", None)
    try:
        return int(length(dataset)) if length is not None else 0
    except Exception:
        return 0
