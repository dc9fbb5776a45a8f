"""Scripts of a few lines, each watched in its own process."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from flashdqn.doctor.run import Patient, watch_patient
from flashdqn.doctor.watch.rows import CallSite
from flashdqn.doctor.watch.schema import WatchRecord

#: Replaces torch where any module of that name will do: the real one takes seconds to import.
HOLLOW_TORCH = '__version__ = "0.0"\n'


def write_script(folder: Path, text: str, name: str = "script.py", *, hollow: bool = False) -> Path:
    """A file with this text; with `hollow`, an empty torch beside it."""
    if hollow:
        (folder / "torch.py").write_text(HOLLOW_TORCH, encoding="utf-8")
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def watch_script(path: Path, *arguments: str, **options: Any) -> WatchRecord:
    return watch_patient(Patient(str(path), arguments, **{"seconds": 60.0, "probe": 0.01} | options))


def line_of(path: Path, mark: str) -> int:
    """The number of the line that has this mark in it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if mark in line]
    return found


def site_at(record: WatchRecord, kind: str, path: Path, mark: str) -> CallSite:
    """What was noted of a kind at the line with this mark."""
    (found,) = [
        site for site in record.kinds(kind) if (site.file, site.line) == (str(path), line_of(path, mark))
    ]
    return found
