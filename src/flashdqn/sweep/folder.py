"""The folder of a sweep, `runs/sweep-<preset>-<time>/`:

sweep.json      what is tried, from which settings, how long; signed, and read again by --resume
journal.log     Optuna's own journal: every trial, its values, evaluations and end
trials/0017/    the run of a trial, and its log
confirm/        the runs of the winner and of the preset on fresh seeds
confirm.json    what they came to
report.html     all of it on one page
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flashdqn.config import Config
from flashdqn.config.settings import apply_settings, list_named_code, to_dict
from flashdqn.core.errors import CheckpointError, ConfigError
from flashdqn.core.files import (
    describe_problem,
    make_write_error,
    open_plain_file,
    read_json_object,
    read_signed_json,
    write_signed_json,
)
from flashdqn.core.user_code import NO_PERMISSION, Permission, find_names
from flashdqn.runs.output import check_output_folder, make_run_folder, make_unwritable_error
from flashdqn.sweep.space import SearchSpace, make_space

PLAN_FILE, CONFIRM_FILE, REPORT_FILE = "sweep.json", "confirm.json", "report.html"
FORMAT = 1


@dataclass(frozen=True)
class SweepPlan:
    """All that a sweep is made of; a resumed sweep reads it again."""

    base: Config  # what every trial starts from: its budget is that of one trial
    space_data: Mapping[str, Any]  # as the file has it
    trials: int
    budget: float | None  # seconds of the whole sweep; None: as long as it takes
    jobs: int
    sampler: str = "tpe"
    pruner: str = "median"
    objective: str = "score"
    seeds: int = 5  # fresh ones, for the winner and for the preset
    launcher: str = "local"

    @property
    def space(self) -> SearchSpace:
        """The space, checked."""
        return make_space(self.space_data, self.base)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        fields = {name: value for name, value in asdict(self).items() if name not in ("base", "space_data")}
        return {"format": FORMAT, "base": to_dict(self.base), "space": dict(self.space_data), **fields}


def read_plan(folder: Path, permission: Permission = NO_PERMISSION) -> SweepPlan:
    """The plan of a sweep; code that it names must be permitted."""
    file = folder / PLAN_FILE
    if not os.path.lexists(file):
        what = (
            "does not exist"
            if not folder.exists()
            else f"is not the folder of a sweep: it has no {PLAN_FILE}"
        )
        raise CheckpointError(f"{folder} {what}.")
    try:
        data = read_signed_json(file, required=True, newest=FORMAT)
        base, space = apply_settings(Config(), data["base"]), dict(data["space"])
        names = [*list_named_code(base), *find_names(space)]
        permission.require(names, file)
        kept = ("trials", "budget", "jobs", "sampler", "pruner", "objective", "seeds", "launcher")
        return SweepPlan(base, space, **{name: data[name] for name in kept})
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} {describe_problem(error)}.") from None
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{file} cannot be read: {type(error).__name__}: {error}.") from None


class SweepFolder:
    """Paths of one sweep."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.shown = path  # as the user wrote it, for messages
        self.trials, self.confirm = self.path / "trials", self.path / "confirm"

    @classmethod
    def create(cls, plan: SweepPlan) -> SweepFolder:
        """A new folder with its plan."""
        check_output_folder(plan.base.out)
        preset = re.sub(r"[^\w.-]+", "-", plan.base.preset)
        out = Path(plan.base.out)
        try:
            out.mkdir(parents=True, exist_ok=True)
            folder = cls(make_run_folder(out, f"sweep-{preset}-{time.strftime('%Y%m%d-%H%M%S')}"))
            folder.write_plan(plan)
        except OSError as error:
            raise make_unwritable_error(plan.base.out, error) from None
        return folder

    def write_plan(self, plan: SweepPlan) -> None:
        """Write the plan, also with another budget."""
        write_signed_json(self.path / PLAN_FILE, plan.to_json())

    def find_trial_folder(self, number: int) -> Path:
        """Where a trial has its run and its log."""
        return self.trials / f"{number:04d}"

    def read_confirmations(self) -> dict[str, Any]:
        """What the runs on fresh seeds came to, so far."""
        return read_json_object(self.path / CONFIRM_FILE)

    def write_confirmations(self, data: Mapping[str, Any]) -> None:
        """Keep them."""
        write_signed_json(self.path / CONFIRM_FILE, data)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from sweeping in this folder. The lock ends with the process, however it ends."""
        try:
            import fcntl
        except ImportError as error:
            raise ConfigError("A sweep needs file locks, which this system does not have.") from error
        try:
            handle = open_plain_file(self.path / ".lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise make_write_error(str(self.path / ".lock"), error) from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CheckpointError(
                    f"{self.shown} is being swept by another process: stop that first, or start a new sweep."
                ) from None
            yield
        finally:
            os.close(handle)
