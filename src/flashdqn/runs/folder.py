"""The run folder: `runs/<preset>-<time>/`, which every other command reads.

config.json        the run's id and configuration, fully resolved, with versions and hardware
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

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from flashdqn.config import Config
from flashdqn.config.settings import (
    BUDGETS,
    apply_settings,
    list_named_code,
    list_remaining_code,
    to_dict,
    upgrade_settings,
)
from flashdqn.core.errors import CheckpointError, FlashDQNError, StorageError
from flashdqn.core.files import (
    MOST_JSON,
    RefusedFileError,
    describe_problem,
    make_write_error,
    open_plain_file,
    parse_json,
    read_plain_text,
    remove_anything,
    remove_leftovers,
    sync_to_disk,
    write_signed_json,
)
from flashdqn.core.user_code import NO_PERMISSION, Permission
from flashdqn.runs import checkpoint
from flashdqn.runs.best import find_best_checkpoint, read_best, thin_out_checkpoints
from flashdqn.runs.origin import Origin, read_evaluation
from flashdqn.runs.output import make_run_folder, make_unwritable_error
from flashdqn.runs.records import (
    CONFIG_FILE,
    SUMMARY_FILE,
    RunRecord,
    create_run_record,
    list_lasting_settings,
    mark_with_run,
    read_record_or_nothing,
    read_run_record,
    update_run_record,
)
from flashdqn.runs.rewind import rewind_run
from flashdqn.runs.rows import EvaluationRow, MetricsRow, row_to_cells
from flashdqn.runs.tables import (
    EVALUATIONS_FILE,
    METRICS_FILE,
    append_row,
    describe_table,
    read_evaluations,
)


class RunFolder:
    """Paths and tables of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shown = path  # as the user wrote it, for messages
        self.checkpoints = path / "checkpoints"
        self._evaluation: tuple[int, float] | None = None  # the last one: its step and score
        self._place: os.stat_result | None = None  # of the folder, while it is locked
        self._record: RunRecord | None = None  # read once: what happens to the file later is no matter

    def make_absolute(self) -> None:
        """Hold on to the folder, wherever the user's code goes by `os.chdir`; messages keep the path as given."""
        self.path = self.path.absolute()
        self.checkpoints = self.path / "checkpoints"

    @classmethod
    def create(cls, config: Config, hardware: Mapping[str, Any]) -> RunFolder:
        """A new folder with its config.json, safe on disk."""
        task = re.sub(r"[^\w.-]+", "-", config.preset)  # gym:ALE/Pong-v5 cannot be the name of a folder
        name = f"{task}-{time.strftime('%Y%m%d-%H%M%S')}"
        out = Path(config.out)
        try:
            new = [folder for folder in (out, *out.parents) if not folder.exists()]
            out.mkdir(parents=True, exist_ok=True)
            folder = cls(make_run_folder(out, name))
            try:
                folder.checkpoints.mkdir()
                create_run_record(folder.path, to_dict(config), hardware)
            except BaseException:
                remove_anything(folder.path)
                raise
            for made in (folder.path, *new):
                sync_to_disk(made.parent)
        except OSError as error:
            raise make_unwritable_error(config.out, error) from None
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The run that a folder, or a checkpoint inside one, belongs to. The path itself may be a link; nothing in
        the run folder may be."""
        point = find_named_checkpoint(path)
        path = path if point is None else point.parent.parent
        file = path / CONFIG_FILE
        try:
            os.close(open_plain_file(file))
        except FileNotFoundError:
            what = "does not exist" if not path.exists() else "is not a run folder: it has no config.json"
            raise CheckpointError(f"{path} {what}.") from None
        except NotADirectoryError:
            raise CheckpointError(f"{path} is not a run folder: it is a file.") from None
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{file} {describe_problem(error)}.") from None
        folder = cls(path)
        checkpoint.list_checkpoints(folder.checkpoints)  # refuses links
        return folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training in this folder. The lock ends with the process, however it ends.
        At the end, what a disk has refused to remove is removed once more."""
        try:
            import fcntl
        except ImportError:  # no such locks on this system
            yield
            return
        try:
            handle = open_plain_file(self.path / ".lock", os.O_RDWR | os.O_CREAT)  # nothing is written to it
        except RefusedFileError as error:
            raise CheckpointError(f"{self.path / '.lock'} {error.strerror}: remove it.") from None
        except OSError as error:
            raise make_write_error(str(self.path / ".lock"), error) from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CheckpointError(
                    f"{self.path} is being trained by another process: stop that first."
                ) from None
            self._place = self.path.stat()
            try:
                yield
            finally:
                self._place = None
                with suppress(CheckpointError):
                    self.recover()
        finally:
            os.close(handle)

    def check_in_place(self) -> None:
        """Refuse to write into a folder that somebody has put in this one's place while it was locked."""
        with suppress(FileNotFoundError):  # it is gone, which the write will tell
            if self._place is not None and not os.path.samestat(self.path.stat(), self._place):
                raise StorageError(f"{self.shown} was replaced by another folder while it was trained.")

    def config(
        self, permission: Permission = NO_PERMISSION, change: Callable[[Config], Config] | None = None
    ) -> Config:
        """The run's configuration; code that it names must be permitted. A `change` by the user comes before: what
        it replaces is not asked for."""
        file = self.path / CONFIG_FILE
        try:
            record = read_run_record(self.path)
        except CheckpointError:
            self._require_named_code(permission)  # whoever changed the file: this comes first
            raise
        try:
            config = apply_settings(Config(), upgrade_settings(record.settings))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
            raise CheckpointError(f"{file} cannot be read: {error}.") from None
        changed = config if change is None else change(config)
        permission.require(list_remaining_code(config, changed), file)
        return changed

    def _require_named_code(self, permission: Permission) -> None:
        """Ask for permission for the code that a changed config.json names, as far as it can be read."""
        file = self.path / CONFIG_FILE
        names: tuple[str, ...] = ()
        with suppress(
            OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError, FlashDQNError
        ):
            settings = parse_json(read_plain_text(file, most=MOST_JSON))["config"]
            names = list_named_code(apply_settings(Config(), settings))
        permission.require(names, file)

    def change_budget(self, config: Config, step: int) -> None:
        """Write the budget of a run that is resumed at `step` into its config.json."""
        update_run_record(self.path, {name: getattr(config, name) for name in BUDGETS}, step)
        self._record = None

    def write_json(self, name: str, data: Mapping[str, Any]) -> None:
        """Write a JSON file of this run, with a checksum."""
        self.check_in_place()
        run = None if (record := self._read_record()) is None else record.run
        write_signed_json(self.path / name, mark_with_run(data, run))

    def read_json(self, name: str) -> dict[str, Any]:
        """A JSON file of this run; empty if it is missing or cannot be believed."""
        return read_record_or_nothing(self.path / name)

    def finished(self) -> bool:
        """Whether the run finished; one that was killed during its summary did not."""
        return bool(self.read_json(SUMMARY_FILE).get("finished", False))

    def recover(self) -> None:
        """Remove what a crash has left behind; the folder must be locked."""
        try:
            checkpoint.recover_interrupted_save(self.checkpoints)
            for folder in (self.path, self.checkpoints):
                remove_leftovers(folder)
        except OSError as error:
            raise make_write_error(str(self.path), error) from None

    def resume_point(self, wanted: Path) -> Path:
        """The checkpoint to continue from: the one named, or the newest."""
        if (named := find_named_checkpoint(wanted)) is not None:
            return named
        paths = checkpoint.list_checkpoints(self.checkpoints, with_state=True)
        if not paths:
            raise CheckpointError(f"{self.path} holds no checkpoint to resume from.")
        return paths[-1]

    def play_point(self, wanted: Path) -> Path:
        """The checkpoint to play with: the one named, or the best, or the newest if none was evaluated. If
        best.json is of no use, nothing is chosen instead: the sentence names the best one that is known."""
        if (named := find_named_checkpoint(wanted)) is not None:
            return named
        try:
            found = read_best(self.checkpoints)
        except CheckpointError as error:
            known = find_best_checkpoint(self.checkpoints)
            paths = checkpoint.list_checkpoints(self.checkpoints)
            offer = f"the best that is known is {known[0]}" if known else ""
            offer = offer or (f"the newest is {paths[-1]}" if paths else "there is none")
            raise CheckpointError(f"{error} Name a checkpoint instead: {offer}.") from None
        found = found or find_best_checkpoint(self.checkpoints)
        paths = [found[0]] if found else checkpoint.list_checkpoints(self.checkpoints)
        if not paths:
            raise CheckpointError(f"{self.path} holds no checkpoint yet.")
        return paths[-1]

    def save_checkpoint(
        self, weights: Mapping[str, Tensor], state: Mapping[str, Tensor] | None, counters: dict[str, Any]
    ) -> Path:
        """Save a checkpoint that says which run it belongs to. The tables that it describes are on disk first."""
        self.check_in_place()
        try:
            self._sync_tables()
            origin = self._describe_origin()
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error.strerror}.") from None
        path = checkpoint.save(self.checkpoints, weights, state, counters, origin)
        thin_out_checkpoints(self.checkpoints)
        return path

    def _sync_tables(self) -> None:
        for name in (METRICS_FILE, EVALUATIONS_FILE):
            if os.path.lexists(self.path / name):
                sync_to_disk(self.path / name)
        sync_to_disk(self.path)

    def _describe_origin(self) -> Origin:
        tables = {name: describe_table(self.path / name) for name in (METRICS_FILE, EVALUATIONS_FILE)}
        if (record := self._read_record()) is None:
            return Origin(evaluation=self._evaluation, tables=tables)
        settings = list_lasting_settings(record.settings)
        return Origin(record.run, settings, self._evaluation, tables)

    def _read_record(self) -> RunRecord | None:
        """What config.json says; None if there is no such file."""
        if self._record is None and os.path.lexists(self.path / CONFIG_FILE):
            self._record = read_run_record(self.path)
        return self._record

    def rewind_to(self, point: Path) -> list[str]:
        """Go back to a checkpoint; returns a sentence for each file that was changed or damaged since."""
        manifest = checkpoint.read_manifest(point)
        counters, evaluation = manifest["counters"], read_evaluation(manifest)
        step, tables = counters["transitions"], manifest.get("tables", {})
        evaluated = step - 1 if counters.get("owes_evaluation") else step
        said = rewind_run(self.path, step, counters.get("reported_step", step), tables, evaluated)
        if not tables and (rows := read_evaluations(self.path)):  # format 1
            evaluation = rows[-1].step, rows[-1].mean_score
        self._evaluation = evaluation if evaluation[0] >= 0 else None
        return said

    def last_evaluation(self) -> int:
        """The step of the last evaluation; -1 if there was none."""
        if self._evaluation is not None:
            return self._evaluation[0]
        rows = read_evaluations(self.path)
        return rows[-1].step if rows else -1

    def add_metrics(self, row: MetricsRow) -> None:
        """Add a row to metrics.csv."""
        append_row(self.path / METRICS_FILE, row_to_cells(row))

    def add_evaluation(self, row: EvaluationRow) -> None:
        """Add a row to evaluations.csv."""
        append_row(self.path / EVALUATIONS_FILE, row_to_cells(row))
        self._evaluation = (row.step, row.mean_score)


def find_named_checkpoint(path: Path) -> Path | None:
    """The checkpoint that a path names; None if it names something else. A link from elsewhere may lead to one; in
    a run's own checkpoints a link is refused."""
    here = path.absolute()
    if here.parent.name == "checkpoints" and (here.is_symlink() or here.parent.is_symlink()):
        raise CheckpointError(
            f"{here} is reached by a link inside a run folder, and such links are not followed."
        )
    resolved = path.resolve()
    return resolved if resolved.parent.name == "checkpoints" else None
