"""What was changed or damaged in a run folder, in sentences: a report shows the rest, and says these."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from flashdqn.core.errors import CheckpointError
from flashdqn.core.files import is_plain_folder
from flashdqn.runs.best import read_best
from flashdqn.runs.checkpoint import list_checkpoints, read_manifest
from flashdqn.runs.origin import check_origin
from flashdqn.runs.records import (
    CONFIG_FILE,
    DEMOS_FILE,
    SUMMARY_FILE,
    find_record_problem,
    read_record_or_nothing,
    read_run_record,
)
from flashdqn.runs.tables import (
    COLUMNS_FILE,
    EVALUATIONS_FILE,
    METRICS_FILE,
    begins_as_described,
    read_recorded_columns,
    read_table_content,
)


def find_problems(run: Path) -> list[str]:
    """A sentence for each file of a run that cannot be believed."""
    found = [_find_config_problem(run)]
    found += [find_record_problem(run / name) for name in (SUMMARY_FILE, COLUMNS_FILE, DEMOS_FILE)]
    described, finished = _read_newest_tables(run)
    for name in (METRICS_FILE, EVALUATIONS_FILE):
        found.append(find_table_problem(run / name, described.get(name), finished))
    found.append(_find_best_problem(run))
    found += _find_manifest_problems(run / "checkpoints")
    return list(dict.fromkeys(problem for problem in found if problem))


def find_table_problem(path: Path, described: Any, finished: bool = False) -> str | None:
    """What is wrong with a table; `described` is what the newest checkpoint says of it. Nothing was added later
    to a table of a `finished` run."""
    content = read_table_content(path)
    if content.problem:
        return f"{path.name} {content.problem}."
    recorded = [column.name for column in read_recorded_columns(path).all]
    if content.names and recorded and content.names != recorded:
        return f"{path.name} has other columns than {COLUMNS_FILE} records: its header was changed."
    if not isinstance(described, dict):
        return None
    if not begins_as_described(path, described):
        what = "was changed after it was written" if path.exists() else "is missing"
        return f"{path.name} {what}: it is not as the newest checkpoint knows it."
    if finished and path.exists() and path.stat().st_size > described["bytes"]:
        return f"{path.name} was changed after the run ended: the last checkpoint knows only a part of it."
    return None


def _find_config_problem(run: Path) -> str | None:
    try:
        read_run_record(run)
    except CheckpointError as error:
        return str(error) if (run / CONFIG_FILE).exists() else None
    return None


def _find_best_problem(run: Path) -> str | None:
    try:
        read_best(run / "checkpoints")
    except CheckpointError as error:
        return str(error)
    return None


def _find_manifest_problems(folder: Path) -> list[str]:
    """A sentence for each checkpoint whose manifest is damaged, or belongs to another run."""
    found = []
    try:
        paths = list_checkpoints(folder)
    except CheckpointError as error:
        return [str(error)]
    for path in paths:
        try:
            check_origin(path, read_manifest(path))
        except CheckpointError as error:
            found.append(str(error))
    return list(dict.fromkeys(found))


def _read_newest_tables(run: Path) -> tuple[dict[str, Any], bool]:
    """What the newest checkpoint that is whole says of the tables, and whether it is the end of a finished run."""
    folder, summary = run / "checkpoints", read_record_or_nothing(run / SUMMARY_FILE)
    try:
        paths = list_checkpoints(folder) if is_plain_folder(folder) else []
    except CheckpointError:
        return {}, False
    for path in reversed(paths):
        with suppress(CheckpointError):
            manifest = read_manifest(path)
            check_origin(path, manifest)
            ended = summary.get("finished") is True and summary.get("steps") == int(path.name)
            return manifest.get("tables", {}), ended
    return {}, False
