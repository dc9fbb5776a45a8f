"""A training that is ready: warm, with a filled replay, and trained only during its turns."""

from __future__ import annotations

import dataclasses
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numba
import torch

from flashdqn.compute.threads import limit_threads
from flashdqn.config import Config
from flashdqn.core.contract import close_env
from flashdqn.runs.folder import RunFolder
from flashdqn.training.autotune import Choice
from flashdqn.training.budget import crosses_multiple
from flashdqn.training.loop import Loop
from flashdqn.training.prepared import Session
from flashdqn.training.progress import Progress

#: Share of a turn that is trained before its clock starts: the others have left their data in the caches.
BURN_IN = 0.1

Threads = tuple[int, int]  # PyTorch's, and the games'


@dataclass(frozen=True)
class TurnResult:
    """What was done in a turn."""

    transitions: int
    updates: int
    seconds: float
    iterations: int = 0  # steps of all environments


class Ready:
    """Trains in its turns as `flashdqn train` does: with reports and a display, but without evaluations and
    checkpoints, which are not training time."""

    def __init__(self, loop: Loop, choice: Choice, used: Threads, warm_up: float, notes: list[str]) -> None:
        self.loop, self.choice, self.threads, self.warm_up, self.notes = loop, choice, used, warm_up, notes

    @property
    def mode(self) -> str:
        """How its work runs."""
        return str(self.choice.plan)

    @property
    def ratio_asked(self) -> float:
        """Updates per transition, as configured."""
        return self.loop.ratio.asked

    def own_threads(self) -> AbstractContextManager[None]:
        """Use the threads that it was prepared with."""
        return limit_threads(*self.threads)

    def turn(self, seconds: float, reports: bool = True, least: int = 1) -> TurnResult:
        """Train for `seconds` and at least `least` iterations; the turn ends when all earned updates are done."""
        loop, parts = self.loop, self.loop.parts
        with self.own_threads():
            self._burn_in(BURN_IN * seconds)
            transitions, updates = parts.counts.transitions, parts.learner.updates
            loop.reporter.open_window()
            steps, begun, launches = loop.engine.vector_steps, time.perf_counter(), 0
            while (elapsed := time.perf_counter() - begun) < seconds or launches < least:
                self._iterate(elapsed, reports)
                launches += 1
            end_rollout(loop)
            finish_updates(loop)
            took = time.perf_counter() - begun
        collected, done = parts.counts.transitions - transitions, parts.learner.updates - updates
        return TurnResult(collected, done, took, loop.engine.vector_steps - steps)

    def _burn_in(self, seconds: float) -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            self._iterate(0.0, reports=False)
        end_rollout(self.loop)
        finish_updates(self.loop)
        self.loop.parts.phases.read()  # they do not belong to this turn

    def _iterate(self, elapsed: float, reports: bool) -> None:
        loop, counts = self.loop, self.loop.parts.counts
        loop.progress.tick(0.0, counts.transitions, counts.episodes, elapsed)
        before = counts.transitions
        loop.iterate()
        if reports and crosses_multiple(loop.config.report_every, before, counts.transitions):
            loop.reporter.report(elapsed)

    def close(self) -> None:
        """Close its environments and its reporter."""
        close_env(self.loop.parts.env)
        self.loop.reporter.close()


def prepare_training(config: Config, folder: Path, progress: Progress, used: Threads | None = None) -> Ready:
    """Prepare a training that is warm and has collected what learning starts from; `used` are threads that were
    chosen before. It writes only into `folder`."""
    notes: list[str] = []
    limits = limit_threads(*used) if used else None
    with Session.open(_fix_threads(config, used), notes.append, limits) as session:
        env = session.parts.env
        try:
            loop = session.make_loop(RunFolder(folder), progress, games=env)
            _fill_replay(loop)
        except BaseException:
            close_env(env)
            raise
        now = torch.get_num_threads(), numba.get_num_threads()
        return Ready(loop, session.choice, now, session.warm_up_seconds, notes)


def _fix_threads(config: Config, used: Threads | None) -> Config:
    """Set the threads that were chosen before, so that none are tried out."""
    if used is None:
        return config
    return dataclasses.replace(config, runtime=dataclasses.replace(config.runtime, threads=used[0]))


def _fill_replay(loop: Loop) -> None:
    loop.folder.checkpoints.mkdir(parents=True, exist_ok=True)
    loop.start()
    loop.progress.begin(loop.config.preset, loop.ratio.asked)
    while loop.parts.counts.transitions < loop.ratio.starts:
        loop.iterate()


def finish_updates(loop: Loop) -> None:
    """Do all updates that were earned, and wait for the device."""
    counts = loop.parts.counts
    loop.engine.settle()
    loop.learn()
    if counts.totals.device.type == "cuda":
        torch.cuda.synchronize(counts.totals.device)


def end_rollout(loop: Loop) -> None:
    """Finish a PQN rollout. PQN learns once per rollout: a turn that ended inside one would count steps without
    their updates."""
    updates = loop.parts.learner.updates
    while loop.parts.rollouts is not None and loop.parts.learner.updates == updates:
        loop.iterate()
