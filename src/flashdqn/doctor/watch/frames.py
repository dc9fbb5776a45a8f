"""Whose code a frame runs: a library's plumbing, the watch's own, or code that a reader wants to see."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from .kinds import Owner, Phase
from .rows import Frame

HERE = str(Path(__file__).resolve().parent)
STANDARD = (sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["platstdlib"])
#: Packages whose own lines say nothing about what is wrong with a training.
PLUMBING = (
    *("torch", "numpy", "gymnasium", "gym", "numba", "jax", "jaxlib", "flax", "optax", "scipy", "pandas"),
    *(
        "tensorboard",
        "tensorboardX",
        "wandb",
        "mlflow",
        "tqdm",
        "rich",
        "matplotlib",
        "cloudpickle",
        "tensordict",
    ),
    *("triton", "llvmlite", "functorch", "torchgen", "tyro", "typeguard", "beartype", "jaxtyping", "sensai"),
)

_plumbing: dict[str, bool] = {}
_stand_ins: dict[CodeType, Phase] = {}


def stand_in_for(phase: Phase) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a function that the watch puts in the place of another: its frame on the script's stack shows the phase.

    The code is marked, not the function: the function may be pickled, and every copy of it shares its code.
    """

    def mark(stand_in: Any) -> Callable[..., Any]:
        _stand_ins[stand_in.__code__] = phase
        return stand_in  # type: ignore[no-any-return]

    return mark


def describe_frame(code: CodeType, line: int, since: int = 0) -> Frame:
    """A frame, for the record."""
    file, phase = code.co_filename, None
    if file.startswith(HERE):
        owner, phase = Owner.WATCH, _stand_ins.get(code)
    else:
        owner = Owner.PLUMBING if is_plumbing(file) else Owner.SCRIPT
    return Frame(file, get_qualified_name(code), line, owner, phase, since if since != line else 0)


def is_plumbing(filename: str) -> bool:
    """Whether a file belongs to the standard library, to a numerical library, or to the watch itself."""
    known = _plumbing.get(filename)
    if known is None:
        known = _plumbing[filename] = _detect_plumbing(filename)
    return known


def _detect_plumbing(filename: str) -> bool:
    if filename.startswith("<ipython-input"):
        return False
    if filename.startswith("<") or filename.startswith(HERE):
        return True
    for folder in ("site-packages", "dist-packages"):
        _, found, rest = filename.rpartition(f"/{folder}/")
        if found:
            return rest.split("/", 1)[0] in PLUMBING
    return filename.startswith(STANDARD)


def locate_script_line(frame: FrameType | None) -> tuple[CodeType, int] | None:
    """The innermost frame that is not plumbing, as its code and line."""
    found = nearest_script_frame(frame)
    return None if found is None else (found.f_code, found.f_lineno)


def nearest_script_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that is not plumbing."""
    while frame is not None and is_plumbing(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def get_qualified_name(code: CodeType) -> str:
    """The function's name, with its class."""
    return getattr(code, "co_qualname", code.co_name)
