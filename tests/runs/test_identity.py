"""What belongs together: settings, checkpoints, tables and the best one, known by checksums and the run's id."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flashdqn
from flashdqn import Run
from flashdqn.cli import main as cli
from flashdqn.core.errors import CheckpointError, FlashDQNError
from flashdqn.core.files import CHECKSUM, compute_checksum, read_signed_json, write_signed_json
from flashdqn.runs import checkpoint
from flashdqn.runs.best import find_best_checkpoint
from flashdqn.runs.checkpoint import MANIFEST, STATE, WEIGHTS
from flashdqn.runs.folder import RunFolder
from flashdqn.runs.health import find_problems
from flashdqn.runs.tables import read_table


def edit(file: Path, change: Callable[[dict[str, Any]], Any], sign: bool = False) -> None:
    """Change a JSON file as a person would, or as a program that knows of checksums."""
    data = json.loads(file.read_text())
    change(data)
    if sign:
        data.pop(CHECKSUM, None)
        data[CHECKSUM] = compute_checksum(data)
    file.write_text(json.dumps(data))


def change_gamma(data: dict[str, Any]) -> None:
    data["config"]["learn"]["gamma"] = 0.09


def points(run: Path, with_state: bool = False) -> list[Path]:
    return checkpoint.list_checkpoints(run / "checkpoints", with_state)


def make_old(run: Path) -> None:
    """A run as the version before this one has left it."""

    def strip(file: Path, *names: str) -> None:
        data = read_signed_json(file)
        file.write_text(json.dumps({k: v for k, v in data.items() if k not in ("run", "format", *names)}))

    for name in ("config.json", "summary.json", "columns.json"):
        strip(run / name)
    strip(run / "checkpoints" / "best.json", "weights")
    for point in points(run):
        data = read_signed_json(point / MANIFEST)
        write_signed_json(
            point / MANIFEST, {"format": 1, "counters": data["counters"], "files": data["files"]}
        )


@pytest.mark.parametrize(
    "command", [["eval"], ["export"], ["watch", "--gif", "x.gif"], ["train", "--resume"]]
)
def test_changed_settings_are_refused(run_copy: Path, command: list[str]) -> None:
    edit(run_copy / "config.json", change_gamma)
    with pytest.raises(CheckpointError, match=r"config\.json .*checksum.*train --config FILE"):
        cli.dispatch_command([*command, str(run_copy)])


def test_settings_that_differ_from_the_checkpoint_are_named(run_copy: Path) -> None:
    edit(run_copy / "config.json", change_gamma, sign=True)
    gamma = read_signed_json(points(run_copy)[-1] / MANIFEST)["config"]["learn"]["gamma"]
    said = rf"learn\.gamma is 0\.09 in config\.json and {gamma} in the checkpoint"
    with pytest.raises(CheckpointError, match=said):
        flashdqn.train(resume=run_copy, steps=9000, progress=False)
    with pytest.raises(CheckpointError, match=said):
        flashdqn.load(run_copy)


def test_an_edited_copy_starts_a_new_run(run_copy: Path, tmp_path: Path) -> None:
    copy = tmp_path / "mine.json"
    shutil.copy(run_copy / "config.json", copy)
    edit(copy, change_gamma)
    words = ["--steps", "300", "--out", str(tmp_path / "new")]
    assert cli.dispatch_command(["train", "--config", str(copy), *words]) == 0
    (run,) = (tmp_path / "new").iterdir()
    assert RunFolder.open(run).config().learn.gamma == 0.09


def test_a_checksum_that_was_taken_away_is_missed(run_copy: Path) -> None:
    edit(run_copy / "config.json", lambda data: data.pop(CHECKSUM))
    with pytest.raises(CheckpointError, match="checksum"):
        flashdqn.load(run_copy)
    edit(run_copy / "config.json", lambda data: data.pop("run"))  # as a run of the version before
    with pytest.raises(CheckpointError, match="belongs to another run"):
        flashdqn.load(run_copy)


def test_a_checkpoint_filled_from_another_is_refused(run_copy: Path) -> None:
    best = find_best_checkpoint(run_copy / "checkpoints")
    assert best is not None
    other = next(point for point in points(run_copy) if point != best[0])
    for name in (WEIGHTS, MANIFEST):
        shutil.copy(other / name, best[0] / name)
    with pytest.raises(CheckpointError, match=f"files are those of step {int(other.name):,}"):
        flashdqn.load(run_copy)
    assert flashdqn.load(other).evaluate(1).episodes == 1


def test_a_checkpoint_of_another_run_is_refused(run_copy: Path, tiny_run: Callable[..., Run]) -> None:
    other = tiny_run(seed=5, steps=1000)
    theirs = points(other.path, with_state=True)[-1]
    for sign in (False, True):
        shutil.copytree(theirs, run_copy / "checkpoints" / theirs.name, dirs_exist_ok=True)
        if sign:  # even where it claims the right step
            edit(run_copy / "checkpoints" / theirs.name / MANIFEST, lambda data: data.pop("run"), sign=True)
        with pytest.raises(CheckpointError, match="belongs to another run"):
            flashdqn.load(run_copy / "checkpoints" / theirs.name)


def test_a_best_of_other_weights_or_another_run_is_refused(run_copy: Path) -> None:
    best, kept = run_copy / "checkpoints" / "best.json", points(run_copy)[0]
    original = best.read_bytes()
    for change in ({"weights": "0" * 64}, {"run": "0" * 16}, {"checkpoint": kept.name}, {"format": 99}):
        best.write_bytes(original)
        edit(best, lambda data, change=change: data.update(change), sign=True)  # type: ignore[misc]
        with pytest.raises(CheckpointError, match=r"best\.json"):
            flashdqn.load(run_copy)
        assert any("best.json" in problem for problem in find_problems(run_copy))


@pytest.mark.parametrize("name", ["config.json", MANIFEST])
def test_a_later_format_is_called_newer(run_copy: Path, name: str) -> None:
    folder = run_copy if name == "config.json" else points(run_copy)[-1]
    edit(folder / name, lambda data: data.update(format=99))
    with pytest.raises(CheckpointError, match="newer version"):
        flashdqn.load(points(run_copy)[-1])


def test_a_summary_of_another_run_is_not_shown(run_copy: Path) -> None:
    edit(run_copy / "summary.json", lambda data: data.update(run="0" * 16, steps=987654321), sign=True)
    assert [p for p in find_problems(run_copy) if p.startswith("summary.json")]
    assert cli.dispatch_command(["report", str(run_copy)]) == 0
    assert "987654321" not in (run_copy / "report.html").read_text(encoding="utf-8").replace(",", "")


@pytest.mark.parametrize("name", ["metrics.csv", "evaluations.csv"])
def test_a_changed_table_is_said_and_kept(
    run_copy: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table, best = run_copy / name, (run_copy / "checkpoints" / "best.json").read_bytes()
    original = table.read_bytes()
    lines = original.splitlines(keepends=True)
    cells = lines[1].split(b",")
    table.write_bytes(b"".join([lines[0], b",".join([*cells[:3], b"987654", *cells[4:]]), *lines[2:]]))
    changed = table.read_bytes()
    assert [p for p in find_problems(run_copy) if p.startswith(f"{name} was changed")]
    assert cli.dispatch_command(["train", "--resume", str(run_copy), "--steps", "5600"]) == 0
    said = capsys.readouterr().out
    assert f"{name} was changed after it was written" in said
    assert (run_copy / name.replace(".csv", ".damaged.csv")).read_bytes() == changed
    assert (
        json.loads((run_copy / "checkpoints" / "best.json").read_bytes())["score"]
        >= json.loads(best)["score"]
    )
    assert not find_problems(run_copy)


def test_the_best_does_not_come_from_an_edited_table(run_copy: Path) -> None:
    rows = read_table(run_copy / "evaluations.csv")
    first = rows[0]["step"]
    text = (run_copy / "evaluations.csv").read_text()
    before = find_best_checkpoint(run_copy / "checkpoints")
    cells = list(rows[0].values())
    cells[3] = "1e9"
    lines = text.splitlines(keepends=True)
    (run_copy / "evaluations.csv").write_text("".join([lines[0], ",".join(cells) + "\n", *lines[2:]]))
    RunFolder(run_copy).rewind_to(points(run_copy, with_state=True)[-1])
    assert find_best_checkpoint(run_copy / "checkpoints") == before
    assert before is not None
    assert before[1] < 1e9
    assert first


def test_a_row_that_came_after_the_checkpoint_is_not_doubled(run_copy: Path) -> None:
    point = points(run_copy, with_state=True)[-1]
    table = run_copy / "metrics.csv"
    original = table.read_bytes()
    last = read_table(table)[-1]
    for tables in (True, False):  # format 1 knows only the step that was reported
        with table.open("ab") as file:
            file.write(original.splitlines(keepends=True)[-1])
        manifest = read_signed_json(point / MANIFEST)
        manifest["counters"]["reported_step"] = int(last["step"]) - (0 if tables else 1)
        if not tables:
            manifest.pop("tables")
        write_signed_json(point / MANIFEST, manifest)
        RunFolder(run_copy).rewind_to(point)
        kept = original if tables else b"".join(original.splitlines(keepends=True)[:-1])
        assert table.read_bytes() == kept


def test_a_damaged_best_checkpoint_is_said_when_another_takes_its_place(run_copy: Path) -> None:
    best = find_best_checkpoint(run_copy / "checkpoints")
    assert best is not None
    (best[0] / MANIFEST).write_text("{")
    assert any(best[0].name in problem for problem in find_problems(run_copy))
    newest = points(run_copy, with_state=True)[-1]
    if newest == best[0]:
        newest = points(run_copy, with_state=True)[-2]
    (said,) = RunFolder(run_copy).rewind_to(newest)
    assert best[0].name in said
    assert "chosen again" in said
    now = find_best_checkpoint(run_copy / "checkpoints")
    assert now is not None
    assert now[0] != best[0]


def test_an_old_run_opens_resumes_and_plays(run_copy: Path) -> None:
    make_old(run_copy)
    assert find_problems(run_copy) == []
    before = find_best_checkpoint(run_copy / "checkpoints")
    assert flashdqn.load(run_copy).evaluate(1).episodes == 1
    run = flashdqn.train(resume=run_copy, steps=5600, progress=False)
    assert run.finished
    assert find_problems(run_copy) == []
    for point in points(run_copy):
        assert flashdqn.load(point).num_actions == 3
    now = find_best_checkpoint(run_copy / "checkpoints")
    assert before is not None
    assert now is not None
    assert now[1] >= before[1]
    with pytest.raises(flashdqn.ConfigError, match="has used its budget"):
        flashdqn.train(resume=run_copy, progress=False)


def mutate(data: bytes, chance: random.Random) -> bytes:
    """One accident: bytes flipped, cut, doubled, zeroed, or replaced."""
    at = chance.randrange(max(1, len(data)))
    length = chance.randrange(1, 40)
    kind = chance.randrange(6)
    if kind == 0:
        return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[:at] + data[at : at + length] + data[at:]
    if kind == 3:
        return data[:at] + b"\0" * length + data[at + length :]
    if kind == 4:
        return data[:at] + data[at + length :]
    return data[:at] + chance.randbytes(length) + data[at + length :]


def test_no_damage_is_believed(finished_run: Run, tmp_path: Path) -> None:
    """Every file of a run, damaged at random: refused by name, or reported, or without effect."""
    run = Path(shutil.copytree(finished_run.path, tmp_path / "copy"))
    chance = random.Random(18)
    newest = points(run, with_state=True)[-1]
    files = [
        run / n for n in ("config.json", "summary.json", "columns.json", "metrics.csv", "evaluations.csv")
    ]
    files += [run / "checkpoints" / "best.json", newest / MANIFEST, newest / WEIGHTS, newest / STATE]
    for file in files:
        original = file.read_bytes()
        for _ in range(25):
            changed = mutate(original, chance)
            file.write_bytes(changed)
            same = changed == original
            if file.suffix == ".json" and not same:
                try:
                    same = json.loads(changed) == json.loads(original)
                except (ValueError, RecursionError):
                    same = False
            try:
                checkpoint.load_checkpoint(newest, with_state=True)
                RunFolder(run).play_point(run)
                RunFolder(run).config()
                noticed = bool(find_problems(run))
            except FlashDQNError as error:
                noticed = file.name in str(error) or file.parent.name in str(error)
            # rows after the newest checkpoint are covered by no manifest; here there are none
            assert noticed or same or changed.startswith(original), (file.name, changed[:200])
            file.write_bytes(original)
    assert find_problems(run) == []
