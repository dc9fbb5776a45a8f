"""Which checkpoint evaluated best: best.json names it, and the manifests know the scores."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from flashdqn.core.errors import CheckpointError
from flashdqn.core.files import RUN, describe_problem, read_signed_json, write_signed_json
from flashdqn.runs.checkpoint import (
    NAME,
    STATE,
    WEIGHTS,
    list_checkpoints,
    read_manifest,
    remove_checkpoint,
)
from flashdqn.runs.origin import read_evaluation
from flashdqn.runs.records import FORMAT

BEST_FILE = "best.json"
#: With more checkpoints than this, the older half of them is thinned out.
MOST_CHECKPOINTS = 200


def mark_best_checkpoint(folder: Path, path: Path, score: float) -> None:
    """Point best.json at a checkpoint."""
    manifest = read_manifest(path)
    data = {
        "format": FORMAT,
        "checkpoint": path.name,
        "score": score,
        "weights": manifest["files"].get(WEIGHTS),
        **({RUN: manifest[RUN]} if RUN in manifest else {}),
    }
    write_signed_json(folder / BEST_FILE, data)


def read_best(folder: Path) -> tuple[Path, float] | None:
    """The checkpoint that best.json names, and its score; None if there is no such file. CheckpointError if it
    cannot be believed."""
    file = folder / BEST_FILE
    try:
        data = read_signed_json(file, newest=FORMAT)
        path, score = folder / str(data["checkpoint"]), float(data["score"])
        if not NAME.fullmatch(path.name) or not math.isfinite(score):
            raise ValueError("it names no checkpoint with a score")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} {describe_problem(error)}.") from None
    except (KeyError, TypeError):
        raise CheckpointError(f"{file} cannot be read: it names no checkpoint with a score.") from None
    if path not in list_checkpoints(folder):
        raise CheckpointError(f"{file} names the checkpoint {path.name}, which is not there.")
    _check_best(file, data, path)
    return path, score


def _check_best(file: Path, data: Mapping[str, Any], path: Path) -> None:
    """Refuse a best.json of another run or of other weights; in a run of format 1 it has neither."""
    manifest = read_manifest(path)
    if data.get(RUN) != manifest.get(RUN):
        raise CheckpointError(f"{file} belongs to another run than the checkpoint {path.name}.")
    if data.get("weights", manifest["files"].get(WEIGHTS)) != manifest["files"].get(WEIGHTS):
        raise CheckpointError(
            f"{file} was written for other weights than those of the checkpoint {path.name}."
        )


def find_best_checkpoint(folder: Path) -> tuple[Path, float] | None:
    """The checkpoint that evaluated best, and its score: by best.json, or by the manifests if that is of no use."""
    with suppress(CheckpointError):
        if (named := read_best(folder)) is not None:
            return named
    return find_best_by_scores(folder, read_scores(folder))


def find_best_by_scores(folder: Path, scores: Mapping[int, float]) -> tuple[Path, float] | None:
    """The checkpoint with the highest score; of equals, the first."""
    there = {path: scores[int(path.name)] for path in list_checkpoints(folder) if int(path.name) in scores}
    known = {path: score for path, score in there.items() if math.isfinite(score)}
    return max(known.items(), key=lambda one: one[1]) if known else None


def read_scores(folder: Path) -> dict[int, float]:
    """The scores that the manifests know, by step; those of damaged checkpoints are left out."""
    scores = {}
    for path in list_checkpoints(folder):
        try:
            step, score = read_evaluation(read_manifest(path))
        except CheckpointError:
            continue
        if step == int(path.name):
            scores[step] = score
    return scores


def thin_out_checkpoints(folder: Path) -> None:
    """Keep the disk of a long run from filling: of the older half every second checkpoint goes, never the best one
    or one that can be resumed from."""
    with suppress(CheckpointError, OSError):
        paths = list_checkpoints(folder)
        if len(paths) <= MOST_CHECKPOINTS:
            return
        kept = {found[0]} if (found := find_best_checkpoint(folder)) else set()
        older = [p for p in paths[1 : len(paths) // 2] if p not in kept and not os.path.lexists(p / STATE)]
        for path in older[::2]:
            remove_checkpoint(path)
