"""Run a loop to its end, whatever that is, and sum up what the run leaves behind."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashdqn.compute.seeds import purpose_seed
from flashdqn.config import Config
from flashdqn.core.contract import close_env
from flashdqn.core.errors import CheckpointError, EnvError, StorageError
from flashdqn.core.guard import end_stuck_process
from flashdqn.core.signals import (
    STOP_SIGNALS,
    Interrupt,
    Stopped,
    StopRequestedError,
    find_exit_code,
    name_signal,
)
from flashdqn.envs import build_evaluation_env
from flashdqn.learn.learner import build_learner
from flashdqn.runs.best import find_best_checkpoint
from flashdqn.runs.checkpoint import load_checkpoint
from flashdqn.runs.records import SUMMARY_FILE
from flashdqn.training.assemble import Parts
from flashdqn.training.callbacks import NO_CALLBACKS, Callbacks
from flashdqn.training.ending import (
    NO_PAGES,
    Pages,
    close_loop,
    describe_run,
    describe_time,
    explain_failure,
    leave_failed,
    write_pages,
)
from flashdqn.training.evaluate import Evaluation, evaluate
from flashdqn.training.loop import Loop
from flashdqn.training.progress import watch_work
from flashdqn.training.warm_times import WarmUp

#: The most games that the best checkpoint plays when the training is over; an evaluation may have fewer.
JUDGED_GAMES = 100
#: A larger score in a summary is damage.
LARGEST = 1e300


@dataclass(frozen=True)
class SessionEnd:
    """What a session leaves behind: the folder, and how it ended."""

    path: Path
    config: Config
    finished: bool  # False: stopped by a signal
    summary: dict[str, Any]  # `stopped` says what ended it: "budget: steps", "Ctrl-C", "SIGTERM"

    @property
    def exit_code(self) -> int:
        """The exit code of a command that ends with it: 0, or that of the signal that stopped it."""
        ended_by = {name_signal(number): find_exit_code(number) for number in STOP_SIGNALS}
        return 0 if self.finished else ended_by.get(str(self.summary.get("stopped")), 1)

    @property
    def score(self) -> float:
        """Mean score of the best checkpoint over new games (NaN if the run was stopped before)."""
        played = self.summary.get("evaluation")
        score: Any = played.get("mean_score") if isinstance(played, dict) else None
        believed = (
            type(score) in (int, float) and abs(score) < LARGEST
        )  # a stranger's summary may say anything
        return float(score) if believed else math.nan


def run_and_summarize(
    loop: Loop, warm_up: WarmUp, pages: Pages, interrupt: Interrupt, callbacks: Callbacks = NO_CALLBACKS
) -> SessionEnd:
    """Train to the end, or to a signal or an error. Whatever happens, what can be saved is saved, and summary.json
    says how it ended."""
    config, folder = loop.config, loop.folder
    ranks = f" on {loop.ranks.world} ranks" if loop.ranks.many else ""
    title = (
        f"{config.preset} on {loop.parts.learner.device.type}, {config.envs:,} boards{ranks}, "
        f"train ratio {loop.ratio.asked:g}, batch {loop.batch:,}, "
        f"reuse {loop.batch * loop.ratio.asked:.3g}"
    )

    def save(reason: str) -> BaseException:
        return leave_failed(loop, warm_up, NO_PAGES, EnvError(reason))

    try:
        loop.progress.note(f"Warm after {warm_up}; mode {warm_up.choice.why}")
        loop.progress.begin(title, loop.ratio.asked)
        unclosed: EnvError | None = None
        try:
            with end_stuck_process(save):
                finished = loop.run(interrupt, callbacks)
        finally:
            unclosed = close_loop(loop, sinks=False)
        if not loop.begun:
            interrupt.waits = False
            interrupt.stop_if_requested()
        with end_stuck_process(save):
            summary = summarize_run(loop, warm_up, finished)
    except BaseException as error:
        failure = leave_failed(loop, warm_up, pages, error)
        loop.reporter.close()
        if failure is error:
            raise
        raise failure from error
    loop.reporter.close(summary)
    try:
        folder.write_json(SUMMARY_FILE, summary)
    except OSError as error:
        raise explain_failure(loop, error, None) from error
    run = draw_run(SessionEnd(folder.shown, config, bool(summary["finished"]), summary), pages, loop)
    if unclosed is not None and run.finished:
        raise EnvError(f"{unclosed} The training is complete and saved in {folder.shown}.") from unclosed
    return run


def draw_run(run: SessionEnd, pages: Pages, loop: Loop) -> SessionEnd:
    """Write the pages. A signal that comes now leaves them to the resumed run, which is then not finished yet."""
    interrupt = loop.interrupt
    # Of a run that was stopped, they are written as far as there is time.
    interrupt.waits = not run.finished
    try:
        if run.finished:
            interrupt.stop_if_requested()
        with loop.clock.count_as("pages"):
            write_pages(loop.folder.path, pages, loop.progress)
    except Stopped as error:
        if run.finished:
            summary = run.summary | {"finished": False, "stopped": name_signal(error.signal)}
            loop.folder.write_json(SUMMARY_FILE, summary)
            return replace(run, finished=False, summary=summary)
    summary = run.summary | describe_time(loop)
    with suppress(OSError, CheckpointError, StorageError):  # it is there already, without the pages' time
        loop.folder.write_json(SUMMARY_FILE, summary)
    return replace(run, summary=summary)


def summarize_run(loop: Loop, warm_up: WarmUp, finished: bool) -> dict[str, Any]:
    """The run in figures. The best checkpoint is evaluated again on new games, because it was partly chosen by
    chance. A signal cuts that off, and the run is not finished then."""
    summary, interrupt = describe_run(loop, warm_up), loop.interrupt
    best = find_best_checkpoint(loop.folder.checkpoints)
    if finished and best is not None:
        try:
            stop = watch_work(loop.progress, "judging the best checkpoint", interrupt)
            count = min(JUDGED_GAMES, loop.config.eval.episodes)
            count, patience = loop.evaluator.plan_last("The best checkpoint", count, loop.seconds)
            with loop.clock.count_as("evaluation"):
                result = evaluate_checkpoint(loop.config, loop.parts, best[0], count, stop, patience)
            summary["best_checkpoint"] = best[0].name
            if math.isfinite(result.mean_score):
                summary["evaluation"] = result.to_json()
        except StopRequestedError:
            finished = False
        except CheckpointError as error:  # damaged since it was written: the run itself is complete
            loop.progress.note(f"The best checkpoint could not be evaluated: {error}")
        finally:
            loop.progress.end()
    if interrupt.signal is not None and not finished:
        stopped = name_signal(interrupt.signal)
    else:
        stopped = loop.listener.reason or f"budget: {loop.budget.reached(loop.parts.counts, loop.seconds)}"
    return summary | describe_time(loop) | {"finished": finished, "stopped": stopped}


def evaluate_checkpoint(
    config: Config,
    parts: Parts,
    path: Path,
    games: int,
    stop: Callable[[], bool] = bool,
    patience: float = math.inf,
) -> Evaluation:
    """Play with a checkpoint's weights on seeds that no evaluation in the run has used."""
    device = parts.learner.device
    env = build_evaluation_env(config.env, games, device)
    learner = build_learner(config, env, device)
    learner.online.load_state_dict(load_checkpoint(path, with_state=False)[0])
    try:
        seed = purpose_seed(config.seed, "judgement")
        return evaluate(env, learner.online, learner.head, seed, stop=stop, patience=patience)
    finally:
        close_env(env)
