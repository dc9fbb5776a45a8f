"""Compiled code as files: checked before it is believed, and written whole or not at all.

A file holds a magic line, the SHA-256 of all that follows, a line of JSON that says what it is, and the code. So
damage anywhere in it is noticed, and also a file that was copied over another.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flashdqn.compute.cache_folder import (
    OLD_NAMES,
    OWN_NAMES,
    explain_distrusted_owner,
    find_cache_folder,
    holds_only_ours,
    make_private_folder,
    say_once,
)
from flashdqn.core.files import is_plain_folder, open_plain_file, write_bytes_atomically

SUFFIX = ".kernel"
MAGIC = b"flashdqn kernel 2\n"
#: A kernel is about 100 kB; a file of this size was not written by us.
LARGEST = 1 << 28
DAY = 86_400.0
#: Code that nobody has used for so long is removed, and the oldest if there is more than this.
UNUSED_DAYS, MOST_BYTES = 90, 1 << 30


class DamagedEntryError(Exception):
    """A cache file that cannot be believed; says why."""


def name_entry(kernel: str, key: str) -> str:
    """The file name of the code of a kernel for a key."""
    return f"{kernel}-{hashlib.sha256(key.encode()).hexdigest()[:16]}{SUFFIX}"


def store_entry(kernel: str, key: str, code: bytes) -> None:
    """Keep code on disk if that is possible."""
    folder = find_cache_folder()
    if folder is None:
        return
    try:
        make_private_folder(folder)  # somebody may have removed it since
        write_bytes_atomically(folder / name_entry(kernel, key), pack_entry(key, code), mode=0o600)
    except OSError as error:
        say_once(
            "store",
            f"Compiled code cannot be kept in '{folder}' ({error.strerror or error}): the next start compiles "
            "again.",
        )


def pack_entry(key: str, code: bytes) -> bytes:
    """The content of a file."""
    body = json.dumps({"key": key}).encode() + b"\n" + code
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def find_entry(kernel: str, key: str) -> bytes | None:
    """The code that was kept; None if there is none that can be believed. A damaged file is removed."""
    folder = find_cache_folder()
    if folder is None:
        return None
    path = folder / name_entry(kernel, key)
    try:
        code = read_entry(path, key)
    except FileNotFoundError:
        return None
    except (DamagedEntryError, OSError) as error:
        drop_entry(path, error)
        return None
    mark_used(path)
    return code


def drop_entry(path: Path, error: Exception) -> None:
    """Remove a file that is of no use, and say so."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    with suppress(OSError):
        path.rmdir() if is_plain_folder(path) else path.unlink()
    say_once("damage", f"A damaged file in the cache is dropped and compiled again: '{path}' ({reason}).")


def read_entry(path: Path, key: str | None = None) -> bytes:
    """The code in a file, if it is whole, ours and for this key; else DamagedEntryError or an OSError."""
    with os.fdopen(open_plain_file(path), "rb") as file:
        found = os.fstat(file.fileno())
        if reason := explain_distrusted_owner(found):
            raise DamagedEntryError(reason)
        if found.st_size > LARGEST:
            raise DamagedEntryError("it is too large")
        data = file.read(LARGEST)
    start = len(MAGIC) + 65
    if data[:start] != MAGIC + hashlib.sha256(data[start:]).hexdigest().encode() + b"\n":
        raise DamagedEntryError("it does not match its checksum")
    header, _, code = data[start:].partition(b"\n")
    if key is not None and json.loads(header)["key"] != key:
        raise DamagedEntryError("it holds the code of another kernel")
    return code


def mark_used(path: Path) -> None:
    """Note once a day that a file is used."""
    with suppress(OSError):
        if abs(time.time() - path.stat().st_mtime) > DAY:
            os.utime(path)


@dataclass(frozen=True)
class CacheItem:
    """A file or folder of ours in the cache folder."""

    path: Path
    size: int
    used: float  # seconds since 1970

    @property
    def is_entry(self) -> bool:
        """Whether it holds compiled code of this version's format."""
        return self.path.name.endswith(SUFFIX) and not self.path.name.startswith(".")

    @property
    def is_tool_folder(self) -> bool:
        """Whether another compiler keeps its code in it."""
        return self.path.name in ("flashdqn_inductor", "flashdqn_triton", "inductor")


def list_items(folder: Path) -> list[CacheItem]:
    """What is ours in the cache folder, by name; a folder counts with all that is in it."""
    return sorted(_find_items(folder), key=lambda item: item.path.name)


def _find_items(folder: Path) -> Iterator[CacheItem]:
    with suppress(OSError):
        only_ours = holds_only_ours(folder)
        for path in folder.iterdir():
            if not (OWN_NAMES.fullmatch(path.name) or (only_ours and OLD_NAMES.fullmatch(path.name))):
                continue
            with suppress(OSError):  # another process may remove it
                found = path.lstat()
                # The change time too: older versions set the other one to 1970.
                yield CacheItem(path, measure_size(path), max(found.st_mtime, found.st_ctime))


def measure_size(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    size = path.lstat().st_size
    if path.is_dir() and not path.is_symlink():
        for parent, _, names in os.walk(path):
            for name in names:
                with suppress(OSError):
                    size += Path(parent, name).lstat().st_size
    return size


def remove_item(path: Path) -> bool:
    """Remove a file, a link or a folder; returns whether it is gone. A folder gets another name first, so that
    other processes see it whole or not at all."""
    try:
        if path.is_dir() and not path.is_symlink():
            aside = path.with_name(f".flashdqn-removed-{secrets.token_hex(8)}")
            path.rename(aside)
            shutil.rmtree(aside)
        else:
            path.unlink()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def remove_old_items(folder: Path) -> None:
    """Remove what nobody has used for long, what killed processes have left, and the oldest if it is too much."""
    now, total = time.time(), 0
    for item in sorted(list_items(folder), key=lambda item: -item.used):
        if item.is_tool_folder or item.path.suffix in (".json", ".lock"):
            continue
        total += item.size
        days = (now - item.used) / DAY
        unfinished = item.path.name.startswith(".") or item.path.suffix == ".tmp"
        if days > (0.05 if unfinished else UNUSED_DAYS) or total > MOST_BYTES:
            remove_item(item.path)
