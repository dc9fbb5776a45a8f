"""Words between a training on a cluster and the terminal that started it."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from flashdqn.runs.rows import MetricsRow
from flashdqn.training.progress import Amount, Progress

if TYPE_CHECKING:
    from flashdqn.training.evaluate import Evaluation

#: Seconds between two words about how far the training is.
TICK_EVERY = 0.25


class Mailbox:
    """Lives as an actor of Ray: the first worker puts words in, the terminal takes them out."""

    def __init__(self) -> None:
        self._words: list[tuple[str, tuple[Any, ...]]] = []
        self._stop = False
        self._run = ""

    def put(self, name: str, parts: tuple[Any, ...]) -> bool:
        """Keep a word; returns whether the training should stop."""
        self._words.append((name, parts))
        return self._stop

    def remember_run(self, path: str) -> None:
        """Keep which run is trained."""
        self._run = path

    def recall_run(self) -> str:
        """The run that was trained before all workers were started again; empty: none."""
        return self._run

    def take(self) -> list[tuple[str, tuple[Any, ...]]]:
        """All words since the last time."""
        words, self._words = self._words, []
        return words

    def ask_to_stop(self) -> None:
        """Let the training save and end."""
        self._stop = True


class PostedProgress:
    """A display that is somewhere else: everything is posted to the terminal."""

    def __init__(self, mailbox: Any) -> None:
        self._mailbox = mailbox
        self._next = 0.0
        self.stopping = False  # somebody has asked the training to stop

    def post(self, name: str, *parts: Any) -> None:
        """Send a word, and hear whether to stop."""
        import ray

        with suppress(Exception):  # nobody listens any more: the training goes on, or is ended by Ray
            self.stopping = bool(ray.get(self._mailbox.put.remote(name, parts), timeout=10)) or self.stopping

    def remember_run(self, path: str) -> None:
        """Write down which run is trained, for workers that are started again."""
        self._mailbox.remember_run.remote(path)

    def recall_run(self) -> str:
        """What `remember_run` has written down; empty: nothing."""
        import ray

        return str(ray.get(self._mailbox.recall_run.remote(), timeout=30))

    def note(self, text: str) -> None:
        """Post it."""
        self.post("note", text)

    def prepare(self) -> None:
        """Post it."""
        self.post("prepare")

    def prepared(self) -> None:
        """Post it."""
        self.post("prepared")

    def begin(self, title: str, asked_ratio: float) -> None:
        """Post it."""
        self.post("begin", title, asked_ratio)

    def tick(self, share: float, steps: int, episodes: int, seconds: float) -> None:
        """Post it, now and then."""
        now = time.monotonic()
        if now >= self._next or share >= 1.0:
            self._next = now + TICK_EVERY
            self.post("tick", share, steps, episodes, seconds)

    def report(self, row: MetricsRow) -> None:
        """Post it."""
        self.post("report", row)

    def working(self, what: str, count: int, of: Amount | None = None) -> None:
        """Post nothing: the next evaluation will tell."""

    def evaluation(self, step: int, result: Evaluation) -> None:
        """Post it."""
        self.post("evaluation", step, result)

    def end(self) -> None:
        """Post it."""
        self.post("end")


def show_word(progress: Progress, name: str, parts: tuple[Any, ...]) -> None:
    """Show what was posted on a real display."""
    shown = {
        "note": progress.note,
        "prepare": progress.prepare,
        "prepared": progress.prepared,
        "begin": progress.begin,
        "tick": progress.tick,
        "report": progress.report,
        "evaluation": progress.evaluation,
        "end": progress.end,
    }
    if name in shown:
        shown[name](*parts)  # type: ignore[operator]
