"""Which Python runs the script: the doctor's own where it has torch, and otherwise that of the environment."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path


def find_python() -> str:
    """The interpreter to run a script with, where the user names none."""
    if importlib.util.find_spec("torch") is not None:
        return sys.executable
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = os.environ.get(variable)
        python = Path(folder) / "bin" / "python" if folder else None
        if python is not None and python.is_file():
            return str(python)
    return shutil.which("python") or shutil.which("python3") or sys.executable
