"""Going back to a checkpoint: what a run has written after it is deleted, because it will be done again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashdqn.core.errors import CheckpointError
from flashdqn.core.files import remove_anything, sync_to_disk
from flashdqn.runs.best import (
    BEST_FILE,
    find_best_by_scores,
    mark_best_checkpoint,
    read_best,
    read_scores,
)
from flashdqn.runs.checkpoint import list_checkpoints, read_manifest, remove_checkpoint
from flashdqn.runs.tables import EVALUATIONS_FILE, METRICS_FILE, read_evaluations, rewind_table


def rewind_run(
    run: Path,
    step: int,
    reported: int | None = None,
    tables: Mapping[str, Any] | None = None,
    evaluated: int | None = None,
) -> list[str]:
    """Delete everything after `step`, metrics after the step `reported` and evaluations after `evaluated`; `tables`
    is what the checkpoint says of the tables. Returns a sentence for each file that was changed or damaged. The
    best checkpoint is chosen first, and the tables come last, so that a crash in between leaves a usable folder."""
    checkpoints = run / "checkpoints"
    notes = _choose_best(run, checkpoints, step)
    for path in reversed(list_checkpoints(checkpoints)):
        if int(path.name) > step:
            notes += _describe_damage(path)
            remove_checkpoint(path)
    sync_to_disk(checkpoints)
    limits = {
        METRICS_FILE: step if reported is None else min(step, reported),
        EVALUATIONS_FILE: step if evaluated is None else evaluated,
    }
    described = tables or {}
    found = (rewind_table(run / name, last, described.get(name)) for name, last in limits.items())
    return notes + [note for note in found if note]


def _choose_best(run: Path, checkpoints: Path, step: int) -> list[str]:
    """Point best.json at the best checkpoint up to `step`. Its manifest knows its score; for format 1 only the
    table does. Returns a sentence if best.json, or the checkpoint that it names, is damaged."""
    notes = []
    try:
        read_best(checkpoints)
    except CheckpointError as error:
        notes.append(f"{error} The best checkpoint is chosen again, from those that are whole.")
    table = {row.step: row.mean_score for row in read_evaluations(run)}
    known = read_scores(checkpoints)
    older = {n: score for n, score in table.items() if _is_older(checkpoints / f"{n:012d}")}
    scores = {n: score for n, score in {**older, **known}.items() if n <= step}
    best = find_best_by_scores(checkpoints, scores)
    if best is not None:
        mark_best_checkpoint(checkpoints, *best)
    else:
        remove_anything(checkpoints / BEST_FILE)
    return notes


def _is_older(path: Path) -> bool:
    """Whether a checkpoint is of format 1."""
    try:
        manifest = read_manifest(path)
    except CheckpointError:
        return False
    return int(manifest.get("format", 1)) < 2


def _describe_damage(path: Path) -> list[str]:
    """A sentence if a checkpoint is not whole; it is done again."""
    try:
        read_manifest(path)
    except CheckpointError as error:
        return [f"{error} It is done again."]
    return []
