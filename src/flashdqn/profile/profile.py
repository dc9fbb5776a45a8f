"""A profile: why a training is as fast as it is, and what would make it faster.

First the user's own configuration trains for a few seconds, phase by phase. Then it and its variants, each with one
setting changed, take turns. Nothing is left behind: they write only into a temporary folder.
"""

from __future__ import annotations

import datetime
import gc
import itertools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from flashdqn.compute.core_count import cores
from flashdqn.compute.device import choose_device, describe_hardware
from flashdqn.compute.precision import allow_tf32
from flashdqn.config import Config
from flashdqn.config.settings import to_dict
from flashdqn.core.errors import ConfigError, ExecutionError
from flashdqn.profile.advice import make_advice, select_safe_gains
from flashdqn.profile.compare import ENOUGH
from flashdqn.profile.contest import (
    MEASURED,
    Contender,
    ContestObserver,
    ExperimentContest,
    collect_outcomes,
)
from flashdqn.profile.experiments import (
    AGAIN,
    BASELINE,
    Experiment,
    combine_experiments,
    list_experiments,
    select_experiments,
)
from flashdqn.profile.phases import measure_time_spent
from flashdqn.profile.ready import Ready, Threads, prepare_training
from flashdqn.profile.result import Outcome, Profile
from flashdqn.training.progress import Progress, Silent

#: Share of the experiments' time that the phases are watched for, and its limits in seconds.
PHASES_SHARE, PHASES_LEAST, PHASES_MOST = 0.1, 0.5, 10.0


@dataclass(frozen=True)
class Options:
    """What to measure, and for how long."""

    rounds: int = 9
    seconds: float = 120.0  # for all experiments
    only: tuple[str, ...] = ()  # names or groups; "phases": no experiments
    skip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.rounds < ENOUGH:
            raise ConfigError(f"--rounds must be at least {ENOUGH} to show a spread, and is {self.rounds}.")
        if not 0 < self.seconds < float("inf"):
            raise ConfigError(f"--seconds must be a time above 0, and is {self.seconds:g}.")


@dataclass
class Bench:
    """Where the trainings of a profile are made: device, temporary folder, and the display that each gets."""

    device: torch.device
    folder: Path
    display: Callable[[], Progress]
    number: itertools.count[int]

    def start(self, config: Config, used: Threads | None = None, quiet: bool = False) -> Ready:
        """Prepare a training, in its own folder."""
        progress = Silent() if quiet else self.display()
        return prepare_training(config, self.folder / str(next(self.number)), progress, used)

    def tidy(self) -> None:
        """Free the memory of a training that is over."""
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def take_profile(
    config: Config, options: Options, watch: ContestObserver, display: Callable[[], Progress]
) -> Profile:
    """Measure phases, then experiments; Ctrl-C ends the experiments, and what was measured counts."""
    if config.env.collectors is not None:
        raise ConfigError(
            "flashdqn profile lets trainings take turns, and workers of env.collect async would play on meanwhile: "
            "profile in lock-step, and read a run's own metrics.csv for workers."
        )
    # a server should not keep its short trainings
    config = replace(config, log=replace(config.log, wandb=False, mlflow=False))
    device = choose_device(config.device)
    known = list_experiments(config, device.type == "cuda", cores())
    names = {one.name for one in select_experiments(known, options.only, options.skip)}
    with tempfile.TemporaryDirectory(prefix="flashdqn-profile-") as folder, allow_tf32(device):
        bench = Bench(device, Path(folder), display, itertools.count())
        watch.note("Warming up: compiling and allocating, before the clock starts")
        try:
            profile, starting = profile_baseline(config, options, bench)
            bench.tidy()
            if "phases" in options.only:
                return profile
            return run_experiments(names, options, watch, profile, starting)
        finally:
            watch.end()
            bench.tidy()


