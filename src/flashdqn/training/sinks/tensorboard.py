"""TensorBoard: events in the run folder.

TensorBoard's own writer works in a thread, which prints a traceback when the disk is full. This one writes here and
now: a report is one record, and an error is the caller's.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary

from flashdqn.core.files import open_plain_file
from flashdqn.training.sinks import About

#: What TensorBoard looks for in a file's name; the time follows.
PREFIX = "events.out.tfevents."
#: The time in a name; one of before the year 2100.
SECOND = re.compile(re.escape(PREFIX) + r"([0-3][0-9]{9})\.")

#: Bytes of a checksum that are computed at once.
BLOCK = 256


class TensorBoard:
    """Writes event files, which `tensorboard --logdir runs` shows."""

    _handle = -1

    def __init__(self, about: About) -> None:
        self._handle = create_event_file(about.path)
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        # A start hides what a run killed after this checkpoint had already written.
        start = SessionLog(status=SessionLog.START)
        self._write(Event(wall_time=time.time(), step=about.step + 1, session_log=start))

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Add a point to the curve of each name."""
        points = [Summary.Value(tag=name, simple_value=float(value)) for name, value in values.items()]
        self._write(Event(wall_time=time.time(), step=step, summary=Summary(value=points)))

    def flush(self) -> None:
        """Wait until the events are on the disk."""
        os.fsync(self._handle)

    def close(self, summary: Mapping[str, Any] | None) -> None:
        """Close the file; the summary is already in summary.json."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            os.close(handle)

    def __del__(self) -> None:
        with suppress(OSError):
            self.close(None)

    def _write(self, event: Event) -> None:
        """Write a record, all of it."""
        left = format_record(event.SerializeToString())
        while left:
            left = left[os.write(self._handle, left) :]


def create_event_file(folder: Path) -> int:
    """A handle of a new file, whose name nobody can have put there before. TensorBoard reads files in the order of
    their names, so its time is later than that of the others, also if the clock was set back."""
    found = [SECOND.match(path.name) for path in folder.glob(f"{PREFIX}*")]
    second = max([int(time.time()), *(int(one[1]) + 1 for one in found if one)])
    name = f"{PREFIX}{second:010d}.{socket.gethostname()}.{os.getpid()}.0.{secrets.token_hex(8)}"
    return open_plain_file(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def format_record(data: bytes) -> bytes:
    """A record as TensorFlow packs it: the length and its checksum, the data and theirs."""
    length = struct.pack("<Q", len(data))
    return b"".join(
        (length, struct.pack("<I", mask(crc32c(length))), data, struct.pack("<I", mask(crc32c(data))))
    )


def mask(crc: int) -> int:
    """A checksum as TensorFlow stores it."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """The checksum of Castagnoli. TensorBoard's own takes most of a millisecond for a report."""
    shares, state = compute_crc_shares(), 0xFFFFFFFF
    for begin in range(0, len(data), BLOCK):
        block = np.frombuffer(data[begin : begin + BLOCK], np.uint8).astype(np.intp)
        first = min(4, len(block))
        block[:first] ^= np.frombuffer(state.to_bytes(4, "little"), np.uint8)[:first]
        found = np.bitwise_xor.reduce(shares[len(block) - 1 - np.arange(len(block)), block])
        state = int(found) ^ state >> 8 * first
    return state ^ 0xFFFFFFFF


@cache
def compute_crc_shares() -> NDArray[np.uint32]:
    """What a byte adds to the checksum, by the number of bytes that follow it in its block."""
    shares = np.zeros((BLOCK, 256), np.uint32)
    first = shares[0]
    first[:] = range(256)
    for _ in range(8):
        first[:] = first >> 1 ^ 0x82F63B78 * (first & 1)
    for k in range(1, BLOCK):
        shares[k] = shares[k - 1] >> 8 ^ first[shares[k - 1] & 255]
    return shares
