"""Files that may lie in a stranger's folder, on a full disk, or under a power cut.

Reading: only plain files are opened. A named pipe or a device would be waited for; a link may lead anywhere. Links
are followed only where the user has named the path (`follow=True`).
Writing: a new file under a random name, synced, then renamed. So a file is either whole or as it was before, a link
that somebody planted is replaced and not followed, and a power cut loses no file that was there.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from flashdqn.core.errors import ConfigError

#: In the name of a file that is not whole yet.
WRITING = ".writing"
#: The key of a JSON object's own checksum.
CHECKSUM = "checksum"

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_ALWAYS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
#: What the shell writes for `<(command)`: pipes that the user means.
_SHELL_PIPES = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")


def open_plain_file(path: Path, flags: int = os.O_RDONLY, follow: bool = False) -> int:
    """A handle of a plain file, as `os.open` gives it. A pipe, a device or (without `follow`) a link is refused at
    once, by an OSError."""
    if follow and str(path).startswith(_SHELL_PIPES):
        return os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    try:
        handle = os.open(path, flags | _ALWAYS | (0 if follow else _NO_FOLLOW), 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise make_refusal(path, "is a link, and links are not followed here") from None
        if error.errno == errno.ENXIO:  # a pipe without a reader, or a socket
            raise make_refusal(path, f"is a {describe_kind(path)}, not a file") from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise make_refusal(path, f"is a {describe_kind(path)}, not a file")
    return handle


def make_refusal(path: Path, reason: str) -> OSError:
    """The error for a path that is not what it should be."""
    return OSError(errno.EINVAL, reason, str(path))


def describe_kind(path: Path) -> str:
    """What lies at a path: "folder", "named pipe", …"""
    mode = path.stat().st_mode
    kinds = {
        stat.S_IFDIR: "folder",
        stat.S_IFIFO: "named pipe",
        stat.S_IFSOCK: "socket",
        stat.S_IFCHR: "device",
        stat.S_IFBLK: "device",
    }
    return kinds.get(stat.S_IFMT(mode), "file")


def read_plain_file(path: Path, follow: bool = False) -> bytes:
    """All bytes of a plain file."""
    with os.fdopen(open_plain_file(path, follow=follow), "rb") as file:
        return file.read()


def read_plain_text(path: Path, follow: bool = False) -> str:
    """A plain file as UTF-8 text."""
    return read_plain_file(path, follow).decode("utf-8")


def read_limited_file(path: Path, most: int) -> bytes:
    """All bytes of a file that a configuration names; a file of more than `most` bytes is refused, by an OSError.
    So are standard input and the shell's pipes: a configuration must not wait for the user."""
    with os.fdopen(open_plain_file(Path(os.path.realpath(path)), follow=True), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise make_refusal(path, f"has more than {most:,} bytes")
    return data


def hash_plain_file(path: Path) -> str:
    """The SHA-256 of a plain file, in hex."""
    with os.fdopen(open_plain_file(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_plain_folder(path: Path) -> bool:
    """Whether a path is a folder itself, and not a link to one."""
    return path.is_dir() and not path.is_symlink()


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Write a whole file: the body writes to the path it is given, and the result takes the place of `path` once it
    is safe on disk. If the body fails, nothing is left behind and the old file is untouched."""
    # The suffix stays at the end: drawing libraries choose the format by it.
    temporary = path.with_name(f".{secrets.token_hex(8)}{WRITING}{path.suffix[:16]}")
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _ALWAYS, 0o666))
    try:
        yield temporary
        sync_to_disk(temporary)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_to_disk(path.parent)


@contextmanager
def open_replacement(path: Path) -> Iterator[BinaryIO]:
    """As `replace_file`, for a body that writes bytes to an open file."""
    with replace_file(path) as temporary, temporary.open("wb") as file:
        yield file


def write_bytes_atomically(path: Path, data: bytes) -> None:
    """Write, sync and rename: the file is either new and whole, or unchanged."""
    with replace_file(path) as temporary:
        temporary.write_bytes(data)


def write_text_atomically(path: Path, text: str) -> None:
    """As `write_bytes_atomically`, in UTF-8."""
    write_bytes_atomically(path, text.encode("utf-8"))


def write_json_atomically(path: Path, data: Any) -> None:
    """As `write_bytes_atomically`, as JSON."""
    write_text_atomically(path, json.dumps(data, indent=2) + "\n")


def write_signed_json(path: Path, data: Mapping[str, Any]) -> None:
    """As `write_json_atomically`, with the object's own checksum in it."""
    write_json_atomically(path, {**data, CHECKSUM: compute_checksum(data)})


def read_signed_json(path: Path) -> dict[str, Any]:
    """A JSON object without its checksum; ValueError if it is not one or its checksum is wrong. An object without a
    checksum comes from an older version, and is taken as it is."""
    data = parse_json(read_plain_text(path))
    if not isinstance(data, dict):
        raise ValueError("it does not hold a JSON object")
    checksum = data.pop(CHECKSUM, None)
    if checksum is not None and checksum != compute_checksum(data):
        raise ValueError("it does not match its own checksum: it was changed or damaged")
    return data


def compute_checksum(data: Mapping[str, Any]) -> str:
    """The checksum of a JSON object, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def parse_json(text: str) -> Any:
    """JSON as Python data; every kind of damage is a ValueError, also nesting that Python cannot follow."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def remove_leftovers(folder: Path) -> None:
    """Remove unfinished files that a crash has left in a folder; nobody else may be writing there."""
    for path in folder.glob(f".*{WRITING}*"):
        if path.is_symlink() or path.is_file():
            path.unlink(missing_ok=True)


def sync_to_disk(path: Path) -> None:
    """Wait until a file's content, or a folder's entries, are on the disk."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that cannot sync folders
            raise
    finally:
        os.close(handle)


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
    """The object in a JSON file, without its checksum; empty if the file is missing, damaged or not an object."""
    try:
        return read_signed_json(path)
    except (OSError, ValueError):
        return {}
