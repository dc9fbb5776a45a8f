"""Files: whether one can be written, and reading JSON that may be missing or damaged."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from flashdqn.core.errors import ConfigError


def check_writable_file(path: Path) -> None:
    """Refuse a file that cannot be written, before there is any work to lose."""
    folder = path.resolve().parent
    if path.is_dir():
        raise ConfigError(f"'{path}' cannot be written to: it is a folder. Name a file in it.")
    if not folder.is_dir():
        raise ConfigError(f"There is no folder '{path.parent}' to write {path.name} to.")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise ConfigError(f"'{path}' cannot be written to. Name a file that can.")


def read_json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where the file is missing, damaged or not an object."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
