"""Messages between the learner and a worker, over a pair of sockets.

The learner must not wait for a worker that stops in the middle of a message. So it takes the bytes that are there,
and looks whether they make whole messages. Both ends are processes of one program, so messages are pickled.
"""

from __future__ import annotations

import pickle
import socket
import struct
from contextlib import suppress
from typing import Any

#: The length of a message comes first.
LENGTH = struct.Struct("<Q")
#: Bytes that are read at once.
CHUNK = 1 << 20


class Channel:
    """One end. `receive` never waits; `wait` does."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._read = bytearray()
        self.ended = False  # the other end is closed

    def fileno(self) -> int:
        """For `multiprocessing.connection.wait`."""
        return self.socket.fileno()

    def send(self, message: Any) -> None:
        """Send a whole message; waits while the other end does not read."""
        data = pickle.dumps(message, protocol=5)
        self.socket.sendall(LENGTH.pack(len(data)) + data)

    def send_small(self, message: Any) -> None:
        """Send a few bytes, or nothing if the other end has stopped reading: it is replaced soon."""
        data = pickle.dumps(message, protocol=5)
        with suppress(OSError):
            self.socket.send(LENGTH.pack(len(data)) + data, socket.MSG_DONTWAIT)

    def receive(self) -> list[Any]:
        """All messages that have arrived whole."""
        while not self.ended:
            try:
                data = self.socket.recv(CHUNK, socket.MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                data = b""
            self._read += data
            self.ended = not data
        return self._split()

    def wait(self) -> list[Any]:
        """Wait for bytes; all messages that have arrived whole. Raises EOFError when the other end is closed."""
        data = self.socket.recv(CHUNK)
        if not data:
            raise EOFError
        self._read += data
        return self._split()

    def _split(self) -> list[Any]:
        messages, at = [], 0
        while len(self._read) - at >= LENGTH.size:
            (size,) = LENGTH.unpack_from(self._read, at)
            if len(self._read) - at - LENGTH.size < size:
                break
            at += LENGTH.size
            messages.append(pickle.loads(memoryview(self._read)[at : at + size].tobytes()))
            at += size
        del self._read[:at]
        return messages

    def close(self) -> None:
        """Close this end."""
        self.socket.close()
