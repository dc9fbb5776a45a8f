"""The output folder, in which every run gets a folder of its own."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from flashdqn.core.errors import ConfigError, FlashDQNError, StorageError
from flashdqn.core.files import DISK_ERRORS

#: Runs that start in the same second are numbered up to here; after that a random number tells them apart.
NUMBERED = 10


def check_output_folder(out: str) -> None:
    """Refuse an output folder that cannot be written, before anything is computed; nothing is made yet."""
    path = Path(out)
    try:
        there = next(folder for folder in (path, *path.parents) if folder.exists())
    except OSError as error:
        raise make_unwritable_error(out, error) from None
    if not there.is_dir():
        raise make_unwritable_error(out, NotADirectoryError(20, "Not a directory"))
    if not os.access(there, os.W_OK | os.X_OK):
        raise make_unwritable_error(out, PermissionError(13, "Permission denied"))


def make_run_folder(out: Path, name: str) -> Path:
    """A new folder; runs that start in the same second get different names."""
    numbers = ["", *(f"-{number}" for number in range(1, NUMBERED))]
    for suffix in (*numbers, *(f"-{secrets.token_hex(4)}" for _ in range(NUMBERED))):
        path = out / f"{name}{suffix}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise FileExistsError(17, f"{name} and its like exist already")


def make_unwritable_error(out: str, error: OSError) -> FlashDQNError:
    """The error for an output folder that cannot be written: the user's choice, or the disk is full or broken."""
    kind = StorageError if error.errno in DISK_ERRORS else ConfigError
    return kind(f"The output folder {out} cannot be written: {error.strerror}. Choose another with --out.")
