"""Whose code a frame runs: the libraries' plumbing, or something that a reader would want to see named."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from types import CodeType, FrameType

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


def is_plumbing(filename: str) -> bool:
    """Whether a file belongs to the standard library, to a numerical library, or to the watch itself."""
    known = _plumbing.get(filename)
    if known is None:
        known = _plumbing[filename] = _detect_plumbing(filename)
    return known


def _detect_plumbing(filename: str) -> bool:
    if filename.startswith("<") or filename.startswith(HERE):
        return True
    for folder in ("site-packages", "dist-packages"):
        _, found, rest = filename.rpartition(f"/{folder}/")
        if found:
            return rest.split("/", 1)[0] in PLUMBING
    return filename.startswith(STANDARD)


def locate_script_line(frame: FrameType | None) -> tuple[CodeType, int] | None:
    """The innermost frame that is no plumbing, as its code and line."""
    found = nearest_script_frame(frame)
    return None if found is None else (found.f_code, found.f_lineno)


def nearest_script_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that is no plumbing."""
    while frame is not None and is_plumbing(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def get_qualified_name(code: CodeType) -> str:
    """The function's name with its class's."""
    return getattr(code, "co_qualname", code.co_name)
