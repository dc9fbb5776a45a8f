"""Experiments side by side: all are ready and take turns, so a busy machine slows all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from flashdqn.config import Config
from flashdqn.core.errors import FlashDQNError
from flashdqn.profile.compare import ENOUGH, compute_speed_up, compute_spread, judge_speed_up
from flashdqn.profile.experiments import AGAIN, BASELINE, Experiment, relative_ratio
from flashdqn.profile.ready import BURN_IN, Threads, TurnResult
from flashdqn.profile.result import LeftOut, Outcome, RoundSpread, Verdict
from flashdqn.training.engine import first_error_line

#: Experiments are prepared until the first share of the time budget is used, and take turns until the second; the
#: rest is for what is recommended.
PREPARED, MEASURED = 0.6, 0.9
#: Seconds that compiling may take: an experiment with it does not start without them.
COMPILING = 30.0
#: A shorter turn says little.
SHORTEST = 0.1

Clock = Callable[[], float]


class Training(Protocol):
    """A training that is ready for its turns."""

    threads: Threads

    @property
    def mode(self) -> str:
        """How its work runs."""

    @property
    def ratio_asked(self) -> float:
        """Updates per transition, as configured."""

    def turn(self, seconds: float) -> TurnResult:
        """Train for `seconds`."""

    def close(self) -> None:
        """Close what it has open."""


class ContestObserver(Protocol):
    """Is told how far the experiments are; `left` is in seconds."""

    def note(self, text: str) -> None:
        """Something that happens once."""

    def preparing(self, name: str, number: int, total: int, left: float) -> None:
        """An experiment is being prepared."""

    def turn(self, name: str, round_: int, rounds: int, left: float) -> None:
        """A turn begins."""

    def end(self) -> None:
        """The experiments are over."""


@dataclass
class Contender:
    """An experiment that is ready, and the turns that it has taken."""

    experiment: Experiment
    training: Training
    turns: list[TurnResult] = field(default_factory=list)

    @property
    def rates(self) -> list[float]:
        """Transitions per second, by round."""
        return [turn.transitions / turn.seconds for turn in self.turns]


@dataclass
class ExperimentContest:
    """The experiments that take part, those left out, and the time budget."""

    seconds: float
    watch: ContestObserver
    clock: Clock = time.perf_counter
    contenders: list[Contender] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    rounds: int = 0  # that were done
    turn_seconds: float = 0.0
    interrupted: bool = False
    _begun: float = field(init=False)

    def __post_init__(self) -> None:
        self._begun = self.clock()

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return max(0.0, self._begun + self.seconds - self.clock())

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """Ctrl-C ends the block, and what was measured before it counts."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = True

    def prepare(self, several: Sequence[Experiment], start: Callable[[Experiment], Training]) -> None:
        """Prepare experiments while the time allows; those that cannot be are left out, with the reason."""
        for number, experiment in enumerate(several, 1):
            self.watch.preparing(experiment.name, number, len(several), self.left)
            if experiment.role != "baseline" and self._late(experiment):
                self.leave_out(
                    experiment, "no time was left to prepare it; use --only for it, or more --seconds"
                )
                continue
            try:
                self.contenders.append(Contender(experiment, start(experiment)))
            except Exception as error:  # memory, compilers and environments raise many kinds
                if experiment is BASELINE:
                    raise  # there would be nothing to compare with
                self.leave_out(experiment, describe_error(error))

    def _late(self, experiment: Experiment) -> bool:
        compiles = experiment.settings.get("runtime.mode") == "compile"
        return self.left < (1 - PREPARED) * self.seconds + COMPILING * compiles

    def take_turns(self, rounds: int, until: float = MEASURED) -> None:
        """Take turns, round by round, each in another order, until that share of the budget is used; but always at
        least the rounds that a verdict needs."""
        available = (self.left - (1 - until) * self.seconds) / (1 + BURN_IN)
        self.turn_seconds = max(SHORTEST, available / (rounds * len(self.contenders)))
        for number in range(rounds):
            if number >= ENOUGH and self.left <= 0:
                return
            for contender in rotate_order(self.contenders, number):
                self.watch.turn(contender.experiment.name, number + 1, rounds, self.left)
                self._turn(contender)
            self.rounds += 1

    def _turn(self, contender: Contender) -> None:
        try:
            contender.turns.append(contender.training.turn(self.turn_seconds))
        except Exception as error:
            if contender.experiment is BASELINE:
                raise
            self.contenders.remove(contender)
            contender.training.close()
            self.leave_out(contender.experiment, describe_error(error))

    def leave_out(self, experiment: Experiment, reason: str) -> None:
        """Leave an experiment out, and say why."""
        self.left_out.append(LeftOut(experiment.name, reason))
        self.watch.note(f"{experiment.name} is left out: {reason}")

    def close(self) -> None:
        """Close all trainings."""
        for contender in self.contenders:
            contender.training.close()


def rotate_order(several: Sequence[Contender], number: int) -> list[Contender]:
    """Every round begins with another contender, and every second round goes in reverse."""
    first = number % len(several)
    order = [*several[first:], *several[:first]]
    return order[::-1] if number % 2 else order


def describe_error(error: BaseException) -> str:
    """What went wrong, in one line."""
    text = first_error_line(error)
    return text if isinstance(error, FlashDQNError) else f"{type(error).__name__}: {text}"


def collect_outcomes(contest: ExperimentContest, config: Config) -> list[Outcome]:
    """The outcomes of all that took a turn; empty if the baseline did not."""
    turned = [one for one in contest.contenders if one.turns]
    base = next((one for one in turned if one.experiment is BASELINE), None)
    if base is None:
        return []
    again = next((one for one in turned if one.experiment is AGAIN), None)
    noise = None if again is None else compute_speed_up(again.rates, base.rates)
    return [make_outcome(one, base, noise, config) for one in turned]


def make_outcome(one: Contender, base: Contender, noise: RoundSpread | None, config: Config) -> Outcome:
    """The outcome of one contender."""
    experiment, training, turns = one.experiment, one.training, one.turns
    found = compute_speed_up(one.rates, base.rates)
    rounds = min(len(turns), len(base.turns))
    judged: Verdict = "baseline"
    if experiment.role != "baseline":
        judged = judge_speed_up(found, rounds, noise)
    transitions, updates = sum(t.transitions for t in turns), sum(t.updates for t in turns)
    changed_mode = training.mode != base.training.mode and experiment.group not in ("modes", "recommended")
    return Outcome(
        name=experiment.name,
        group=experiment.group,
        settings=dict(experiment.settings),
        flags=experiment.flags,
        role=experiment.role,
        learning=experiment.learning,
        verdict=judged,
        speed_up=found,
        transitions_per_second=compute_spread(one.rates),
        updates_per_second=updates / sum(t.seconds for t in turns),
        ratio_asked=training.ratio_asked,
        ratio_done=updates / transitions if transitions else 0.0,
        relative_ratio=relative_ratio(experiment.of(config), config),
        mode=training.mode,
        threads=training.threads,
        rounds=rounds,
        remark=f"it ran in mode {training.mode}" if changed_mode else "",
    )
