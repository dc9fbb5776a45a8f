"""The JSON files of a run: each has its own checksum, and the id of the run that it belongs to.

config.json gives the id. A checkpoint, a summary or best.json of another run has another id, and is not believed.
Runs of format 1 have neither ids nor, except in manifests, checksums; they are read as they are. When such a run is
resumed it gets an id, and `older_until` says up to which step its checkpoints have none.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashdqn.config.settings import BUDGETS, flatten_keys
from flashdqn.core.errors import CheckpointError
from flashdqn.core.files import RUN, describe_problem, read_signed_json, write_signed_json

CONFIG_FILE, SUMMARY_FILE, DEMOS_FILE = "config.json", "summary.json", "demos.json"
FORMAT = 2
#: At most so many differing settings are named in a sentence.
NAMED = 3


@dataclass(frozen=True)
class RunRecord:
    """What config.json says."""

    data: dict[str, Any]

    @property
    def run(self) -> str | None:
        """The run's id; None for a run of format 1."""
        run = self.data.get(RUN)
        return run if isinstance(run, str) else None

    @property
    def older_until(self) -> int:
        """Checkpoints up to this step may be of format 1; -1 if none may."""
        step = self.data.get("older_until", -1)
        return step if isinstance(step, int) else -1

    @property
    def settings(self) -> dict[str, Any]:
        """The settings, as they were written."""
        config = self.data.get("config")
        return config if isinstance(config, dict) else {}


def create_run_record(path: Path, settings: Mapping[str, Any], hardware: Mapping[str, Any]) -> None:
    """Write the config.json of a new run."""
    data = {"format": FORMAT, RUN: secrets.token_hex(8), "config": settings, "hardware": dict(hardware)}
    write_signed_json(path / CONFIG_FILE, data)


def update_run_record(path: Path, changes: Mapping[str, Any], step: int) -> None:
    """Change settings in the config.json of a run that is resumed at `step`."""
    record = read_run_record(path)
    data = record.data | {"format": FORMAT, "config": record.settings | dict(changes)}
    if record.run is None:
        data |= {RUN: secrets.token_hex(8), "older_until": step}
    write_signed_json(path / CONFIG_FILE, data)


def read_run_record(path: Path) -> RunRecord:
    """The config.json of a run folder; CheckpointError if it is missing, changed or damaged."""
    file = path / CONFIG_FILE
    try:
        data = read_signed_json(file, newest=FORMAT)
    except OSError as error:
        raise CheckpointError(f"{file} {describe_problem(error)}.") from None
    except ValueError as error:
        raise CheckpointError(
            f"{file} {describe_problem(error)}. A run keeps its settings: put the original file back, or start a "
            "new run with an edited copy of it (flashdqn train --config FILE)."
        ) from None
    if not isinstance(data.get("config"), dict):
        raise CheckpointError(f"{file} cannot be read: it has no 'config'.")
    return RunRecord(data)


def find_run_id(path: Path) -> str | None:
    """The id of a run; None for a run of format 1, or where there is no config.json."""
    try:
        return read_run_record(path).run
    except CheckpointError:
        return None


def write_record(path: Path, data: Mapping[str, Any]) -> None:
    """Write a signed JSON file into a run folder, with the run's id."""
    write_signed_json(path, mark_with_run(data, find_run_id(path.parent)))


def mark_with_run(data: Mapping[str, Any], run: str | None) -> dict[str, Any]:
    """The data with the id of its run, if the run has one."""
    return dict(data) | ({} if run is None else {RUN: run})


def read_record(path: Path) -> dict[str, Any]:
    """A signed JSON file of a run folder, without the run's id; OSError or ValueError if it cannot be believed."""
    data = read_signed_json(path, newest=FORMAT)
    found = data.pop(RUN, None)
    try:
        record = read_run_record(path.parent)
    except CheckpointError:  # nothing to compare with
        return data
    older = found is None and record.older_until >= 0
    if found != record.run and not older:
        raise ValueError("it belongs to another run" if found else "it does not name its run: it was changed")
    return data


def read_record_or_nothing(path: Path) -> dict[str, Any]:
    """As `read_record`; empty if the file is missing or cannot be believed."""
    try:
        return read_record(path)
    except (OSError, ValueError):
        return {}


def find_record_problem(path: Path) -> str | None:
    """What is wrong with a JSON file of a run, as a sentence; None if it is whole or missing."""
    try:
        read_record(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return f"{path.name} {describe_problem(error)}."
    return None


def list_lasting_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a resumed run keeps: all but its budgets."""
    return {name: value for name, value in settings.items() if name not in BUDGETS}


def describe_differences(now: Mapping[str, Any], then: Mapping[str, Any]) -> str:
    """Which settings of config.json differ from those of a checkpoint, in words; empty if none does."""
    here, there = flatten_keys(now), flatten_keys(then)
    # compared as text: NaN is not equal to itself
    names = [n for n in dict.fromkeys((*here, *there)) if repr(here.get(n, ...)) != repr(there.get(n, ...))]

    def words() -> Iterator[str]:
        for name in names[:NAMED]:
            mine, theirs = here.get(name, "missing"), there.get(name, "missing")
            yield f"{name} is {mine} in {CONFIG_FILE} and {theirs} in the checkpoint"
        if len(names) > NAMED:
            yield f"{len(names) - NAMED} more differ"

    return "; ".join(words())
