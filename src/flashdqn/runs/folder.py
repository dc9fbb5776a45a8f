"""The run folder: `runs/<preset>-<time>/`, which every other command reads.

config.json        the configuration, fully resolved, with versions and hardware
columns.json       what kind of number each column of the tables holds
metrics.csv        a row per report
evaluations.csv    a row per evaluation
summary.json       how the run ended
curve.png          the learning curve
report.html        all of that on one page
events.out.*       TensorBoard
checkpoints/       see checkpoint.py
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flashdqn.config import Config
from flashdqn.config.settings import apply_settings, list_named_code, to_dict
from flashdqn.core.errors import CheckpointError, ConfigError
from flashdqn.core.files import read_json_object, write_json_atomically
from flashdqn.core.user_code import NO_PERMISSION, Permission
from flashdqn.runs import checkpoint
from flashdqn.runs.columns import STEP
from flashdqn.runs.rows import EvaluationRow, MetricsRow, row_to_cells
from flashdqn.runs.tables import (
    EVALUATIONS_FILE,
    METRICS_FILE,
    append_row,
    read_evaluations,
    read_table,
    write_table,
)


class RunFolder:
    """Paths and tables of one run."""

    def __init__(self, path: Path) -> None:
        self.path = self.shown = path  # `shown` is the path in messages
        self.checkpoints = path / "checkpoints"

    def make_absolute(self) -> None:
        """Hold on to the folder, wherever the user's code goes by `os.chdir`; messages keep the path as given."""
        self.path = self.path.absolute()
        self.checkpoints = self.path / "checkpoints"

    @classmethod
    def create(cls, config: Config, hardware: Mapping[str, Any]) -> RunFolder:
        """A new folder with its config.json."""
        task = re.sub(r"[^\w.-]+", "-", config.preset)  # gym:ALE/Pong-v5 cannot be the name of a folder
        name = f"{task}-{time.strftime('%Y%m%d-%H%M%S')}"
        for number in range(1000):
            path = Path(config.out) / (f"{name}-{number}" if number else name)
            try:
                path.mkdir(parents=True)
                break
            except FileExistsError:
                continue
            except OSError as error:
                raise make_unwritable_error(config.out, error) from None
        folder = cls(path)
        folder.checkpoints.mkdir()
        write_json_atomically(path / "config.json", {"config": to_dict(config), "hardware": dict(hardware)})
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The run that a folder, or a checkpoint inside one, belongs to."""
        if path.resolve().parent.name == "checkpoints":
            path = path.resolve().parent.parent
        if not (path / "config.json").is_file():
            what = "does not exist" if not path.exists() else "is not a run folder: it has no config.json"
            raise CheckpointError(f"{path} {what}.")
        return cls(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training in this folder. The lock ends with the process, however it ends."""
        try:
            import fcntl
        except ImportError:  # no such locks on this system
            yield
            return
        try:
            lock = (self.path / ".lock").open("w", encoding="utf-8")
        except OSError as error:
            raise CheckpointError(f"{self.path} cannot be written: {error.strerror}.") from None
        with lock as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CheckpointError(
                    f"{self.path} is being trained by another process: stop that first."
                ) from None
            yield

    def config(self, permission: Permission = NO_PERMISSION) -> Config:
        """The run's configuration; code that it names must be permitted."""
        file = self.path / "config.json"
        try:
            data = json.loads(file.read_text(encoding="utf-8"))["config"]
            config = apply_settings(Config(), data)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{file} cannot be read: {error}.") from None
        permission.require(list_named_code(config), file)
        return config

    def finished(self) -> bool:
        """Whether the run finished; one that was killed during its summary did not."""
        return bool(read_json_object(self.path / "summary.json").get("finished", False))

    def resume_point(self, wanted: Path) -> Path:
        """The checkpoint to continue from: the one named, or the newest."""
        if wanted.resolve().parent.name == "checkpoints":
            return wanted.resolve()
        paths = checkpoint.list_checkpoints(self.checkpoints, with_state=True)
        if not paths:
            raise CheckpointError(f"{self.path} holds no checkpoint to resume from.")
        return paths[-1]

    def play_point(self, wanted: Path) -> Path:
        """The checkpoint to play with: the one named, or the best, or the newest."""
        if wanted.resolve().parent.name == "checkpoints":
            return wanted.resolve()
        best = checkpoint.best(self.checkpoints)
        paths = [best[0]] if best else checkpoint.list_checkpoints(self.checkpoints)
        if not paths:
            raise CheckpointError(f"{self.path} holds no checkpoint yet.")
        return paths[-1]

    def rewind(self, step: int, reported_step: int | None = None) -> None:
        """Delete everything after `step`, and rows of metrics after `reported_step`: it will be done again."""
        reported = step if reported_step is None else reported_step
        for name, last in ((METRICS_FILE, reported), (EVALUATIONS_FILE, step)):
            kept = [row for row in read_table(self.path / name) if int(row[STEP.name]) <= last]
            if kept:
                write_table(self.path / name, kept)
            else:
                (self.path / name).unlink(missing_ok=True)
        for path in checkpoint.list_checkpoints(self.checkpoints):
            if int(path.name) > step:
                shutil.rmtree(path)
        self._find_best()

    def _find_best(self) -> None:
        """Point best.json at the best remaining evaluation; of equals, the first."""
        scores = {
            self.checkpoints / f"{row.step:012d}": row.mean_score
            for row in read_evaluations(self.path)
            if math.isfinite(row.mean_score)
        }
        there = [path for path in scores if path.exists()]
        if there:
            best = max(there, key=lambda path: scores[path])
            checkpoint.mark_best_checkpoint(self.checkpoints, best, scores[best])
        else:
            (self.checkpoints / "best.json").unlink(missing_ok=True)

    def last_evaluation(self) -> int:
        """The step of the last evaluation; -1 if there was none."""
        rows = read_evaluations(self.path)
        return rows[-1].step if rows else -1

    def add_metrics(self, row: MetricsRow) -> None:
        """Add a row to metrics.csv."""
        append_row(self.path / METRICS_FILE, row_to_cells(row))

    def add_evaluation(self, row: EvaluationRow) -> None:
        """Add a row to evaluations.csv."""
        append_row(self.path / EVALUATIONS_FILE, row_to_cells(row))


def check_output_folder(out: str) -> None:
    """Refuse an output folder that cannot be written, before anything is computed; nothing is made yet."""
    path = Path(out)
    try:
        there = next(folder for folder in (path, *path.parents) if folder.exists())
    except OSError as error:
        raise make_unwritable_error(out, error) from None
    if not there.is_dir():
        raise make_unwritable_error(out, NotADirectoryError(20, "Not a directory"))
    if not os.access(there, os.W_OK | os.X_OK):
        raise make_unwritable_error(out, PermissionError(13, "Permission denied"))


def make_unwritable_error(out: str, error: OSError) -> ConfigError:
    """The error for an output folder that cannot be written."""
    return ConfigError(
        f"The output folder {out} cannot be written: {error.strerror}. Choose another with --out."
    )
