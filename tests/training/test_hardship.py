"""A training meets the world: a reader that goes away, a second trainer, a full disk, a slow start."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import tiny_config, tiny_flags
from flashdqn import load
from flashdqn.api import train
from flashdqn.cli import main as cli
from flashdqn.core.errors import CheckpointError
from flashdqn.runs import checkpoint
from flashdqn.runs.folder import RunFolder
from flashdqn.show.terminal import SteadyConsole
from flashdqn.training.progress import Plain, Silent
from flashdqn.training.session import start_run


def test_a_reader_that_goes_away_does_not_end_the_training(tmp_path: Path) -> None:
    class Closed:
        def write(self, _: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

        def isatty(self) -> bool:
            return False

    stream: Any = Closed()
    console = SteadyConsole(file=stream)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flashdqn.show.terminal.discard_output", lambda _: None)  # pytest's own output stays
        assert start_run(tiny_config(out=str(tmp_path)), Plain(console)).finished
    assert console.quiet


def test_without_any_output_it_still_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.dispatch_command(["train", "snake", *tiny_flags(out=tmp_path / "out", steps=1000)]) == 0


def test_two_trainers_in_one_folder_are_refused(run_copy: Path) -> None:
    folder = RunFolder(run_copy)
    with folder.locked(), pytest.raises(CheckpointError, match="by another process"):
        train(resume=run_copy, steps=10_000, progress=False)
    assert train(resume=run_copy, steps=5_600, progress=False).finished


def test_a_full_disk_is_one_sentence_and_leaves_no_half_checkpoint(
    run_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(path.name for path in (run_copy / "checkpoints").iterdir())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(CheckpointError, match="No space left"):
        train(resume=run_copy, steps=5_600, progress=False)
    assert sorted(path.name for path in (run_copy / "checkpoints").iterdir()) == before


def test_a_damaged_checkpoint_to_play_with_offers_the_one_before(run_copy: Path) -> None:
    paths = checkpoint.list_checkpoints(run_copy / "checkpoints")
    assert len(paths) > 1
    weights = paths[-1] / checkpoint.WEIGHTS
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(CheckpointError, match=f"damaged.*flashdqn eval .*{paths[-2].name}"):
        load(paths[-1])
    assert load(paths[-2]).evaluate(2).episodes == 2


def test_a_long_fill_respects_the_time(tmp_path: Path) -> None:
    config = tiny_config(out=str(tmp_path), steps=None, max_time=0.05, learn__starts=10**9)
    run = start_run(config, Silent())
    assert run.finished
    assert run.summary["updates"] == 0


def test_a_checkpoint_is_found_from_inside_its_folder(
    run_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = checkpoint.list_checkpoints(run_copy / "checkpoints")[-1]
    monkeypatch.chdir(point)
    assert RunFolder.open(Path()).path == run_copy
    assert load(Path()).evaluate(2).episodes == 2


def test_a_folder_that_cannot_be_locked_is_one_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(CheckpointError, match="cannot be written"),
        RunFolder(tmp_path / "nowhere").locked(),
    ):
        pass
