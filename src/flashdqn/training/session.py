"""A training session: check, create the parts, warm up, run the loop (see summary.py)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from flashdqn.compute.device import describe_hardware
from flashdqn.compute.ranks import ALONE, Ranks
from flashdqn.config import Config
from flashdqn.config.rank_share import check_share
from flashdqn.core.contract import close_env
from flashdqn.core.errors import ConfigError, DivergedError
from flashdqn.core.files import remove_anything
from flashdqn.core.guard import end_stuck_process
from flashdqn.core.signals import Interrupt, Stopped, name_signal
from flashdqn.runs import checkpoint
from flashdqn.runs.folder import RunFolder
from flashdqn.runs.output import check_output_folder
from flashdqn.runs.records import SUMMARY_FILE
from flashdqn.training.budget import Budget
from flashdqn.training.callbacks import NO_CALLBACKS, Callbacks
from flashdqn.training.clock import RunClock
from flashdqn.training.counts import Counts
from flashdqn.training.ending import (
    NO_PAGES,
    Pages,
    close_loop,
    format_resume_command,
)
from flashdqn.training.loop import Loop
from flashdqn.training.prepared import Session
from flashdqn.training.progress import Progress
from flashdqn.training.rank_session import open_session
from flashdqn.training.rank_share import (
    check_same_settings,
    lead,
    lead_first,
)
from flashdqn.training.restarts import remember_run
from flashdqn.training.summary import SessionEnd


def start_run(
    config: Config,
    progress: Progress,
    pages: Pages = NO_PAGES,
    callbacks: Callbacks = NO_CALLBACKS,
    clock: RunClock | None = None,
    ranks: Ranks = ALONE,
) -> SessionEnd:
    """Start a new run from its first step; `pages` are drawn of it when it ends. `clock` runs since the command
    began. All `ranks` call it with the same settings, and the leader writes."""
    clock = clock or RunClock()
    check_same_settings(config, ranks)
    lead(ranks, lambda: check_start(config, ranks.world))
    home = Path.cwd()
    with (
        work_in(home),
        Interrupt() as interrupt,
        explain_early_end(interrupt, "there is nothing to save"),
    ):
        interrupt.stop_if_requested()
        with show_warm_up(progress), open_session(config, progress.note, ranks) as session:
            clock.end_start_up(session.warm_up_seconds)
            interrupt.stop_if_requested()
            interrupt.waits = True  # from here on there is something to save
            with work_in(home):  # where the environments have not led
                path = lead(ranks, lambda: create_folder(session, ranks))
            folder = RunFolder(Path(path[0]))
            folder.shown = Path(path[1])
            if not ranks.leads:
                return follow_leader(session, folder, progress, Loop.start, interrupt)
            with folder.locked(), discard_unstarted(folder):
                with end_stuck_process(lambda reason: remove_anything(folder.path)):  # nothing has begun
                    loop = make_closing_loop(session, folder, progress, Loop.start, clock)
                return session.train(loop, pages, interrupt, callbacks)


def resume_run(
    config: Config,
    path: Path,
    progress: Progress,
    pages: Pages = NO_PAGES,
    callbacks: Callbacks = NO_CALLBACKS,
    clock: RunClock | None = None,
    ranks: Ranks = ALONE,
) -> SessionEnd:
    """Continue a run; `config` is its own, except for the budget. `clock` runs since the command began. All `ranks`
    call it with the same settings, and the leader reads and writes; they may be more or fewer than before."""
    clock = clock or RunClock()
    check_same_settings(config, ranks)
    lead(ranks, lambda: check_share(config, ranks.world))
    folder = lead_first(ranks, lambda: RunFolder.open(path))
    if folder is None:
        return _follow_resumed(config, progress, ranks)
    folder.make_absolute()
    again = format_resume_command(folder, config)
    with (
        work_in(Path.cwd()),
        Interrupt() as interrupt,
        explain_early_end(interrupt, f"the run is as it was; go on with: {again}"),
        folder.locked(),
    ):
        interrupt.stop_if_requested()
        return _resume_locked(config, folder, path, progress, pages, interrupt, callbacks, clock, ranks)


def _resume_locked(
    config: Config,
    folder: RunFolder,
    path: Path,
    progress: Progress,
    pages: Pages,
    interrupt: Interrupt,
    callbacks: Callbacks,
    clock: RunClock,
    ranks: Ranks,
) -> SessionEnd:
    def find_point() -> tuple[Path, dict[str, Any]]:
        folder.recover()
        point = folder.resume_point(path)
        command = "flashdqn train --resume"
        counters = checkpoint.load_or_suggest_older(point, with_state=True, command=command)[2]
        check_budget_left(config, folder, counters)
        check_output_folder(str(folder.path))
        return point, counters

    found = lead_first(ranks, find_point)
    assert found is not None
    point, counters = found
    remember_run(config_out=config.out, path=folder.path)
    with show_warm_up(progress), open_session(config, progress.note, ranks) as session:
        clock.end_start_up(session.warm_up_seconds)
        interrupt.stop_if_requested()
        interrupt.waits = True
        loop = make_closing_loop(session, folder, progress, lambda loop: loop.resume(point), clock)
        remove_anything(folder.path / SUMMARY_FILE)
        folder.change_budget(config, counters["transitions"])
        return session.train(loop, pages, interrupt, callbacks)


def _follow_resumed(config: Config, progress: Progress, ranks: Ranks) -> SessionEnd:
    """Take part in a run that the leader continues."""
    with work_in(Path.cwd()), Interrupt() as interrupt:
        lead(ranks, lambda: None)  # the leader looks for a checkpoint
        with show_warm_up(progress), open_session(config, progress.note, ranks) as session:
            interrupt.stop_if_requested()
            interrupt.waits = True
            nowhere = RunFolder(Path())
            return follow_leader(session, nowhere, progress, lambda loop: loop.resume(Path()), interrupt)


def follow_leader(
    session: Session,
    folder: RunFolder,
    progress: Progress,
    begin: Callable[[Loop], None],
    interrupt: Interrupt,
) -> SessionEnd:
    """Train as a rank that does not lead: nothing is written, read or shown here."""
    loop = make_closing_loop(session, folder, progress, begin)
    try:
        with end_stuck_process():
            finished = loop.run(interrupt)
    finally:
        close_loop(loop)
    stopped = "" if interrupt.signal is None or finished else name_signal(interrupt.signal)
    return SessionEnd(folder.shown, session.config, finished, {"stopped": stopped})


def check_start(config: Config, world: int) -> None:
    """Refuse a new run without an end, in a folder that cannot be written, or that ranks cannot share."""
    if config.steps is None and config.episodes is None and config.max_time is None:
        raise ConfigError("Say when to stop: --steps, --episodes or --max-time.")
    check_share(config, world)
    check_output_folder(config.out)


def create_folder(session: Session, ranks: Ranks) -> tuple[str, str]:
    """The new run's folder: its path, and how the user wrote it."""
    hardware = describe_hardware(session.parts.learner.device) | {"mode": session.choice.why}
    if ranks.many:
        hardware |= {"ranks": ranks.world, "exchange": ranks.backend}
    folder = RunFolder.create(session.config, hardware)
    folder.make_absolute()
    remember_run(config_out=session.config.out, path=folder.path)
    return str(folder.path), str(folder.shown)


