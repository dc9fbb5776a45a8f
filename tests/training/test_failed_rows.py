"""A disk that fails once, at a row of a table: the run is saved after it, and no row is lost or there twice."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

import flashdqn
from conftest import tiny_config
from flashdqn import Run
from flashdqn.core.errors import StorageError
from flashdqn.runs import folder as folders
from flashdqn.runs.tables import read_table
from flashdqn.training.progress import Silent
from flashdqn.training.session import start_run

SETTINGS = {"log__every": 200, "eval__every": 300, "steps": 600}


def read_steps(run: Path, table: str) -> list[str]:
    return [row["step"] for row in read_table(run / table)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return start_run(tiny_config(**SETTINGS, out=str(tmp_path_factory.mktemp("whole"))), Silent())


@pytest.mark.parametrize("at", [0, 1, -1], ids=["the first", "the second", "the last"])
@pytest.mark.parametrize(
    ("table", "stays"),
    [("metrics.csv", False), ("evaluations.csv", False), ("evaluations.csv", True)],
    ids=["metrics", "evaluations", "evaluations that stay"],
)
def test_a_row_that_failed_is_there_once(
    table: str, stays: bool, at: int, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, append, failed = read_steps(whole.path, table), folders.append_row, []

    def fail_once(path: Path, cells: Any) -> None:
        fails = path.name == table and str(cells["step"]) == expected[at] and not failed
        if stays or not fails:
            append(path, cells)
        if fails:
            failed.append(path)
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(folders, "append_row", fail_once)
    with pytest.raises(StorageError, match=r"Input/output error.*is saved; go on"):
        start_run(tiny_config(**SETTINGS, out=str(tmp_path)), Silent())
    (run,) = tmp_path.iterdir()
    resumed = flashdqn.train(resume=run, progress=False)
    assert resumed.summary["weights"] == whole.summary["weights"]
    for name in ("metrics.csv", "evaluations.csv"):
        assert read_steps(run, name) == read_steps(whole.path, name)


def test_an_evaluation_that_was_due_after_a_failed_report_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SETTINGS | {"eval__every": 200}  # due at the same steps
    whole = start_run(tiny_config(**settings, out=str(tmp_path / "whole")), Silent())
    rows, failed = read_steps(whole.path, "evaluations.csv"), []
    append = folders.append_row

    def fail_once(path: Path, cells: Any) -> None:
        if path.name == "metrics.csv" and str(cells["step"]) == rows[0] and not failed:
            failed.append(path)
            raise OSError(errno.ENOSPC, "No space left on device")
        append(path, cells)

    monkeypatch.setattr(folders, "append_row", fail_once)
    with pytest.raises(StorageError, match=r"No space left on device.*is saved; go on"):
        start_run(tiny_config(**settings, out=str(tmp_path / "failed")), Silent())
    (run,) = (tmp_path / "failed").iterdir()
    flashdqn.train(resume=run, progress=False)
    assert read_steps(run, "evaluations.csv") == rows
