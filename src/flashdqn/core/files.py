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
import shutil
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from flashdqn.core.errors import CheckpointError, ConfigError, StorageError

#: In the name of a file that is not whole yet.
WRITING = ".writing"
#: The key of a JSON object's own checksum.
CHECKSUM = "checksum"
#: The key of a run's id: an object that has one was written with a checksum.
RUN = "run"
#: Errors of the disk itself, and not of the path that the user has named.
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
#: The most bytes that are read as JSON: more would only fill the memory.
MOST_JSON = 64 * 2**20

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_ALWAYS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
#: What the shell writes for `<(command)`: pipes that the user means.
_SHELL_PIPES = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
#: A folder below /dev with plain files.
_MEMORY = "/dev/shm/"


class RefusedFileError(OSError):
    """What lies at a path is not a plain file, or is too large: it was not read."""


def open_plain_file(path: Path, flags: int = os.O_RDONLY, follow: bool = False, mode: int = 0o666) -> int:
    """A handle of a plain file, as `os.open` gives it. A pipe, a device or (without `follow`) a link is refused at
    once, by an OSError."""
    if follow and str(path).startswith(_SHELL_PIPES):
        return os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    try:
        handle = os.open(path, flags | _ALWAYS | (0 if follow else _NO_FOLLOW), mode)
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
    return RefusedFileError(errno.EINVAL, reason, str(path))


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


def read_plain_file(path: Path, follow: bool = False, most: int | None = None) -> bytes:
    """All bytes of a plain file; one of more than `most` bytes is refused before it is read."""
    with os.fdopen(open_plain_file(path, follow=follow), "rb") as file:
        if most is None:
            return file.read()
        size = os.fstat(file.fileno()).st_size
        # by its size: Python takes the memory for all that it is asked for; a pipe has no size
        data = b"" if size > most else file.read(size + 1) if size else _read_blocks(file, most + 1)
        if max(size, len(data)) > most:
            raise make_refusal(path, f"has more than {most:,} bytes")
        return data


def _read_blocks(file: BinaryIO, most: int) -> bytes:
    """Read to the end, but at most so many bytes."""
    blocks: list[bytes] = []
    while most > 0 and (block := file.read(min(most, 2**20))):
        blocks.append(block)
        most -= len(block)
    return b"".join(blocks)


def read_plain_text(path: Path, follow: bool = False, most: int | None = None) -> str:
    """A plain file as UTF-8 text."""
    return read_plain_file(path, follow, most).decode("utf-8")


def read_limited_file(path: Path, most: int) -> bytes:
    """All bytes of a file that a configuration names; a file of more than `most` bytes is refused, by an OSError.
    So are standard input and the shell's pipes: a configuration must not wait for the user."""
    return read_plain_file(Path(os.path.realpath(path)), follow=True, most=most)


def hash_plain_file(path: Path, size: int | None = None) -> str | None:
    """The SHA-256 of a plain file, in hex; None if it does not have the `size` that is given."""
    with os.fdopen(open_plain_file(path), "rb") as file:
        if size is not None and os.fstat(file.fileno()).st_size != size:
            return None
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_hollow_file(path: Path, more_than: int) -> bool:
    """Whether a file of more bytes than that takes almost no space on the disk: somebody has only set its size."""
    found = path.lstat()
    return (
        found.st_size > more_than and 512 * getattr(found, "st_blocks", found.st_size) < found.st_size // 64
    )


def describe_problem(error: OSError | ValueError) -> str:
    """What is wrong with a file, to follow its name: "is a link, …"; "cannot be read: …"."""
    if isinstance(error, RefusedFileError):
        return str(error.strerror)
    words = error.strerror if isinstance(error, OSError) else str(error)
    return f"cannot be read: {words or type(error).__name__}"


def make_write_error(what: str, error: OSError) -> CheckpointError:
    """The error for a path that cannot be written: a failure if the disk is full or broken."""
    kind = StorageError if error.errno in DISK_ERRORS else CheckpointError
    return kind(f"{what} cannot be written: {error.strerror or error}.")


def is_plain_folder(path: Path) -> bool:
    """Whether a path is a folder itself, and not a link to one."""
    return path.is_dir() and not path.is_symlink()


@contextmanager
def replace_file(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """Write a whole file: the body writes to the path it is given, and the result takes the place of `path` once it
    is safe on disk. If the body fails, nothing is left behind and the old file is untouched. The user's umask takes
    its part of `mode`."""
    # The suffix stays at the end: drawing libraries choose the format by it.
    temporary = path.with_name(f".{secrets.token_hex(8)}{WRITING}{path.suffix[:16]}")
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _ALWAYS, mode))
        yield temporary
        sync_to_disk(temporary)
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename in (str(temporary), temporary):
            error.filename = str(path)  # the name that the user knows
        raise
    sync_to_disk(path.parent)


@contextmanager
def open_replacement(path: Path) -> Iterator[BinaryIO]:
    """As `replace_file`, for a body that writes bytes to an open file."""
    with replace_file(path) as temporary, temporary.open("wb") as file:
        yield file


