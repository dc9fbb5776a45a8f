"""Trials in processes, some at a time: started, listened to, answered, and ended whatever happens."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashdqn.core.errors import ConfigError
from flashdqn.sweep.trial_process import GO_ON, PRUNE, START

#: Seconds that a trial has to save and end after it was asked to.
STOP_SECONDS = 10.0
#: Seconds between two looks at the clock and at signals.
TICK = 0.2
LOG = "log.txt"


@dataclass(frozen=True)
class TrialTask:
    """One training: a name that is unique within the sweep, its settings, and the folder for its run."""

    name: str
    config: Mapping[str, Any]
    folder: Path


@dataclass(frozen=True)
class TrialMessage:
    """What a trial says: evaluation (which wants an answer), ended, failed, stopped; or what its process left."""

    name: str
    event: str
    data: Mapping[str, Any] = field(default_factory=dict)


class TrialWorker:
    """The process of a trial, seen from the sweep."""

    def __init__(self, task: TrialTask, inbox: queue.Queue[TrialMessage], working_folder: bool) -> None:
        """Start it. It leads a session of its own: Ctrl-C in the terminal is for the sweep, which then ends it."""
        self.task, self.began = task, time.monotonic()
        task.folder.mkdir(parents=True, exist_ok=True)
        with (task.folder / LOG).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", START, *filter(None, sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                text=True,
                encoding="utf-8",
            )
        self._send(json.dumps({"config": dict(task.config), "working_folder": working_folder}))
        self._thread = threading.Thread(target=self._listen, args=[inbox], daemon=True)
        self._thread.start()

    def answer(self, prune: bool) -> None:
        """Answer an evaluation."""
        self._send(PRUNE if prune else GO_ON)

    def ask_to_stop(self) -> None:
        """Let it save and end."""
        with suppress(OSError):
            self._process.send_signal(signal.SIGTERM)
        self._send(GO_ON)  # it may wait for an answer

    def kill(self) -> None:
        """End it and all that it has started, at once."""
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
        self.close()

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, seconds))
            return True
        return False

    def close(self) -> None:
        """Let go of a process that has ended."""
        self._process.wait()
        self._thread.join(STOP_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # it has ended, which its output tells
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def _listen(self, inbox: queue.Queue[TrialMessage]) -> None:
        assert self._process.stdout is not None
        said_end = False
        with suppress(ValueError, OSError):
            for line in self._process.stdout:
                with suppress(ValueError, TypeError, KeyError):
                    data = json.loads(line)
                    event = data.pop("event")
                    said_end = said_end or event in ("ended", "failed", "stopped")
                    inbox.put(TrialMessage(self.task.name, event, data))
        code = self._process.wait()
        if not said_end:
            inbox.put(
                TrialMessage(self.task.name, "failed", {"reason": describe_end(code, self.task.folder)})
            )
        inbox.put(TrialMessage(self.task.name, "gone"))


def describe_end(code: int, folder: Path) -> str:
    """How a process ended that has said nothing, with the last line of its log."""
    how = f"its process ended with exit code {code}"
    if code < 0:
        with suppress(ValueError):
            how = f"its process was ended by {signal.Signals(-code).name}"
    with suppress(OSError):
        lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if lines and code > 0:
            how += f" ({lines[-1][:200]})"
    return how


class TrialPool:
    """Up to `jobs` trials at a time. As a context: when it is left, none of them runs on."""

    def __init__(self, jobs: int, working_folder: bool = False) -> None:
        self.jobs, self.working_folder = jobs, working_folder
        self.inbox: queue.Queue[TrialMessage] = queue.Queue()
        self.workers: dict[str, TrialWorker] = {}

    def __enter__(self) -> TrialPool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.kill()
        self.workers.clear()

    @property
    def is_full(self) -> bool:
        """Whether no more trials may start now."""
        return len(self.workers) >= self.jobs

    @property
    def is_idle(self) -> bool:
        """Whether no trial runs."""
        return not self.workers

    def run(
        self,
        propose: Callable[[], None],
        handle: Callable[[TrialMessage], None],
        watch: Callable[[], bool],
    ) -> None:
        """Run what `propose` starts, `handle` what trials say, until there is nothing more or `watch` is true."""
        while not watch():
            propose()
            if self.is_idle:
                return
            if (message := self.receive(TICK)) is not None:
                handle(message)

    def start(self, task: TrialTask) -> None:
        """Start a trial."""
        try:
            self.workers[task.name] = TrialWorker(task, self.inbox, self.working_folder)
        except OSError as error:
            raise ConfigError(f"A trial cannot be started: {error.strerror or error}.") from None

    def receive(self, seconds: float) -> TrialMessage | None:
        """The next message, if one comes within so many seconds."""
        try:
            message = self.inbox.get(timeout=seconds)
        except queue.Empty:
            return None
        if message.event == "gone":
            if (worker := self.workers.pop(message.name, None)) is not None:
                worker.kill()  # what it has left running
            return None
        return message

    def answer(self, name: str, prune: bool) -> None:
        """Answer an evaluation of a trial."""
        if name in self.workers:
            self.workers[name].answer(prune)

    def find_late(self, patience: float) -> list[str]:
        """The trials that have been running for longer than that."""
        now = time.monotonic()
        return [name for name, worker in self.workers.items() if now - worker.began > patience]

    def end_trial(self, name: str) -> None:
        """End one trial at once."""
        if name in self.workers:
            self.workers.pop(name).kill()

    def stop_all(self, seconds: float = STOP_SECONDS) -> None:
        """Let all trials save and end; those that do not are killed."""
        until = time.monotonic() + seconds
        for worker in self.workers.values():
            worker.ask_to_stop()
        for worker in self.workers.values():
            worker.wait(until - time.monotonic())
            worker.kill()
        self.workers.clear()
