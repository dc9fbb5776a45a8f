"""Trainings of a few hundred steps, and what must be equal between one that was disturbed and one that was not."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_COMMON = [
    "--device", "cpu", "--steps", "480", "--envs", "8", "--network.hidden", "8", "--replay.capacity", "400",
    "--learn.batch-size", "16", "--learn.starts", "80", "--learn.target-every", "5", "--learn.lr", "0.03",
    "--explore.over", "300", "--train-ratio", "0.0625", "--eval.every", "200", "--eval.episodes", "4",
    "--log.every", "80", "--log.checkpoint-every", "160", "--log.no-game", "--runtime.threads", "1",
    "--runtime.no-warmup", "--runtime.mode", "eager",
]  # fmt: skip
#: The words after `train` for each kind of training. In the plain one, scores differ: the best is not the first.
PLAIN = ["snake", *_COMMON, "--env.size", "5", "--log.no-tensorboard"]
EVENTS = ["snake", *_COMMON, "--env.size", "5", "--log.tensorboard"]
DEMONSTRATED = [
    *PLAIN, "--demos.source", "random", "--demos.episodes", "4", "--demos.pretrain-steps", "3",
]  # fmt: skip
GYM = ["gym:CartPole-v1", *_COMMON, "--log.no-tensorboard"]

#: Columns that time and memory write.
_VARYING = ("seconds", "steps_per_second", "memory_mb", "us_")


@dataclass(frozen=True)
class Digest:
    """What a run has come to, as far as it does not depend on the clock."""

    weights: str
    metrics: list[list[str]]
    evaluations: list[list[str]]
    best: dict[str, Any]
    files: list[str]

    def differs(self, other: Digest) -> str:
        """In what two runs differ, in words; empty if in nothing."""
        for name in ("weights", "metrics", "evaluations", "best", "files"):
            ours, theirs = getattr(self, name), getattr(other, name)
            if name == "files" and ours != theirs:
                return f"files: {sorted({*ours} - {*theirs})} too many, {sorted({*theirs} - {*ours})} missing"
            if ours != theirs:
                return f"{name} differ: {str(ours)[-150:]} instead of {str(theirs)[-150:]}"
        return ""


def digest_run(run: Path) -> Digest:
    """Read a finished run without flashdqn's own code."""
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    best = json.loads((run / "checkpoints" / "best.json").read_text(encoding="utf-8"))
    names = [str(path.relative_to(run)) for path in run.rglob("*") if ".tfevents." not in path.name]
    return Digest(
        summary["weights"],
        read_columns(run / "metrics.csv", ("step", "updates", "episodes")),
        read_columns(run / "evaluations.csv"),
        {"checkpoint": best["checkpoint"], "score": best["score"]},
        sorted(name for name in names if name != ".lock"),
    )


def read_columns(path: Path, wanted: tuple[str, ...] = ()) -> list[list[str]]:
    """A table with its header; only `wanted` columns, or all that do not vary."""
    if not path.exists():
        return []
    rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
    kept = [
        k for k, name in enumerate(rows[0]) if (name in wanted if wanted else not name.startswith(_VARYING))
    ]
    return [[row[k] for k in kept] for row in rows]


def find_run(out: Path) -> Path | None:
    """The newest run in an output folder."""
    return max((path for path in out.glob("*") if path.is_dir()), default=None) if out.exists() else None


def list_resumable(run: Path) -> list[int]:
    """Steps of the checkpoints that have their state; one that is just being replaced will be put back."""
    names = [path.parent.name for path in run.glob("checkpoints/*/state.safetensors")]
    found = [re.match(r"(?:\.replaced-)?(\d{12})", name) for name in names]
    return sorted(int(match[1]) for match in found if match)


def list_litter(folder: Path) -> list[str]:
    """Files that are neither whole nor wanted."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob(".*") if path.name != ".lock")
