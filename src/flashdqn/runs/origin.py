"""Where a checkpoint comes from: the run, its settings and tables, its last evaluation, as the manifest says."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashdqn.core.errors import CheckpointError
from flashdqn.core.files import RUN
from flashdqn.runs.records import (
    CONFIG_FILE,
    RunRecord,
    describe_differences,
    list_lasting_settings,
    read_run_record,
)


@dataclass(frozen=True)
class Origin:
    """Where a checkpoint comes from: what its manifest says of its run."""

    run: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # without budgets
    evaluation: tuple[int, float] | None = None  # the last one: its step and score
    tables: Mapping[str, Any] = field(default_factory=dict)  # name: bytes and checksum

    def to_json(self) -> dict[str, Any]:
        """The origin as plain data."""
        step, score = self.evaluation or (-1, math.nan)
        return {
            **({} if self.run is None else {RUN: self.run}),
            "config": dict(self.settings),
            "evaluation": None if self.evaluation is None else {"step": step, "score": score},
            "tables": dict(self.tables),
        }


def read_evaluation(manifest: Mapping[str, Any]) -> tuple[int, float]:
    """The step and the score of the last evaluation before a checkpoint; -1 and NaN if it is not known."""
    found = manifest.get("evaluation")
    if not isinstance(found, dict):
        return -1, math.nan
    step, score = found.get("step"), found.get("score")
    known = type(step) is int and isinstance(score, int | float)
    return (step, float(score)) if known else (-1, math.nan)  # type: ignore[return-value,arg-type]


def check_origin(path: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a checkpoint that another run has written, or this run with other settings."""
    run = path.parent.parent
    if not os.path.lexists(run / CONFIG_FILE):  # a checkpoint by itself
        return
    record = read_run_record(run)
    if RUN not in manifest:
        check_older_checkpoint(path, manifest, record)
        return
    if manifest[RUN] != record.run:
        raise CheckpointError(
            f"The checkpoint {path} belongs to another run: its id is not the one in {run / CONFIG_FILE}. "
            "Remove the checkpoint, or put the run's own files back."
        )
    now, then = list_lasting_settings(record.settings), manifest.get("config")
    if differences := describe_differences(now, then if isinstance(then, dict) else {}):
        raise CheckpointError(
            f"{run / CONFIG_FILE} does not fit the checkpoint {path}: {differences}. Put the original file back, "
            "or start a new run with an edited copy of it (flashdqn train --config FILE)."
        )


def check_older_checkpoint(path: Path, manifest: Mapping[str, Any], record: RunRecord) -> None:
    """Refuse a checkpoint without an id in a run that has one, unless an older version has written both."""
    if record.run is not None and manifest["counters"]["transitions"] > record.older_until:
        raise CheckpointError(f"The checkpoint {path} belongs to another run: it has no id. Remove it.")
