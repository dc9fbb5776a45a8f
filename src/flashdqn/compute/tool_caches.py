"""The caches of other compilers (torch.compile's inductor, Triton): kept in our folder, and checked like our files.

These tools execute what they find, and some of it is believed unchecked: a truncated library ends the process. So a
list of all their files with checksums lies beside each folder. It is checked before a process uses the folder, and
written again after the warm-up and at the end. Files that the list does not know were left by a killed process and
are removed; if a listed file has changed, the folder is emptied. A folder that another process uses was checked by
that process, and is taken as it is.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from flashdqn.compute.cache_entries import remove_item
from flashdqn.compute.cache_folder import (
    explain_distrust,
    find_cache_folder,
    make_private_folder,
    make_temporary_folder,
    say_once,
)
from flashdqn.core.files import (
    hash_plain_file,
    is_plain_folder,
    make_refusal,
    open_plain_file,
    read_json_object,
    write_signed_json,
)

if sys.platform != "win32":
    import fcntl

#: The variable that tells each tool its folder. If the user has set it, we leave the tool alone.
VARIABLES = {"inductor": "TORCHINDUCTOR_CACHE_DIR", "triton": "TRITON_CACHE_DIR"}

#: What the user has set. It is read now, because PyTorch sets its variable itself, to a folder in /tmp.
_asked = {variable for variable in VARIABLES.values() if os.environ.get(variable)}
#: The folder of each tool in this process.
_chosen: dict[str, str] = {}

#: How long to wait for a process that checks a folder.
LOCK_SECONDS = 30.0

#: The folders that this process uses, with the handles of their locks.
_guarded: dict[Path, int] = {}


def guard_tool_cache(tool: str) -> None:
    """Give a tool a private, checked folder; a temporary one if ours cannot be used. Call it before the tool
    compiles anything."""
    variable = VARIABLES[tool]
    if variable in _asked or (tool in _chosen and os.environ.get(variable) == _chosen[tool]):
        return
    try:
        if tool not in _chosen:
            _chosen[tool] = str(find_checked_folder(tool) or make_temporary_folder())
        os.environ[variable] = _chosen[tool]
    except OSError:  # nowhere to write at all: the tool may know a place
        os.environ.pop(variable, None)


def find_checked_folder(tool: str) -> Path | None:
    """Our folder for a tool, checked and locked against removal; None if it cannot be used."""
    above = find_cache_folder()
    if above is None:
        return None
    folder = above / f"flashdqn_{tool}"
    try:
        handle, alone = lock_folder(folder)
    except (OSError, NameError):  # there are no locks here
        return None
    try:
        prepare_folder(folder, alone)
        fcntl.flock(handle, fcntl.LOCK_SH)  # never waits: it was ours alone, or is shared already
    except OSError:  # a disk that is full or read-only
        os.close(handle)
        return None
    if not _guarded:
        atexit.register(record_tool_caches)
    _guarded[folder] = handle
    return folder


def prepare_folder(folder: Path, alone: bool) -> None:
    """Make a tool's folder private and, if nobody else uses it, remove what cannot be believed; OSError if the
    folder cannot be used."""
    if alone and not is_plain_folder(folder):
        remove_item(folder)
    make_private_folder(folder)
    reason = explain_distrust(folder)
    if reason or not is_plain_folder(folder) or not os.access(folder, os.W_OK):
        raise make_refusal(folder, reason or "cannot be written to")
    if alone:
        remove_damage(folder)


def lock_folder(folder: Path) -> tuple[int, bool]:
    """A handle that marks a folder as used, and whether nobody else uses it; then the lock is exclusive."""
    handle = open_plain_file(folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, mode=0o600)
    stop = time.monotonic() + LOCK_SECONDS
    try:
        while True:
            for kind in (fcntl.LOCK_EX, fcntl.LOCK_SH):
                with suppress(BlockingIOError):
                    fcntl.flock(handle, kind | fcntl.LOCK_NB)
                    return handle, kind == fcntl.LOCK_EX
            if time.monotonic() > stop:  # a process has it for itself only while it checks the folder
                raise make_refusal(folder, "is locked by another process")
            time.sleep(0.02)
    except BaseException:
        os.close(handle)
        raise


def is_in_use(folder: Path) -> bool:
    """Whether a process uses a tool's folder."""
    try:
        handle = open_plain_file(folder.with_suffix(".lock"), os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (OSError, NameError):
        return False
    finally:
        os.close(handle)
    return False


def remove_damage(folder: Path) -> None:
    """Compare a folder with its list, and remove what cannot be believed."""
    known = read_list(folder)
    changed = next((name for name, held in known.items() if is_changed(folder / name, held)), None)
    if changed is not None:
        say_once(
            "damage", f"A damaged file in the cache is dropped and compiled again: '{folder / changed}'."
        )
        known = {}
    for path in list(walk_files(folder)):
        if str(path.relative_to(folder)) not in known:
            remove_item(path)


def is_changed(path: Path, held: Any) -> bool:
    """Whether a listed file is another one now; one that is gone does no harm."""
    try:
        return not isinstance(held, list) or not held or hash_plain_file(path) != held[0]
    except FileNotFoundError:
        return False
    except OSError:
        return True


def record_tool_caches() -> None:
    """Write the lists of the folders that this process uses, if that is possible."""
    for folder in _guarded:
        with suppress(OSError):
            write_list(folder)


def write_list(folder: Path) -> None:
    """List all files of a folder: checksum, size, time. Files that have not changed keep their old checksum."""
    known, now = read_list(folder), {}
    for path in walk_files(folder):
        with suppress(OSError):  # a temporary file of the tool
            name, found = str(path.relative_to(folder)), path.lstat()
            stamp = [found.st_size, found.st_mtime_ns]
            old = known.get(name)
            same = isinstance(old, list) and old[1:] == stamp
            now[name] = old if same else [hash_plain_file(path), *stamp]
    if now != known:
        write_signed_json(folder.with_suffix(".json"), {"files": now}, mode=0o600)


def read_list(folder: Path) -> dict[str, Any]:
    """The list of a folder; empty if it is missing or damaged."""
    files = read_json_object(folder.with_suffix(".json")).get("files")
    return files if isinstance(files, dict) else {}


def walk_files(folder: Path) -> Iterator[Path]:
    """Everything below a folder that is not a folder; links are not followed."""
    for parent, folders, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)
        yield from (path for path in (Path(parent, name) for name in folders) if path.is_symlink())