def write_output(path: Path, data: bytes | str) -> None:
    """Write a file that the user has named. It is replaced as a whole, and so is a link, which is not followed.
    Only a device, such as /dev/stdout, is written to directly."""
    data = data.encode("utf-8") if isinstance(data, str) else data
    if is_device_path(path):
        path.write_bytes(data)
    else:
        write_bytes_atomically(path, data)


def is_device_path(path: Path) -> bool:
    """Whether the user means a device or an open pipe: /dev/stdout, /dev/fd/5. /dev/shm holds plain files, and
    everybody can plant a link there."""
    return str(path).startswith("/dev/") and not os.path.abspath(path).startswith(_MEMORY)  # noqa: PTH100


def write_bytes_atomically(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write, sync and rename: the file is either new and whole, or unchanged."""
    with replace_file(path, mode) as temporary:
        temporary.write_bytes(data)


def write_text_atomically(path: Path, text: str, mode: int = 0o666) -> None:
    """As `write_bytes_atomically`, in UTF-8."""
    write_bytes_atomically(path, text.encode("utf-8"), mode)


def write_json_atomically(path: Path, data: Any, mode: int = 0o666) -> None:
    """As `write_bytes_atomically`, as JSON."""
    write_text_atomically(path, json.dumps(data, indent=2) + "\n", mode)


def write_signed_json(path: Path, data: Mapping[str, Any], mode: int = 0o666) -> None:
    """As `write_json_atomically`, with the object's own checksum in it."""
    write_json_atomically(path, {**data, CHECKSUM: compute_checksum(data)}, mode)


def read_signed_json(path: Path, required: bool = False, newest: int | None = None) -> dict[str, Any]:
    """A JSON object without its checksum; ValueError if it is not one or its checksum is wrong. An object without a
    checksum comes from an older version, and is taken as it is, unless a checksum is required. `newest` is the
    highest `format` that the caller understands."""
    data = parse_json(read_plain_text(path, most=MOST_JSON))
    if not isinstance(data, dict):
        raise ValueError("it does not hold a JSON object")
    number = data.get("format", 1)
    if newest is not None and isinstance(number, int) and number > newest:
        raise ValueError(
            f"it was made by a newer version of flashdqn (format {number}; this one knows {newest})"
        )
    checksum = data.pop(CHECKSUM, None)
    if (checksum is not None or required or RUN in data) and checksum != compute_checksum(data):
        raise ValueError("it does not match its own checksum: it was changed or damaged")
    return data


def compute_checksum(data: Mapping[str, Any]) -> str:
    """The checksum of a JSON object, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def parse_json(text: str, unique: bool = False) -> Any:
    """JSON as Python data; every kind of damage is a ValueError, also nesting that Python cannot follow. `unique`:
    a name that an object has twice counts as damage."""
    try:
        return json.loads(text, object_pairs_hook=_make_unique_object if unique else None)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def remove_anything(path: Path) -> None:
    """Remove what lies at a path: a folder with all that is in it, or a file. Links are removed, not followed."""
    if is_plain_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _make_unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"it has {twice[:60]!r} twice")
    return found


def remove_leftovers(folder: Path) -> None:
    """Remove unfinished files that a crash has left in a folder; nobody else may be writing there."""
    for path in folder.glob(f".*{WRITING}*"):
        if path.is_symlink() or path.is_file():
            path.unlink(missing_ok=True)


def sync_to_disk(path: Path) -> None:
    """Wait until a file's content, or a folder's entries, are on the disk."""
    handle = os.open(path, os.O_RDONLY | _ALWAYS)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that cannot sync folders
            raise
    finally:
        os.close(handle)


def check_writable_file(path: Path) -> None:
    """Refuse a file that cannot be written, before there is any work to lose."""
    if "\0" in str(path):
        raise ConfigError(f"{str(path)!r} is not a file name: it has a zero byte in it.")
    if is_device_path(path):
        return
    folder = path.parent
    if path.is_dir():
        raise ConfigError(f"'{path}' cannot be written to: it is a folder. Name a file in it.")
    if not folder.is_dir():
        raise ConfigError(f"There is no folder '{path.parent}' to write {path.name} to.")
    if path.exists() and not path.is_file():
        raise ConfigError(f"'{path}' cannot be written to: it is a {describe_kind(path)}. Name a file.")
    if not (can_write(path) and can_add_file(folder)):
        raise ConfigError(f"'{path}' cannot be written to. Name a file that can.")


def can_write(path: Path) -> bool:
    """Whether a file may be replaced: it is not there, or is not read-only."""
    return path.is_symlink() or not path.exists() or os.access(path, os.W_OK)


def can_add_file(folder: Path) -> bool:
    """Whether a folder takes a new file. It is tried: rights alone do not tell of a full or read-only disk.
    Such a disk is a StorageError."""
    trial = folder / f".{secrets.token_hex(8)}{WRITING}"
    try:
        os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _ALWAYS, 0o600))
        trial.unlink()
    except OSError as error:
        if error.errno in DISK_ERRORS:
            raise make_write_error(str(folder), error) from None
        return False
    return True


def read_json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file, without its checksum; empty if the file is missing, damaged or not an object."""
    try:
        return read_signed_json(path)
    except (OSError, ValueError):
        return {}
