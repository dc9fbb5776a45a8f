"""How a training ends: the pages of a finished one, and what is saved and said after an error."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from flashdqn.config import Config
from flashdqn.config.settings import resume_flag
from flashdqn.core.contract import close_env
from flashdqn.core.errors import (
    BadNumbersError,
    CallbackError,
    CheckpointError,
    DivergedError,
    EnvError,
    FlashDQNError,
    MemoryShortageError,
    RankLostError,
    StorageError,
)
from flashdqn.core.memory import explain_shortage
from flashdqn.core.signals import Stopped
from flashdqn.envs.live_env import is_live_name
from flashdqn.runs import checkpoint
from flashdqn.runs.folder import RunFolder
from flashdqn.runs.records import DEMOS_FILE, SUMMARY_FILE
from flashdqn.runs.tables import read_metrics
from flashdqn.training.loop import Loop
from flashdqn.training.progress import Progress
from flashdqn.training.rank_times import summarize_waiting
from flashdqn.training.warm_times import WarmUp

#: What is drawn of a finished run: from its name in messages to a function of the run's folder.
Pages = Mapping[str, Callable[[Path], object]]
NO_PAGES: Pages = {}


def describe_run(loop: Loop, warm_up: WarmUp) -> dict[str, Any]:
    """A run in figures, so far."""
    parts = loop.parts
    ratio = loop.ratio.achieved(parts.counts.transitions, parts.learner.updates)
    summary: dict[str, Any] = {
        "finished": False,
        "steps": parts.counts.transitions,
        "episodes": parts.counts.episodes,
        "updates": parts.learner.updates,
        "seconds": round(loop.seconds, 3),
        "warm_up_seconds": round(warm_up.seconds, 3),
        "first_warm_up_seconds": round(warm_up.first, 3),
        "mode": str(warm_up.choice.plan),
        "train_ratio_asked": loop.ratio.asked,
        "train_ratio": ratio,
        "batch": loop.batch,
        "reuse": loop.batch * ratio,
        "window_steps_per_second": find_window_rate(loop.folder.path),
        **describe_time(loop),
        "skipped_evaluations": loop.evaluator.share.skipped,
        "weights": checkpoint.hash_weights(parts.learner.weights()),
    }
    if loop.waits:
        summary["ranks"] = summarize_waiting(loop.waits, loop.ranks.waited.exchanges, loop.seconds)
    if demos := loop.folder.read_json(DEMOS_FILE):
        summary["demonstrations"] = demos
    return summary


def describe_time(loop: Loop) -> dict[str, Any]:
    """All time since the command began, what it was spent on, and the rate by it. A resumed run adds up its
    sessions, each until the checkpoint that the next one went on from."""
    total = loop.clock.total
    return {
        "wall_seconds": round(total, 3),
        "wall_steps_per_second": round(loop.parts.counts.transitions / total, 1) if total else None,
        "time": {part: round(seconds, 3) for part, seconds in loop.clock.read().items()},
    }


def find_window_rate(path: Path) -> float | None:
    """Transitions per second of the run's windows, their median; None if no window has a rate."""
    try:
        rates = [row.steps_per_second for row in read_metrics(path)]
    except (OSError, ValueError):
        return None
    rates = [rate for rate in rates if math.isfinite(rate)]
    return round(statistics.median_high(rates), 1) if rates else None


def leave_failed(loop: Loop, warm_up: WarmUp, pages: Pages, error: BaseException) -> BaseException:
    """Save what can be saved after an error, and say so; returns the error to raise. Nothing that goes wrong here
    may hide the first error."""
    interrupt, progress = loop.interrupt, loop.progress
    if isinstance(error, Stopped | GeneratorExit):
        return error
    if interrupt.ended_at_once and interrupt.signal is not None:  # somebody has made another error of it
        return Stopped(interrupt.signal)
    if isinstance(error, SystemExit | KeyboardInterrupt):  # from the code of an environment or a network
        error = EnvError(f"{loop.parts.env.name} raised {type(error).__name__} ({error}).")
    failure = explain_failure(loop, error, save_after(loop, error))
    reason = str(failure) if isinstance(failure, FlashDQNError) else f"{type(error).__name__}: {error}"
    if not loop.begun:
        return failure
    with suppress(Exception):
        summary = describe_run(loop, warm_up) | {"finished": False, "stopped": reason}
        loop.folder.write_json(SUMMARY_FILE, summary)
    # The report plays a game in this process: not with an environment that may have ended a worker.
    if not isinstance(failure, StorageError | EnvError | MemoryShortageError):
        with suppress(Exception):
            write_pages(loop.folder.path, pages, progress)
    return failure


