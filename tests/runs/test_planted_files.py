"""Links, pipes and huge files in a run folder: none is followed, waited for or read, and one sentence says so."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import flashdqn
from flashdqn.cli import main as cli
from flashdqn.core.errors import CheckpointError, FlashDQNError
from flashdqn.runs import checkpoint
from flashdqn.runs.best import find_best_checkpoint
from flashdqn.runs.checkpoint import MANIFEST, STATE, WEIGHTS
from flashdqn.runs.folder import RunFolder
from flashdqn.runs.rewind import rewind_run
from flashdqn.runs.tables import append_row, read_table
from flashdqn.show.curve import draw_curve
from flashdqn.show.report import write_report

SECRET = "a file of the user's"


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file outside the run folder that nothing may change."""
    path = tmp_path / "precious"
    path.write_text(SECRET)
    return path


def plant_link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def plant_hard_link(path: Path, target: Path) -> None:
    os.link(target, path)


def plant_pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def plant_socket(path: Path, _: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path is at most 108 bytes
    try:
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(path.name)
    finally:
        os.chdir(here)


def plant_folder(path: Path, _: Path) -> None:
    (path / "inside").mkdir(parents=True)


def plant_huge_file(path: Path, _: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100 * 2**30)  # sparse


PLANTS: dict[str, Callable[[Path, Path], None]] = {
    "link": plant_link,
    "pipe": plant_pipe,
    "socket": plant_socket,
    "folder": plant_folder,
    "huge file": plant_huge_file,
}


def plant(path: Path, kind: str, target: Path) -> None:
    """Put something else in the place of a file."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    PLANTS[kind](path, target)


@pytest.mark.parametrize("kind", PLANTS)
@pytest.mark.parametrize("name", ["config.json", "best.json", MANIFEST, WEIGHTS])
def test_what_is_read_must_be_a_plain_file(run_copy: Path, precious: Path, name: str, kind: str) -> None:
    best = find_best_checkpoint(run_copy / "checkpoints")
    assert best is not None
    folder = {"config.json": run_copy, "best.json": run_copy / "checkpoints"}.get(name, best[0])
    plant(folder / name, kind, precious)
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
        flashdqn.load(run_copy)
    assert precious.read_text() == SECRET


@pytest.mark.parametrize("kind", PLANTS)
@pytest.mark.parametrize(
    "name", ["metrics.csv", "evaluations.csv", "summary.json", "columns.json", "demos.json"]
)
def test_a_report_says_what_it_could_not_read(
    run_copy: Path, precious: Path, name: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(run_copy / name, kind, precious)
    assert cli.dispatch_command(["report", str(run_copy)]) == 0
    assert f"Note    {name}" in capsys.readouterr().out
    assert name in (run_copy / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["link", "pipe", "socket"])
def test_a_resumed_run_follows_nothing(run_copy: Path, precious: Path, kind: str) -> None:
    for name in ("metrics.csv", "evaluations.csv", "summary.json", "columns.json", "demos.json", "curve.png"):
        plant(run_copy / name, kind, precious)
    for name in (
        ".report.html.writing",
        "report.html",
        "metrics.writing",
        ".config.json.writing",
        "loggers.json",
    ):
        plant(run_copy / name, kind, precious)
    for step in range(5400, 5700):
        PLANTS[kind](run_copy / "checkpoints" / f".writing-{step:012d}", precious)
        PLANTS[kind](run_copy / "checkpoints" / f".replaced-{step:012d}", precious)
    run = flashdqn.train(resume=run_copy, steps=5600, progress=False)
    assert run.finished
    assert precious.read_text() == SECRET
    assert read_table(run_copy / "metrics.csv")[-1]["step"] == str(run.summary["steps"])
    assert (run_copy / "report.html").is_file()
    assert not (run_copy / "report.html").is_symlink()
    assert not list((run_copy / "checkpoints").glob(".*"))


def test_a_planted_lock_is_neither_emptied_nor_waited_for(run_copy: Path, precious: Path) -> None:
    lock = run_copy / ".lock"
    for kind in ("link", "pipe", "socket", "folder"):
        plant(lock, kind, precious)
        with pytest.raises(CheckpointError, match=r"\.lock|cannot be written"), RunFolder(run_copy).locked():
            pass
        assert precious.read_text() == SECRET
    shutil.rmtree(lock)
    os.link(precious, lock)
    with RunFolder(run_copy).locked():
        assert precious.read_text() == SECRET


def test_a_table_with_a_second_name_is_not_written_to(run_copy: Path, tmp_path: Path) -> None:
    table, other = run_copy / "metrics.csv", tmp_path / "backup.csv"
    os.link(table, other)
    before, rows = other.read_bytes(), read_table(table)
    append_row(table, rows[-1] | {"step": "999999"})
    assert other.read_bytes() == before
    assert [row["step"] for row in read_table(table)][-2:] == [rows[-1]["step"], "999999"]


def test_a_linked_checkpoint_is_refused_and_a_linked_run_is_not(run_copy: Path, tmp_path: Path) -> None:
    outside = tmp_path / "link"
    outside.symlink_to(run_copy)
    assert flashdqn.load(outside).evaluate(1).episodes == 1
    points = checkpoint.list_checkpoints(run_copy / "checkpoints")
    link = run_copy / "checkpoints" / f"{9_999_999:012d}"
    link.symlink_to(points[-1])
    for wanted in (run_copy, link):
        with pytest.raises(CheckpointError, match="link"):
            flashdqn.load(wanted)
    link.unlink()
    link.write_text("a file")
    with pytest.raises(CheckpointError, match="not a folder"):
        flashdqn.load(run_copy)
    link.unlink()
    (run_copy / "checkpoints").rename(tmp_path / "elsewhere")
    (run_copy / "checkpoints").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="link"):
        flashdqn.load(run_copy)


def test_a_file_where_a_checkpoint_will_be_is_replaced(run_copy: Path, precious: Path) -> None:
    folder = run_copy / "checkpoints"
    newest = checkpoint.list_checkpoints(folder, with_state=True)[-1]
    weights, state, counters = checkpoint.load_checkpoint(newest, with_state=True)
    shutil.rmtree(newest)
    newest.symlink_to(precious)
    checkpoint.save(folder, weights, state, counters)
    assert precious.read_text() == SECRET
    assert not newest.is_symlink()
    assert (newest / STATE).is_file()
    assert not list(folder.glob(".*"))


def test_pages_replace_links(run_copy: Path, precious: Path) -> None:
    for name in ("report.html", "curve.png"):
        plant(run_copy / name, "link", precious)
    assert not write_report(run_copy).is_symlink()
    drawn = draw_curve(run_copy)
    assert drawn is not None
    assert not drawn.is_symlink()
    assert precious.read_text() == SECRET


def test_a_removed_checkpoint_takes_no_file_outside_with_it(run_copy: Path, precious: Path) -> None:
    points = checkpoint.list_checkpoints(run_copy / "checkpoints")
    (points[-1] / "link").symlink_to(precious.parent)
    (points[-1] / "file").symlink_to(precious)
    rewind_run(run_copy, int(points[-2].name))
    assert not points[-1].exists()
    assert precious.read_text() == SECRET


def test_events_are_not_written_through_a_link(run_copy: Path, precious: Path) -> None:
    (run_copy / "wandb").symlink_to(precious.parent)
    before = {path.name for path in precious.parent.iterdir()}
    for file in run_copy.glob("events.out.*"):
        (run_copy / f"{file.name}.0").symlink_to(precious)
    flashdqn.train(resume=run_copy, steps=5600, progress=False)
    assert precious.read_text() == SECRET
    assert {path.name for path in precious.parent.iterdir()} == before


def test_every_refusal_is_of_our_own_kind(run_copy: Path, precious: Path) -> None:
    plant(run_copy / "config.json", "pipe", precious)
    for words in (["eval"], ["report"], ["export"], ["train", "--resume"]):
        with pytest.raises(FlashDQNError, match="named pipe"):
            cli.dispatch_command([*words, str(run_copy)])
