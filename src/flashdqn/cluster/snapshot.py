"""A run folder as one checkpoint of Ray Train, and back: what a training needs to go on, on any machine."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from flashdqn.core.errors import CheckpointError
from flashdqn.core.files import is_plain_folder
from flashdqn.runs.best import BEST_FILE, find_best_checkpoint
from flashdqn.runs.checkpoint import list_checkpoints
from flashdqn.runs.tables import EVALUATIONS_FILE, METRICS_FILE

#: The files of a run folder that a resumed training reads, besides its checkpoints.
FILES = ("config.json", "columns.json", "demos.json", METRICS_FILE, EVALUATIONS_FILE)
#: Names the run folder inside a snapshot.
NAME_FILE = "run.txt"


def take_snapshot(run: Path, point: Path, folder: Path) -> None:
    """Copy into an empty folder what is needed to go on from a checkpoint of a run."""
    (folder / "checkpoints").mkdir(parents=True)
    (folder / NAME_FILE).write_text(run.name, encoding="utf-8")
    for name in FILES:
        if (run / name).is_file():
            shutil.copy2(run / name, folder / name)
    wanted = {point}
    if (best := find_best_checkpoint(run / "checkpoints")) is not None:
        wanted.add(best[0])
        with suppress(FileNotFoundError):
            shutil.copy2(run / "checkpoints" / BEST_FILE, folder / "checkpoints" / BEST_FILE)
    for path in wanted:
        shutil.copytree(path, folder / "checkpoints" / path.name, copy_function=link_or_copy)


def link_or_copy(source: str, target: str) -> str:
    """Give a file a second name where the disk can: checkpoints are never changed in place."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def restore_snapshot(snapshot: Path, out: Path) -> Path:
    """The run folder to go on with: the one that is still there if it has come at least as far, else a new copy."""
    name = (snapshot / NAME_FILE).read_text(encoding="utf-8").strip()
    if not name or Path(name).name != name:
        raise CheckpointError(f"{snapshot} is not a snapshot of a run: it names '{name[:60]}'.")
    run = out / name
    if is_plain_folder(run) and find_newest(run) >= find_newest(snapshot):
        return run
    out.mkdir(parents=True, exist_ok=True)
    if is_plain_folder(run):
        shutil.rmtree(run)
    shutil.copytree(snapshot, run, ignore=shutil.ignore_patterns(NAME_FILE))
    return run


def find_newest(run: Path) -> int:
    """The step of the newest checkpoint that can be resumed; -1 if there is none."""
    points = list_checkpoints(run / "checkpoints", with_state=True)
    return int(points[-1].name) if points else -1