def save_after(loop: Loop, error: BaseException) -> Path | None:
    """Save a checkpoint after an error, where the training's state is whole; None if it is not saved."""
    if isinstance(error, BadNumbersError | DivergedError | CheckpointError) or not loop.begun:
        return None
    if loop.ranks.many:  # a checkpoint needs all ranks, and the others are not where this one is
        return None
    # An environment fails before anything is learned from it.
    if not loop.whole and not isinstance(error, EnvError):
        return None
    try:
        return loop.save()
    except Exception as second:  # the first error is what counts
        with suppress(Exception):
            loop.progress.note(f"The run could not be saved after it: {type(second).__name__}: {second}")
        return None


def explain_failure(loop: Loop, error: BaseException, saved: Path | None) -> BaseException:
    """An error as one sentence with what to do; an unexpected one stays as it is."""
    whole = checkpoint.list_checkpoints(loop.folder.checkpoints)
    last = "there is no checkpoint before it"
    if whole:
        last = f"the last good checkpoint is {loop.folder.shown / 'checkpoints' / whole[-1].name}"
    step = f"{loop.parts.counts.transitions:,}"
    again = f"go on with: {format_resume_command(loop.folder, loop.config)}"
    resumable = bool(checkpoint.list_checkpoints(loop.folder.checkpoints, with_state=True))
    if saved is not None:
        kept = f"What was learned before step {step} is saved; {again}"
    else:
        kept = (
            f"The last checkpoint is whole; {again}"
            if resumable
            else "There is no checkpoint to resume from."
        )
    text = str(error).rstrip(". ")
    if isinstance(error, DivergedError):
        return DivergedError(
            f"{text}, at step {step}; {last}. {error.advice} See docs/troubleshooting.md#nan."
        )
    if isinstance(error, EnvError):
        failure = EnvError(f"{text}. {kept}" if loop.begun else f"{text}.")
        if isinstance(error, BadNumbersError):  # a smaller learning rate would not help
            then = f", then {again}" if resumable else "."
            mend = f"Correct the environment (flashdqn.envs.check_env looks for such numbers){then}"
            failure = EnvError(f"{text}, at step {step}; {last}. {mend}")
        failure.__cause__ = error
        return failure
    if isinstance(error, RankLostError):
        lost = RankLostError(f"{text}. {kept}")
        lost.__cause__ = error
        return lost
    if isinstance(error, CallbackError):
        failed = CallbackError(f"{text}. {kept}")
        failed.__cause__ = error.__cause__
        return failed
    if shortage := explain_shortage(error):
        return MemoryShortageError(f"{shortage} {kept}")
    if isinstance(error, CheckpointError):
        return StorageError(f"{text}. {kept}")
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return StorageError(f"{error.strerror or text}{where}. {kept}")
    if not isinstance(error, FlashDQNError):
        with suppress(Exception):
            loop.progress.note(f"An unexpected {type(error).__name__} ends the training. {kept}")
    return error


def format_resume_command(folder: RunFolder, config: Config) -> str:
    """The command that continues a run, or the call in Python if it was given an environment there."""
    if is_live_name(getattr(config.env, "id", "")):
        return f"flashdqn.train(resume={str(folder.shown)!r}, env=…)"
    return f"flashdqn train --resume {shlex.quote(str(folder.shown))}{resume_flag(config)}"


def close_loop(loop: Loop, sinks: bool = True) -> EnvError | None:
    """Close the environments, the display and the sinks; none of them may keep the others open. Returns what went
    wrong in an environment."""
    problems = [close_env(loop.parts.env), close_env(loop.games)]
    with suppress(Exception):
        loop.progress.end()
    if sinks:
        loop.reporter.close()
    return problems[0] or problems[1]


def write_pages(path: Path, pages: Pages, progress: Progress) -> None:
    """Write the curve and the report. An error here is only a note: the run itself is complete."""
    for what, write in pages.items():
        try:
            write(path)
        except Exception as error:  # a drawing library, an environment's own pictures, a full disk
            progress.note(f"The {what} could not be written: {type(error).__name__}: {error}")
