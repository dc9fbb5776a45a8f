"""Run folders: created under a name of their own and safe on disk, cleaned after a crash, usable on a full or
read-only disk."""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import flashdqn
from conftest import tiny_config
from flashdqn import Run
from flashdqn.cli import main as cli
from flashdqn.core import files
from flashdqn.core.errors import CheckpointError, ConfigError, FlashDQNError, StorageError
from flashdqn.export.flow import Wanted, export_policy
from flashdqn.runs import checkpoint, tables
from flashdqn.runs import folder as folders
from flashdqn.runs.folder import RunFolder
from flashdqn.runs.records import read_run_record


def test_many_runs_in_one_second_have_different_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "strftime", lambda _: "20260101-000000")
    config = tiny_config(out=str(tmp_path / "runs"))
    made = [RunFolder.create(config, {}) for _ in range(30)]
    assert len({folder.path for folder in made}) == 30
    assert len({read_run_record(folder.path).run for folder in made}) == 30
    assert made[0].path.name == "snake-20260101-000000"


def test_a_name_that_is_always_taken_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "strftime", lambda _: "20260101-000000")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "00000000")
    config = tiny_config(out=str(tmp_path))
    for _ in range(11):
        RunFolder.create(config, {})
    with pytest.raises(ConfigError, match=r"cannot be written: .*exist already.*--out"):
        RunFolder.create(config, {})


