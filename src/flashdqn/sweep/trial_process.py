"""A trial in a process of its own: it trains, tells the sweep of every evaluation, and asks whether to go on.

The sweep writes the settings to its standard input, and later an answer to every evaluation. The trial writes lines
of JSON to what was its standard output; what environments print goes to the trial's log. When the input ends, the
sweep has ended, however that came: then the trial ends at once, with all processes of its group.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TextIO

from flashdqn.core.errors import FlashDQNError
from flashdqn.core.signals import TRY_AGAIN_CODE, Stopped
from flashdqn.core.text import clean_line

#: How the process starts: it looks for modules where the sweep does, and never in the working folder by itself.
START = (
    "import sys; sys.path[:] = sys.argv[1:]; from flashdqn.sweep import trial_process as t; t.serve_trial()"
)
GO_ON, PRUNE = "go on", "prune"


@dataclass
class TrialLink:
    """The two pipes to the sweep."""

    output: TextIO
    answers: queue.Queue[str] = field(default_factory=queue.Queue)

    def send(self, event: str, **data: Any) -> None:
        """Tell the sweep something; if nobody listens any more, the input's end will tell."""
        with suppress(OSError, ValueError):
            self.output.write(json.dumps({"event": event, **data}) + "\n")
            self.output.flush()

    def ask(self, event: str, **data: Any) -> bool:
        """Tell the sweep something, and wait for its answer: whether the training should end."""
        self.send(event, **data)
        return self.answers.get() == PRUNE

    def listen(self) -> None:
        """Pass on answers; at the end of the input, end this process and those that it has started."""
        for line in sys.stdin:
            self.answers.put(line.strip())
        end_process_group()


def end_process_group() -> None:
    """Kill all processes of this one's group, itself among them; only if it leads the group."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def serve_trial() -> None:
    """The process's main function."""
    link = TrialLink(take_output())
    wanted = json.loads(sys.stdin.readline() or "null")
    if wanted is None:
        sys.exit(1)
    threading.Thread(target=link.listen, daemon=True).start()
    if wanted["working_folder"]:
        sys.path.append(str(Path.cwd()))
    sys.exit(run_trial(link, wanted["config"]))


def take_output() -> TextIO:
    """The pipe to the sweep; what anybody prints to standard output goes to standard error, the log."""
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return ours


def run_trial(link: TrialLink, settings: dict[str, Any]) -> int:
    """Train with some settings, and tell the sweep how it went; returns the exit code."""
    try:
        end = train_trial(link, settings)
    except FlashDQNError as error:
        link.send("failed", reason=clean_line(str(error), 500))
        return error.exit_code
    except Stopped as error:
        link.send("stopped", reason=f"stopped by {error.signal.name}")
        return TRY_AGAIN_CODE
    except Exception as error:
        traceback.print_exc()
        link.send("failed", reason=clean_line(f"{type(error).__name__}: {error}", 500))
        return 1
    link.send("ended", **end)
    return 0


class EvaluationLink(Protocol):
    """Whom a trial asks after every evaluation whether to end."""

    def ask(self, event: str, **data: Any) -> bool:
        """Tell something; whether the training should end."""


def train_trial(link: EvaluationLink, settings: dict[str, Any]) -> dict[str, Any]:
    """Train; returns the end in figures."""
    from rich.console import Console

    from flashdqn.config import Config
    from flashdqn.config.settings import apply_settings
    from flashdqn.training.callbacks import Callbacks, EvaluationEvent, ReportEvent
    from flashdqn.training.progress import Plain
    from flashdqn.training.session import start_run

    clock = [0.0]  # the training's seconds at the last report, which comes right before an evaluation

    def note_report(event: ReportEvent) -> None:
        clock[0] = event.seconds

    def ask_sweep(event: EvaluationEvent) -> bool:
        return link.ask("evaluation", step=event.step, seconds=clock[0], score=event.score)

    began = time.perf_counter()
    callbacks = Callbacks(on_report=note_report, on_evaluation=ask_sweep)
    config = apply_settings(Config(), settings)
    end = start_run(config, Plain(Console(file=sys.stderr)), callbacks=callbacks)
    drop_states(end.path)
    games, summary = end.summary.get("evaluation") or {}, end.summary
    return {
        "run": str(end.path),
        "finished": end.finished,
        "stopped": str(summary.get("stopped")),
        "steps": summary["steps"],
        "seconds": summary["seconds"],
        "wall_seconds": round(time.perf_counter() - began, 3),
        "score": games.get("mean_score"),
        "score_error": games.get("score_error"),
    }


def drop_states(run: Path) -> None:
    """Remove what only a resumed training needs: replays of all trials would fill a disk."""
    from flashdqn.runs.checkpoint import STATE, list_checkpoints

    with suppress(OSError, FlashDQNError):
        for path in list_checkpoints(run / "checkpoints", with_state=True):
            (path / STATE).unlink(missing_ok=True)
