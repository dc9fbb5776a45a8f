"""TensorBoard's events, written without a thread of its own: whole records, in order, on any disk and clock."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from conftest import tiny_config
from flashdqn.config import LogConfig
from flashdqn.runs.tables import read_table
from flashdqn.training.progress import Silent
from flashdqn.training.session import start_run
from flashdqn.training.sinks import About
from flashdqn.training.sinks.tensorboard import TensorBoard, crc32c, mask

EVENTS = "events.out.tfevents.*"


def open_board(folder: Path, step: int = 0) -> TensorBoard:
    return TensorBoard(About(folder, {}, LogConfig(), step, None))


def write_points(folder: Path, begin: int, steps: range) -> None:
    board = open_board(folder, begin)
    for step in steps:
        board.scalars({"a": float(step)}, step)
    board.flush()
    board.close(None)


def read_steps(folder: Path) -> list[int]:
    """What TensorBoard itself shows."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return [event.step for event in events.Scalars("a")]


@given(st.binary(max_size=1200))
def test_the_checksum_is_that_of_tensorboard(data: bytes) -> None:
    assert mask(crc32c(data)) == masked_crc32c(data)


@pytest.mark.parametrize("back", [0, 1, 86400 * 400], ids=["the same second", "a second back", "a year back"])
def test_a_resumed_run_hides_what_was_cut_off_on_any_clock(
    back: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    write_points(tmp_path, 0, range(1, 8))
    monkeypatch.setattr(time, "time", lambda: now - back)
    write_points(tmp_path, 5, range(6, 9))
    write_points(tmp_path, 7, range(8, 12))
    assert read_steps(tmp_path) == list(range(1, 12))


def test_a_name_with_a_wild_time_does_not_matter(tmp_path: Path) -> None:
    for name in ("9999999999.a", "99999999999999999999.b", "x", "-1.c"):
        (tmp_path / f"events.out.tfevents.{name}").touch()
    write_points(tmp_path, 0, range(1, 4))
    assert read_steps(tmp_path) == [1, 2, 3]


def test_a_record_that_was_cut_short_costs_nothing_else(tmp_path: Path) -> None:
    write_points(tmp_path, 0, range(1, 6))
    (file,) = tmp_path.glob(EVENTS)
    os.truncate(file, file.stat().st_size - 5)
    write_points(tmp_path, 3, range(4, 8))
    assert read_steps(tmp_path) == list(range(1, 8))


def test_a_disk_that_takes_a_few_bytes_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
    write_points(tmp_path, 0, range(1, 4))
    monkeypatch.undo()
    assert read_steps(tmp_path) == [1, 2, 3]


class Noting(Silent):
    """Remembers what is said."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_a_run_goes_on_without_events_that_cannot_be_written(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    scalars, write = TensorBoard.scalars, os.write

    def fail(board: TensorBoard, *arguments: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(number, os.strerror(number))))
            scalars(board, *arguments)

    monkeypatch.setattr(TensorBoard, "scalars", fail)
    progress, before = Noting(), threading.active_count()
    run = start_run(tiny_config(out=str(tmp_path), steps=1000, log__tensorboard=True), progress)
    assert os.write is write
    assert run.finished
    assert read_table(run.path / "metrics.csv")
    said = [note for note in progress.notes if "TensorBoard" in note]
    assert len(said) == 1
    assert os.strerror(number) in said[0]
    assert "\n" not in said[0]
    assert "Traceback" not in "".join(capfd.readouterr())
    assert threading.active_count() <= before


def test_what_cannot_be_opened_leaves_no_handle(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        open_board(tmp_path / "missing")
    open_handles = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        open_board(tmp_path)  # dropped without a word, as after an error
    assert len(list(Path("/proc/self/fd").iterdir())) == open_handles
