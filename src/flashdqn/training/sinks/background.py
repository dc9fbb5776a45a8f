"""Sinks that may fail without harm: guarded, and in their own threads."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashdqn.training.sinks import Sink

Note = Callable[[str], None]

#: Seconds that the end of a training waits for figures that are still on their way.
PATIENCE = 60.0
#: The same if the training failed, or was told to stop at once.
HASTE = 5.0
#: Reports that may be on their way; when a server is that far behind, newer ones are dropped.
WAITING = 10_000


class Guarded:
    """A sink that is noted and dropped when it first fails."""

    def __init__(self, name: str, make: Callable[[], Sink], note: Note) -> None:
        self.name, self.note = name, note
        self._sink: Sink | None = None
        self._try(lambda: setattr(self, "_sink", make()))

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Pass the figures to the sink."""
        if self._sink is not None:
            self._try(lambda: self._sink.scalars(values, step))  # type: ignore[union-attr]

    def flush(self) -> None:
        """Flush the sink."""
        if self._sink is not None:
            self._try(lambda: self._sink.flush())  # type: ignore[union-attr]

    def close(self, summary: Mapping[str, Any] | None) -> None:
        """Close the sink."""
        if self._sink is not None:
            self._try(lambda: self._sink.close(summary))  # type: ignore[union-attr]
            self._sink = None

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # a library, a network or a disk may raise anything
            self._sink = None
            self.note(failure_text(self.name, error))


class Background:
    """A sink in its own thread: opened, fed and closed there. Nothing waits for it until the end."""

    def __init__(self, name: str, make: Callable[[], Sink], note: Note, patience: float = PATIENCE) -> None:
        self.name, self.note, self.patience = name, note, patience
        self._jobs: queue.Queue[Callable[[Sink], None] | None] = queue.Queue(WAITING)
        # For the display, which belongs to our thread.
        self._news: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._failed = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(make,), name=f"log to {name}", daemon=True)
        self._thread.start()

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Pass the figures to the thread."""
        kept = dict(values)
        self._hand_over(lambda sink: sink.scalars(kept, step))

    def flush(self) -> None:
        """Ask for a flush, without waiting for it."""
        self._hand_over(lambda sink: sink.flush())

    def close(self, summary: Mapping[str, Any] | None) -> None:
        """Wait for figures on their way, but not forever; a failed training waits only briefly."""
        self._hand_over(lambda sink: sink.close(summary))
        with contextlib.suppress(queue.Full):  # else the thread ends with the process
            self._jobs.put_nowait(None)
        patience = self.patience if summary is not None else min(self.patience, HASTE)
        self._thread.join(patience)
        self._say_news()
        if self._thread.is_alive():
            self.note(
                f"{self.name} was not done after {patience:.0f} s: its last figures may be missing there."
            )

    def _hand_over(self, job: Callable[[Sink], None]) -> None:
        self._say_news()
        if self._failed.is_set():
            return
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            self._failed.set()
            self.note(failure_text(self.name, TimeoutError("it is too far behind")))

    def _say_news(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self.note(self._news.get_nowait())

    def _work(self, make: Callable[[], Sink]) -> None:
        try:
            sink = make()
            if where := getattr(sink, "where", ""):
                self._news.put(f"{self.name}: {where}")
            while (job := self._jobs.get()) is not None and not self._failed.is_set():
                job(sink)
        except Exception as error:  # a library, a network or a disk may raise anything
            self._failed.set()
            self._news.put(failure_text(self.name, error))


def failure_text(name: str, error: Exception) -> str:
    """The failure in one line."""
    lines = str(error).strip().splitlines()
    return (
        f"{name} failed, and the run goes on without it: {type(error).__name__}: {lines[0] if lines else ''}"
    )
