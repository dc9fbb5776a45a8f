"""The search: ask Optuna, start trials, pass on their evaluations, prune, and note how each of them ended."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from flashdqn.config import Config
from flashdqn.config.settings import to_dict
from flashdqn.core.errors import ConfigError, FlashDQNError
from flashdqn.core.signals import Interrupt
from flashdqn.sweep.budget import SweepClock, compute_share, find_patience
from flashdqn.sweep.folder import SweepFolder, SweepPlan
from flashdqn.sweep.pool import TrialMessage, TrialTask
from flashdqn.sweep.results import LOST, RUNNING, TrialResult, choose_winner, list_results
from flashdqn.sweep.study import (
    ERROR,
    LABEL,
    POINTS,
    REASON,
    RUN,
    RUNGS,
    SECONDS,
    STEPS,
    WALL,
    decode_values,
    encode_values,
    hide_experimental_warnings,
    import_optuna,
    make_distribution,
)

#: Trials that fail one after the other before the sweep gives up.
MOST_FAILURES = 10
#: The study's note of the seconds that earlier sessions have used.
USED = "used_seconds"
OUT_OF_TIME = "the sweep's time was over"


class Pool(Protocol):
    """Where trials run: processes of this machine, or a cluster."""

    @property
    def is_full(self) -> bool:
        """Whether no more trials may start now."""

    def run(
        self,
        propose: Callable[[], None],
        handle: Callable[[TrialMessage], None],
        watch: Callable[[], bool],
    ) -> None:
        """Run what `propose` starts, `handle` what trials say, until there is nothing more or `watch` is true."""

    def start(self, task: TrialTask) -> None:
        """Start a trial."""

    def answer(self, name: str, prune: bool) -> None:
        """Answer an evaluation of a trial."""

    def find_late(self, patience: float) -> list[str]:
        """The trials that have been running for longer than that."""

    def end_trial(self, name: str) -> None:
        """End one trial at once."""

    def stop_all(self) -> None:
        """Let all trials save and end."""


class SweepDisplay(Protocol):
    """Sees what happens."""

    def show_search(self, search: Search) -> None:
        """Called several times a second."""

    def note(self, text: str) -> None:
        """Show a message."""

    def end_trial(self, result: TrialResult, search: Search) -> None:
        """Called when a trial has ended."""


@dataclass
class LiveTrial:
    """A trial that is running."""

    trial: Any  # Optuna's
    values: Mapping[str, Any]
    config: Config
    began: float = field(default_factory=time.monotonic)
    points: list[tuple[float, float]] = field(default_factory=list)
    done: float = 0.0  # the share of its budget
    rung: int = 0
    pruned: bool = False

    def note_evaluation(self, seconds: float, score: float, share: float) -> bool:
        """Note an evaluation after a share of the budget; whether it is the first one on a new rung."""
        self.points.append((round(seconds, 3), score))
        self.done = share
        before, self.rung = self.rung, max(self.rung, int(share * RUNGS))
        return self.rung > before and share < 1.0


class Search:
    """A sweep's search in its folder, from its beginning or from where it was."""

    def __init__(
        self,
        plan: SweepPlan,
        folder: SweepFolder,
        study: Any,
        pool: Pool,
        clock: SweepClock,
        display: SweepDisplay,
    ) -> None:
        self.plan, self.folder, self.study = plan, folder, study
        self.pool, self.clock, self.display = pool, clock, display
        self.space = plan.space
        self.distributions = {one.name: make_distribution(one) for one in self.space.dimensions}
        self.running: dict[str, LiveTrial] = {}
        self.states = import_optuna().trial.TrialState
        self.failures = 0  # one after the other
        self.results = list_results(study, self.space)
        notes = [trial.user_attrs for trial in study.get_trials(deepcopy=False)]
        clock.took += [float(one[WALL]) for one in notes if WALL in one]

    @property
    def started(self) -> int:
        """Trials that count: those that were lost with an earlier session are tried again."""
        ended = [one for one in self.results if one.state != RUNNING and one.reason != LOST]
        return len(ended) + len(self.running)

    @property
    def best(self) -> TrialResult | None:
        """The best trial so far."""
        return choose_winner(self.results)

    def run(self, interrupt: Interrupt) -> bool:
        """Search until the trials or the time are used up (True), or a signal asks to stop (False)."""
        self.begin()

        def watch() -> bool:
            self.display.show_search(self)
            self.end_late_trials()
            return interrupt.requested

        self.pool.run(self.fill, self.handle, watch)
        if not interrupt.requested:
            return True
        self.stop()
        return False

    def begin(self) -> None:
        """Take up what an earlier session has left; in a new sweep, the preset's own values are tried first."""
        trials = self.study.get_trials(deepcopy=False)
        for trial in trials:
            if trial.state == self.states.RUNNING:
                self.study.tell(trial.number, state=self.states.FAIL)
                if trial.params:
                    self.study.enqueue_trial(dict(trial.params), user_attrs=_keep_label(trial))
        if not trials:
            values = self.space.find_base_values(self.plan.base)
            if values is not None:
                notes = {LABEL: "preset"}
                self.study.enqueue_trial(encode_values(self.space, values), user_attrs=notes)
            else:
                self.display.note(
                    "The preset's own values lie outside of the space: it is trained at the end."
                )
        self.results = list_results(self.study, self.space)

    def fill(self) -> None:
        """Start trials while there is room and time."""
        confirmations = 2 * self.plan.seeds
        while not self.pool.is_full and self.started < self.plan.trials:
            if self.clock.is_search_over(confirmations):
                return
            self.start_trial()

    def start_trial(self) -> None:
        """Start the one that the sampler proposes."""
        with hide_experimental_warnings():
            trial = self.study.ask(self.distributions)
        values = decode_values(self.space, trial.params)
        folder = self.folder.find_trial_folder(trial.number)
        try:
            config = self.space.apply(self.plan.base, values)
        except ConfigError as error:
            self.finish_failed(trial, f"refused: {error}", values)
            return
        config = dataclasses.replace(config, out=str(folder))
        name = str(trial.number)
        self.running[name] = LiveTrial(trial, values, config)
        self.pool.start(TrialTask(name, json.loads(json.dumps(to_dict(config))), folder))

    def handle(self, message: TrialMessage) -> None:
        """Answer an evaluation, or note an end."""
        live = self.running.get(message.name)
        if live is None:
            return
        if message.event == "evaluation":
            self.pool.answer(message.name, self.judge(live, message.data))
            return
        del self.running[message.name]
        self.clock.took.append(time.monotonic() - live.began)
        self.study.set_user_attr(USED, round(self.clock.used, 1))
        score: Any = message.data.get("score")
        if message.event == "ended" and message.data.get("finished") and is_number(score):
            self.finish(live, message.data, float(score))
        else:
            reason = str(message.data.get("reason") or message.data.get("stopped") or "it has no score")
            self.finish_failed(live.trial, reason, live.values, live.points)

    def judge(self, live: LiveTrial, data: Mapping[str, Any]) -> bool:
        """Note an evaluation; whether the trial should be pruned."""
        score, seconds, step = float(data["score"]), float(data["seconds"]), int(data["step"])
        if not math.isfinite(score):
            return False
        if not live.note_evaluation(seconds, score, compute_share(self.plan.base, step, seconds)):
            return False
        live.trial.set_user_attr(POINTS, live.points)
        if self.plan.objective == "both":  # Optuna prunes by one number alone
            return False
        live.trial.report(score, live.rung)
        live.pruned = bool(live.trial.should_prune())
        return live.pruned

    def finish(self, live: LiveTrial, data: Mapping[str, Any], score: float) -> None:
        """Note the end of a trial that has a score."""
        trial, error = live.trial, data.get("score_error")
        for key, value in (
            (RUN, str(data["run"])),
            (SECONDS, data["seconds"]),
            (STEPS, data["steps"]),
            (WALL, round(time.monotonic() - live.began, 3)),
            (ERROR, error if is_number(error) else 0.0),
            (POINTS, live.points),
        ):
            trial.set_user_attr(key, value)
        self.failures = 0
        if live.pruned:
            self.study.tell(trial, state=self.states.PRUNED)
        else:
            best = max(live.points, key=lambda point: point[1], default=(data["seconds"], score))
            self.study.tell(trial, [score, best[0]] if self.plan.objective == "both" else score)
        self._show_end(trial.number)

    def finish_failed(
        self,
        trial: Any,
        reason: str,
        values: Mapping[str, Any],
        points: list[tuple[float, float]] | None = None,
    ) -> None:
        """Note a trial that has no score; many of them in a row end the sweep."""
        trial.set_user_attr(REASON, reason)
        if points:
            trial.set_user_attr(POINTS, points)
        self.study.tell(trial, state=self.states.FAIL)
        self._show_end(trial.number)
        self.failures += 1
        if self.failures >= MOST_FAILURES:
            raise SweepFailedError(
                f"{self.failures} trials failed one after the other, the last one because: {reason}"
            )

    def end_late_trials(self) -> None:
        """End trials that hang, and those that are still running when the time of the search is over."""
        for name in self.pool.find_late(find_patience(self.plan.base)):
            self._give_up(name, "it did not end in time, and was ended")
        if self.running and self.clock.left <= 0:
            for name in list(self.running):
                self._give_up(name, OUT_OF_TIME)

    def _give_up(self, name: str, reason: str) -> None:
        live = self.running.pop(name, None)
        self.pool.end_trial(name)
        if live is not None:
            self.finish_failed(live.trial, reason, live.values, live.points)
            self.failures -= reason == OUT_OF_TIME

    def stop(self) -> None:
        """Let all trials save and end; they are tried again when the sweep goes on."""
        self.display.note(f"Stopping: {len(self.running)} trials end now, and are tried again by --resume.")
        self.pool.stop_all()
        self.running.clear()  # in the journal they are still running: `begin` finds them
        self.study.set_user_attr(USED, round(self.clock.used, 1))

    def _show_end(self, number: int) -> None:
        self.results = list_results(self.study, self.space)
        found = next((one for one in self.results if one.number == number), None)
        if found is not None:
            self.display.end_trial(found, self)


class SweepFailedError(FlashDQNError):
    """Nothing works: the sweep ends."""

    exit_code = 1


def is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _keep_label(trial: Any) -> dict[str, Any]:
    return {LABEL: trial.user_attrs[LABEL]} if LABEL in trial.user_attrs else {}
