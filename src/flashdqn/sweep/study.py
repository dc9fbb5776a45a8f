"""Optuna's part of a sweep: which values to try next, which trials to prune, and the journal of all of it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashdqn.core.errors import CheckpointError, ConfigError
from flashdqn.core.files import describe_problem, open_plain_file, read_plain_file, remove_anything
from flashdqn.core.text import clean_line
from flashdqn.sweep.space import ChoiceList, Dimension, SearchSpace, decode_option, encode_option

JOURNAL = "journal.log"
NAME = "sweep"
#: A trial's evaluations are compared at this many points of its budget.
RUNGS = 16
#: Trials that end by themselves before the median says anything about the others.
UNPRUNED = 5
#: The keys of what we note about a trial.
RUN, SECONDS, ERROR, REASON, POINTS, STEPS, LABEL, WALL = (
    "run",
    "seconds",
    "score_error",
    "reason",
    "points",
    "steps",
    "label",
    "wall_seconds",
)


def import_optuna() -> Any:
    """Optuna, or a sentence that says how to install it."""
    try:
        import optuna
    except ImportError:
        raise ConfigError("A sweep needs Optuna: pip install 'flashdqn[sweep]'.") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


@contextmanager
def hide_experimental_warnings() -> Iterator[None]:
    """Optuna warns of each of its newer parts; which ones we use is our decision."""
    optuna = import_optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


def make_sampler(name: str, seed: int) -> Any:
    """A sampler by the name that our flag has."""
    samplers = import_optuna().samplers
    makers = {
        # A trial that is still running counts as a bad one: the next must not try the same beside it.
        "tpe": lambda: samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True),
        "random": lambda: samplers.RandomSampler(seed=seed),
        "nsga2": lambda: samplers.NSGAIISampler(seed=seed),
    }
    with hide_experimental_warnings():
        return makers[name]()


def make_pruner(name: str) -> Any:
    """A pruner by the name that our flag has; its steps are rungs."""
    pruners = import_optuna().pruners
    makers = {
        "median": lambda: pruners.MedianPruner(n_startup_trials=UNPRUNED, n_warmup_steps=RUNGS // 8),
        "halving": lambda: pruners.SuccessiveHalvingPruner(min_resource=RUNGS // 8, reduction_factor=3),
        "hyperband": lambda: pruners.HyperbandPruner(min_resource=1, max_resource=RUNGS, reduction_factor=3),
        "none": lambda: pruners.NopPruner(),
    }
    with hide_experimental_warnings():
        return makers[name]()


def make_distribution(one: Dimension) -> Any:
    """A dimension as Optuna has it."""
    kinds = import_optuna().distributions
    if isinstance(one, ChoiceList):
        return kinds.CategoricalDistribution([encode_option(option) for option in one.options])
    if one.whole:
        return kinds.IntDistribution(int(one.low), int(one.high), log=one.log, step=int(one.step or 1))
    return kinds.FloatDistribution(one.low, one.high, log=one.log, step=one.step)


def encode_values(space: SearchSpace, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of settings as Optuna has them."""
    choices = {one.name for one in space.dimensions if isinstance(one, ChoiceList)}
    return {name: encode_option(value) if name in choices else value for name, value in values.items()}


def decode_values(space: SearchSpace, values: Mapping[str, Any]) -> dict[str, Any]:
    """Optuna's values as our settings have them."""
    choices = {one.name for one in space.dimensions if isinstance(one, ChoiceList)}
    return {name: decode_option(value) if name in choices else value for name, value in values.items()}


#: What Optuna raises where a journal does not hold what it should.
DAMAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError)


@dataclass(frozen=True)
class StudyPlan:
    """What a study is made of."""

    sampler: str
    pruner: str
    objective: str  # score, or both: score and seconds
    seed: int


def open_study(folder: Path, plan: StudyPlan) -> Any:
    """The study in a sweep's folder; it is made if it is not there. Nobody else may have it open."""
    optuna = import_optuna()
    file = folder / JOURNAL
    cut_torn_line(file)
    for left in folder.glob(f"{JOURNAL}.lock*"):  # of a sweep that was killed: the folder's own lock is ours
        remove_anything(left)
    with hide_experimental_warnings():
        directions = ["maximize", "minimize"] if plan.objective == "both" else ["maximize"]
        try:
            backend = optuna.storages.journal.JournalFileBackend(str(file))
            storage = optuna.storages.JournalStorage(backend)
            known = optuna.create_study(
                storage=storage, study_name=NAME, load_if_exists=True, directions=directions
            )
            # Another seed after every resume: the same one would draw the same values again.
            sampler = make_sampler(plan.sampler, (plan.seed + len(known.trials)) % 2**32)
            return optuna.load_study(
                study_name=NAME, storage=storage, sampler=sampler, pruner=make_pruner(plan.pruner)
            )
        except DAMAGE as error:
            raise make_journal_error(file, error) from None


def read_study(folder: Path) -> Any:
    """The study of a sweep, for reading alone: what another process writes meanwhile does no harm."""
    optuna = import_optuna()
    file = folder / JOURNAL
    try:
        os.close(open_plain_file(file))
        with hide_experimental_warnings():
            storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(file)))
            return optuna.load_study(study_name=NAME, storage=storage)
    except OSError as error:
        raise CheckpointError(f"{file} {describe_problem(error)}.") from None
    except DAMAGE as error:
        raise make_journal_error(file, error) from None


def make_journal_error(file: Path, error: Exception) -> CheckpointError:
    """The error for a journal that Optuna cannot read."""
    return CheckpointError(f"{file} is damaged: {type(error).__name__}: {clean_line(str(error), 200)}.")


def cut_torn_line(file: Path) -> None:
    """Cut off a last line that was not written to its end: a power cut may leave half of one, and a line that is
    added to it could not be read."""
    try:
        data = read_plain_file(file)
    except FileNotFoundError:
        return
    except OSError as error:
        raise CheckpointError(f"{file} {describe_problem(error)}.") from None
    if data and not data.endswith(b"\n"):
        handle = open_plain_file(file, os.O_RDWR)
        try:
            os.ftruncate(handle, data.rfind(b"\n") + 1)
        finally:
            os.close(handle)