def test_a_full_disk_leaves_no_folder_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        RunFolder.create(tiny_config(out=str(tmp_path / "runs")), {})
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES])
def test_a_broken_disk_is_a_failure_and_a_wrong_path_a_mistake(
    number: int, run_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, code = RunFolder(run_copy), 2 if number == errno.EACCES else 1

    def fail(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(folders, "open_plain_file", fail)
        with pytest.raises(CheckpointError, match="cannot be written") as caught, folder.locked():
            pass
        assert caught.value.exit_code == code
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "recover_interrupted_save", fail)
        with pytest.raises(CheckpointError, match="cannot be written") as caught:
            folder.recover()
        assert caught.value.exit_code == code
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", fail)
        with pytest.raises(FlashDQNError, match=r"cannot be written.*--out") as refused:
            RunFolder.create(tiny_config(out=str(tmp_path / "new")), {})
        assert refused.value.exit_code == code


@pytest.mark.parametrize("name", ["sync_to_disk", "save_file"])
def test_a_checkpoint_that_cannot_be_written_is_a_failure(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for module in (folders, checkpoint):
        monkeypatch.setattr(module, name, fail, raising=False)
    with pytest.raises(StorageError, match="cannot be written: No space left"):
        RunFolder(tmp_path).save_checkpoint({"a": torch.zeros(1)}, None, {"transitions": 5})
    assert not list(tmp_path.rglob(".*"))


def test_a_new_run_is_on_disk_with_all_folders_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []

    def note(path: Path) -> None:
        synced.append(path)

    monkeypatch.setattr(folders, "sync_to_disk", note)
    monkeypatch.setattr(files, "sync_to_disk", note)
    made = RunFolder.create(tiny_config(out=str(tmp_path / "a" / "b")), {})
    last = {path: n for n, path in enumerate(synced)}
    assert {made.path, tmp_path / "a" / "b", tmp_path / "a", tmp_path} <= last.keys()
    assert last[made.path] < last[tmp_path / "a" / "b"]


def test_tables_are_on_disk_before_the_checkpoint_that_describes_them(
    tiny_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    sync, rename = files.sync_to_disk, Path.rename

    def note_sync(path: Path) -> None:
        events.append(f"sync {path.name}")
        sync(path)

    def note_rename(self: Path, target: Any) -> Path:
        events.append(f"rename {Path(target).name}")
        return rename(self, target)

    for module in (folders, checkpoint, files):
        monkeypatch.setattr(module, "sync_to_disk", note_sync)
    monkeypatch.setattr(Path, "rename", note_rename)
    run = tiny_run(steps=1000)
    newest = checkpoint.list_checkpoints(run.path / "checkpoints")[-1].name
    before = events[: events.index(f"rename {newest}")]
    assert "sync metrics.csv" in before
    assert before[-1].startswith("sync .writing-")
    assert events[events.index(f"rename {newest}") + 1] == "sync checkpoints"


def test_what_a_crash_left_is_gone_after_a_resume(run_copy: Path) -> None:
    (run_copy / "checkpoints" / ".writing-000000009000-abc").mkdir()
    (run_copy / "checkpoints" / ".0123.writing.json").write_text("{")
    (run_copy / ".0123.writing.png").write_text("half")
    flashdqn.train(resume=run_copy, steps=5600, progress=False)
    left = [path.name for folder in (run_copy, run_copy / "checkpoints") for path in folder.glob(".*")]
    assert left == [".lock"]


def test_what_a_disk_refused_to_remove_is_gone_when_the_session_ends(run_copy: Path) -> None:
    folder = folders.RunFolder.open(run_copy)
    newest = checkpoint.list_checkpoints(folder.checkpoints)[-1]
    with folder.locked():
        shutil.copytree(newest, newest.with_name(f".replaced-{newest.name}"))
        (folder.checkpoints / ".writing-000000000001-0").mkdir()
    assert not list(folder.checkpoints.glob(".*"))
    assert newest in checkpoint.list_checkpoints(folder.checkpoints)


def test_a_damaged_config_does_not_stop_a_training_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read at the start counts: a fault in one file must not lose the work of the others."""
    config = tiny_config(out=str(tmp_path))
    original, spoiled = RunFolder.add_evaluation, []

    def spoil(self: RunFolder, row: Any) -> None:
        original(self, row)
        if self._record is not None and not spoiled:
            file = self.path / "config.json"
            spoiled.append((file, file.read_bytes()))
            file.write_bytes(b"")

    monkeypatch.setattr(RunFolder, "add_evaluation", spoil)
    run = flashdqn.train(config, progress=False)
    assert run.finished
    for file, data in spoiled:
        file.write_bytes(data)
    assert spoiled
    assert flashdqn.load(run.path).evaluate(1).episodes == 1


def test_a_folder_without_checkpoints_says_so_and_has_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = RunFolder.create(tiny_config(out=str(tmp_path)), {})
    with pytest.raises(CheckpointError, match="holds no checkpoint to resume from"):
        flashdqn.train(resume=made.path, progress=False)
    assert cli.dispatch_command(["report", str(made.path)]) == 0
    assert "Note" not in capsys.readouterr().out


@pytest.mark.parametrize("int8", [False, True])
def test_an_export_that_cannot_be_written_is_refused_at_once(
    run_copy: Path, monkeypatch: pytest.MonkeyPatch, int8: bool
) -> None:
    monkeypatch.setattr(files, "can_add_file", lambda _: False)
    monkeypatch.setattr(
        "flashdqn.export.flow.load_agent", lambda *_: pytest.fail("it worked before it looked")
    )
    with pytest.raises(ConfigError, match="cannot be written to"):
        export_policy(Wanted(run_copy, int8=int8))
    before = sorted(path.name for path in run_copy.iterdir())
    assert sorted(path.name for path in run_copy.iterdir()) == before


def test_an_export_to_a_full_disk_leaves_nothing(run_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(path.name for path in run_copy.iterdir())

    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "sync_to_disk", full)
    with pytest.raises(OSError, match="No space left"):
        export_policy(Wanted(run_copy, to="torchscript", observations=8, episodes=1))
    assert sorted(path.name for path in run_copy.iterdir()) == before


def test_reading_writes_nothing(run_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a read-only disk."""
    before = {path: path.stat().st_mtime_ns for path in run_copy.rglob("*")}
    monkeypatch.chdir(tmp_path)
    assert cli.dispatch_command(["eval", str(run_copy), "--episodes", "2"]) == 0
    assert cli.dispatch_command(["report", str(run_copy), "--out", "page.html"]) == 0
    assert {path: path.stat().st_mtime_ns for path in run_copy.rglob("*")} == before


def test_a_hand_made_device_is_written_to_directly(run_copy: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="it is a named pipe"):
        files.check_writable_file(pipe)
    files.write_output(Path("/dev/null"), "x")
    assert Path("/dev/null").is_char_device()
    shutil.rmtree(run_copy)


def test_a_table_on_a_full_disk_keeps_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "metrics.csv"
    tables.append_row(table, {"step": 1, "loss": 0.5})
    with table.open("ab") as file:
        file.write(b"2,0.")  # as far as the disk went
    tables.append_row(table, {"step": 3, "loss": 0.25})
    assert [row["step"] for row in tables.read_table(table)] == ["1", "3"]


@pytest.mark.parametrize("there", [False, True], ids=["the first row", "a later one"])
def test_nothing_is_left_of_a_row_that_cannot_be_written(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metrics.csv"
    if there:
        tables.append_row(path, {"step": 1, "loss": 0.5})
    before = path.read_bytes() if there else b""
    truncated: list[int] = []

    def fail_at_folder(path: Path) -> None:
        if path == tmp_path:
            raise OSError(errno.EIO, "Input/output error")

    class Half(io.FileIO):
        """Takes a few bytes of a row, and fails then."""

        def write(self, data: Any) -> int:
            if self.tell() > len(before):
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data[:3])

        def truncate(self, size: int | None = None) -> int:
            truncated.append(self.tell())
            return super().truncate(size)

    monkeypatch.setattr(files, "sync_to_disk", fail_at_folder)
    monkeypatch.setattr(os, "fdopen", lambda handle, mode, **_: Half(handle, mode))
    with pytest.raises(OSError, match=r"error|No space"):
        tables.append_row(path, {"step": 2, "loss": 0.25})
    monkeypatch.undo()
    assert path.exists() == there
    assert not there or path.read_bytes() == before
    assert truncated == ([len(before) + 3] if there else [])


def test_a_damaged_checkpoint_after_the_resume_point_is_named(run_copy: Path) -> None:
    paths = checkpoint.list_checkpoints(run_copy / "checkpoints")
    manifest = paths[-1] / checkpoint.MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:-9])
    said = RunFolder(run_copy).rewind_to(paths[0])
    assert any(paths[-1].name in line and "is damaged" in line for line in said)
    assert checkpoint.list_checkpoints(run_copy / "checkpoints") == paths[:1]


def test_a_lock_that_is_a_folder_is_named(run_copy: Path) -> None:
    (run_copy / ".lock").unlink(missing_ok=True)
    (run_copy / ".lock").mkdir()
    with pytest.raises(CheckpointError, match=r"\.lock"), RunFolder(run_copy).locked():
        pass


def test_a_folder_in_the_place_of_the_run_is_not_written_to(tmp_path: Path) -> None:
    folder = RunFolder.create(tiny_config(out=str(tmp_path / "runs")), {})
    with folder.locked():
        folder.write_json("note.json", {})
        folder.path.rename(tmp_path / "moved")
        folder.path.mkdir()
        for write in (
            lambda: folder.write_json("note.json", {}),
            lambda: folder.save_checkpoint({"w": torch.zeros(1)}, None, {"transitions": 1}),
        ):
            with pytest.raises(StorageError, match="was replaced by another folder"):
                write()
    assert list(folder.path.iterdir()) == []
    assert (tmp_path / "moved" / "note.json").exists()
