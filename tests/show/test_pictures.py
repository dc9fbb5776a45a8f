"""What a run leaves to look at: the curve, TensorBoard's events; `test_report.py` has the report."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import flashdqn
from conftest import tiny_config
from flashdqn import Run
from flashdqn.runs import checkpoint
from flashdqn.runs.tables import read_table
from flashdqn.show.curve import draw_curve
from flashdqn.training.loop import Loop


def png_size(data: bytes) -> tuple[int, int]:
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_the_curve_is_a_picture(finished_run: Run) -> None:
    data = (finished_run.path / "curve.png").read_bytes()
    width, height = png_size(data)
    assert 600 <= width <= 3000
    assert 400 <= height <= 2000
    assert 5_000 < len(data) < 1_000_000


def test_a_curve_needs_a_row(tmp_path: Path, tiny_run: Callable[..., Run]) -> None:
    assert draw_curve(tmp_path) is None
    assert not list(tmp_path.iterdir())
    run = tiny_run(steps=50)  # one row, and no update yet: the loss is not a number
    assert len(read_table(run.path / "metrics.csv")) == 1
    png_size((run.path / "curve.png").read_bytes())


def scalars(run: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard itself reads in a run folder."""
    events = EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def assert_events_match_tables(run: Path) -> None:
    found = scalars(run)
    for prefix, name in (("train/", "metrics.csv"), ("eval/", "evaluations.csv")):
        rows = read_table(run / name)
        columns = [column for column in rows[0] if column != "step"]
        assert {tag for tag in found if tag.startswith(prefix)} == {prefix + column for column in columns}
        for column in columns:
            assert [step for step, _ in found[prefix + column]] == [int(row["step"]) for row in rows]
            values = [float(row[column]) for row in rows]
            assert [v for _, v in found[prefix + column]] == pytest.approx(values, rel=1e-5, nan_ok=True)


def test_tensorboard_reads_our_events(finished_run: Run) -> None:
    assert {"train/loss", "train/score", "train/eps", "eval/mean_score"} <= set(scalars(finished_run.path))
    assert_events_match_tables(finished_run.path)


class Killed(BaseException):
    """As sudden as can be within one process."""


@pytest.mark.parametrize("at", [1750, 2600, 3300])
def test_a_killed_run_shows_every_event_once(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed well after its last checkpoint, with the events of that time already on the disk."""
    config = tiny_config(
        out=str(tmp_path), log__tensorboard=True, log__every=200, eval__every=700, log__checkpoint_every=1500
    )
    iterate = Loop.iterate

    def until(self: Loop) -> None:
        iterate(self)
        if self.parts.counts.transitions >= at:
            self.reporter.flush()
            self.whole = False  # a killed process saves nothing
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "iterate", until)
        with pytest.raises(Killed):
            flashdqn.train(config, progress=False)
    (path,) = tmp_path.iterdir()
    point = int(checkpoint.list_checkpoints(path / "checkpoints", with_state=True)[-1].name)
    assert max(step for step, _ in scalars(path)["train/loss"]) > point
    flashdqn.train(resume=path, progress=False)
    assert_events_match_tables(path)


def test_events_older_than_a_checkpoint_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint brings the events before it to the disk, so that a kill right after it loses none."""
    seen: list[tuple[int, int]] = []
    save = checkpoint.save

    def look(folder: Path, *args: Any) -> Path:
        path = save(folder, *args)
        rows = read_table(folder.parent / "metrics.csv")
        found = scalars(folder.parent).get("train/loss", [])
        seen.append((len(rows), len(found)))
        return path

    monkeypatch.setattr(checkpoint, "save", look)
    flashdqn.train(tiny_config(out=str(tmp_path), log__tensorboard=True, log__every=100), progress=False)
    assert len(seen) > 4
    assert all(rows == events for rows, events in seen)
