"""Ctrl-C: the first one asks the loop to finish its iteration and save; the second stops at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interrupt:
    """A context in which SIGINT and SIGTERM only set `requested`, once."""

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for name in (signal.SIGINT, signal.SIGTERM):
                self._previous[name] = signal.signal(name, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for name, handler in self._previous.items():
            signal.signal(name, handler)

    def _handle(self, _: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