def make_closing_loop(
    session: Session,
    folder: RunFolder,
    progress: Progress,
    begin: Callable[[Loop], None],
    clock: RunClock | None = None,
) -> Loop:
    """The loop, begun; if that fails, its environments are closed."""
    try:
        loop = session.make_loop(folder, progress, clock=clock)
    except BaseException:
        close_env(session.parts.env)
        raise
    try:
        begin(loop)
    except BaseException:
        close_loop(loop)
        raise
    return loop


@contextmanager
def work_in(folder: Path) -> Iterator[None]:
    """Work in a folder, and return to the one before."""
    try:
        before = Path.cwd()
    except OSError:  # somebody, such as an environment, has removed it
        before = folder
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def explain_early_end(interrupt: Interrupt, what: str) -> Iterator[None]:
    """Say what a signal means that comes before there is anything to save."""
    try:
        yield
    except Stopped as error:
        if interrupt.waits:
            raise
        raise Stopped(error.signal, f"Stopped before the first step; {what}.") from None


@contextmanager
def discard_unstarted(folder: RunFolder) -> Iterator[None]:
    """Remove the new folder of a run that ends before its first step: nothing could go on from it."""
    try:
        yield
    except DivergedError:
        raise
    except BaseException:
        empty = not checkpoint.list_checkpoints(folder.checkpoints)
        if empty and not any((folder.path / name).exists() for name in ("metrics.csv", "evaluations.csv")):
            with suppress(OSError):
                remove_anything(folder.path)
        raise


def check_budget_left(config: Config, folder: RunFolder, counters: dict[str, Any]) -> None:
    """Refuse to resume a finished run that has nothing left to do, before anything is changed."""
    done = Counts(torch.device("cpu"))
    done.load(counters["transitions"], counters["episodes"])
    if Budget.of(config).share(done, counters["seconds"]) >= 1.0 and folder.finished():
        raise ConfigError(
            f"{folder.shown} has used its budget ({done.transitions:,} steps, {done.episodes:,} episodes, "
            f"{counters['seconds']:.0f} s): give a larger --steps, --episodes or --max-time to go on."
        )


@contextmanager
def show_warm_up(progress: Progress) -> Iterator[None]:
    """Show the warm-up, until the training begins or something goes wrong."""
    progress.prepare()
    try:
        yield
    finally:
        progress.prepared()
