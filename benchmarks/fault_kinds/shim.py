"""The C shim in Python: build it, preload it, arm it in a forked child, read its log. What it does: shim.c."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
#: the folder of the preloaded library, removed at the end
FOLDER = "FLASHDQN_FAULT_SHIM"


class Action(IntEnum):
    """What happens at the chosen operation."""

    NOTHING = 0
    KILL = 1
    TEAR_AND_KILL = 2  # half of a write, then the kill
    FAIL_ONCE = 3
    FAIL_FROM = 4  # this operation and all after it


class Kind(IntEnum):
    """File operations that change something; `MARK` is a word of the bench itself."""

    OPEN = 1
    WRITE = 2
    SYNC = 3
    RENAME = 4
    UNLINK = 5
    RMDIR = 6
    MKDIR = 7
    TRUNCATE = 8
    LINK = 9
    MARK = 10


@dataclass(frozen=True)
class Fault:
    """One fault, for file operations under `folder`."""

    folder: Path
    action: Action = Action.NOTHING
    at: int = 0
    error: int = 0
    log: Path | None = None
    contents: bool = False

    def arm(self) -> None:
        """Start counting in this process."""
        log = str(self.log or "").encode()
        find_shim().fault_arm(
            str(self.folder).encode(), int(self.action), self.at, self.error, log, int(self.contents)
        )


@dataclass(frozen=True)
class Operation:
    """A line of the log; `number` is what `Fault.at` means: attempts that failed are counted, and not logged."""

    kind: Kind
    number: int
    path: str
    second: str
    inode: int
    offset: int
    length: int
    data: bytes


def preload_shim() -> str:
    """Start this program again with the shim in front of the C library. Returns only if that is done, or why it
    cannot be done."""
    if is_loaded():
        shutil.rmtree(os.environ.pop(FOLDER, ""), ignore_errors=True)
        os.environ.pop("LD_PRELOAD", None)  # for this process only: programs that it starts have their own
        return ""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or compiler is None or FOLDER in os.environ:
        return "this needs Linux and a C compiler"
    folder = tempfile.mkdtemp(prefix="flashdqn-shim-")
    library = f"{folder}/shim.so"
    built = subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-o", library, str(SOURCE), "-ldl", "-lpthread"],
        capture_output=True,
        text=True,
    )
    if built.returncode:
        shutil.rmtree(folder)
        return f"the shim cannot be compiled: {built.stderr.strip().splitlines()[-1:]}"
    environment = os.environ | {"LD_PRELOAD": library, FOLDER: folder}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def is_loaded() -> bool:
    """Whether this process runs on top of the shim."""
    return hasattr(ctypes.CDLL(None), "fault_arm")


def find_shim() -> ctypes.CDLL:
    """The shim under this process."""
    shim = ctypes.CDLL(None)
    shim.fault_count.restype = ctypes.c_long
    shim.fault_arm.argtypes = [
        ctypes.c_char_p, ctypes.c_int, ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_int,
    ]  # fmt: skip
    shim.fault_clock.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_long]
    return shim


def set_clock(mode: int, shift: int = 0, calls: int = 0) -> None:
    """Set the clock wrong: 1 is off by `shift` seconds after `calls` questions, 2 is stuck, 3 runs backwards."""
    find_shim().fault_clock(mode, shift, calls)


def mark_log(text: str) -> None:
    """Write a word of our own into the log."""
    find_shim().fault_mark(text.encode())


def read_log(path: Path) -> list[Operation]:
    """All operations; one that the kill cut short is left out."""
    data, place, head = path.read_bytes() if path.exists() else b"", 0, struct.Struct("8q")
    operations = []
    while place + head.size <= len(data):
        kind, number, inode, offset, first, second, content, length = head.unpack_from(data, place)
        place += head.size
        if place + first + second + content > len(data):
            break
        texts = data[place : place + first].decode(), data[place + first : place + first + second].decode()
        place += first + second
        content_bytes = data[place : place + content]
        place += content
        operations.append(Operation(Kind(kind), number, *texts, inode, offset, length, content_bytes))
    return operations