def profile_baseline(config: Config, options: Options, bench: Bench) -> tuple[Profile, Starter]:
    """A profile without experiments, in the mode and with the threads that `auto` chooses; and a starter that
    prepares experiments with the same."""
    ready = bench.start(config)
    try:
        share = min(PHASES_MOST, max(PHASES_LEAST, PHASES_SHARE * options.seconds))
        spent = measure_time_spent(ready, min(share, options.seconds))
    finally:
        ready.close()
    found = Profile(
        preset=config.preset,
        date=datetime.date.today().isoformat(),
        hardware=describe_hardware(bench.device) | {"threads": ready.threads[0]},
        device=bench.device.type,
        config=to_dict(config),
        mode=ready.mode,
        mode_why=ready.choice.why,
        threads=ready.threads,
        warm_up_seconds=ready.warm_up,
        spent=spent,
        outcomes=(),
        left_out=(),
        rounds_done=0,
        rounds_asked=options.rounds,
        turn_seconds=0.0,
        interrupted=False,
        advice=make_advice(()),
    )
    baseline = replace(config, runtime=replace(config.runtime, mode=ready.choice.plan.mode))
    return found, Starter(baseline, bench, ready.threads)


def run_experiments(
    names: set[str], options: Options, watch: ContestObserver, profile: Profile, starting: Starter
) -> Profile:
    """The same profile with the experiments of these names, except those that equal the baseline."""
    cuda = starting.bench.device.type == "cuda"
    known = list_experiments(starting.baseline, cuda, cores(), starting.threads)
    contest = ExperimentContest(options.seconds, watch)
    found: list[Outcome] = []
    try:
        with contest.stoppable():
            contest.prepare([BASELINE, AGAIN, *(one for one in known if one.name in names)], starting)
            contest.take_turns(options.rounds)
        found = collect_outcomes(contest, starting.baseline)
        found += measure_recommended(contest, found, options, starting)
    finally:
        contest.close()
    return replace(
        profile,
        outcomes=tuple(found),
        left_out=tuple(contest.left_out),
        rounds_done=contest.rounds,
        turn_seconds=contest.turn_seconds,
        interrupted=contest.interrupted,
        advice=make_advice(found, complete=not contest.interrupted),
    )


@dataclass(frozen=True)
class Starter:
    """Prepares an experiment, with the baseline's mode and threads unless it changes them."""

    baseline: Config
    bench: Bench
    threads: Threads

    def __call__(self, experiment: Experiment) -> Ready:
        """Prepare it; raises ExecutionError if its mode does not work here."""
        config = experiment.of(self.baseline)
        used = None if "runtime.threads" in experiment.settings else self.threads
        ready = self.bench.start(config, used, experiment.quiet)
        wanted = experiment.settings.get("runtime.mode")
        if wanted and ready.choice.plan.mode != wanted:
            ready.close()
            reason = ready.notes[0] if ready.notes else f"The mode '{wanted}' does not work here"
            raise ExecutionError(reason.removesuffix(" Falling back to the next."))
        return ready


def measure_recommended(
    contest: ExperimentContest, found: list[Outcome], options: Options, starting: Starter
) -> list[Outcome]:
    """If several flags help without changing what is learned, measure all of them at once, beside the baseline."""
    names = [one.name for one in select_safe_gains(found)]
    if len(names) < 2 or contest.interrupted:
        return []
    best = [one.experiment for one in contest.contenders if one.experiment.name in names]
    beside = [one for one in contest.contenders if one.experiment in (BASELINE, AGAIN)]
    last = ExperimentContest(max(contest.left, (1 - MEASURED) * options.seconds), contest.watch)
    last.contenders = [Contender(one.experiment, one.training) for one in beside]
    with last.stoppable():
        last.prepare([combine_experiments(best)], starting)
        contest.contenders += last.contenders[len(beside) :]  # closed with the others later
        if len(last.contenders) > len(beside):
            last.take_turns(options.rounds, until=1.0)
    contest.left_out += last.left_out
    contest.interrupted |= last.interrupted
    return [one for one in collect_outcomes(last, starting.baseline) if one.name == "recommended"]
