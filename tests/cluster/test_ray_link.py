"""The way to Ray without one: what is refused, in which words; and snapshots of runs, which need no Ray."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import sys
from pathlib import Path

import pytest

from conftest import tiny_flags
from flashdqn import Run
from flashdqn.cli import main as cli
from flashdqn.cluster.mailbox import Mailbox, show_word
from flashdqn.cluster.ray_link import check_reachable
from flashdqn.cluster.ray_train import parse_workers
from flashdqn.cluster.snapshot import NAME_FILE, find_newest, restore_snapshot, take_snapshot
from flashdqn.core.errors import CheckpointError, ConfigError
from flashdqn.training.progress import Silent

HAS_RAY = importlib.util.find_spec("ray") is not None


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (tmp_path / "space.toml").write_text("[learn]\nlr = [1e-3, 1e-4]\n")


@pytest.mark.parametrize("words", ["train snake", "sweep snake --space space.toml"])
def test_a_missing_extra(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert cli.answer_command([*words.split(), "--launcher", "ray", *tiny_flags()]) == 2
    wrong = capsys.readouterr().err
    assert "pip install 'flashdqn[ray]'" in wrong
    assert wrong.count("\n") == 1
    assert not Path("runs").exists()


def find_closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def test_an_address_that_nobody_answers_at() -> None:
    with pytest.raises(ConfigError, match=r"There is no Ray at 127\.0\.0\.1:\d+: Connection refused"):
        check_reachable(f"127.0.0.1:{find_closed_port()}")
    with pytest.raises(ConfigError, match="There is no Ray at"):
        check_reachable(f"ray://localhost:{find_closed_port()}")
    with pytest.raises(ConfigError, match=r"no Ray at nowhere\.invalid:6379"):
        check_reachable("nowhere.invalid:6379")
    for address in ("", "auto", "local"):
        check_reachable(address)


@pytest.mark.parametrize("address", ["here", "here:port", "here:99999", "http://here:80/x", "a b"])
def test_what_is_not_an_address(address: str) -> None:
    with pytest.raises(ConfigError, match="written HOST:PORT"):
        check_reachable(address)


@pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed: make ray")
@pytest.mark.parametrize("words", ["train snake", "sweep snake --space space.toml"])
def test_a_ray_that_cannot_be_reached(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{find_closed_port()}"
    flags = ["--launcher", "ray", "--ray-address", address, *tiny_flags()]
    assert cli.answer_command([*words.split(), *flags]) == 2
    wrong = capsys.readouterr().err
    assert f"There is no Ray at {address}" in wrong
    assert wrong.count("\n") == 1
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train snake --workers 2", "--workers needs --launcher ray"),
        ("train snake --ray-address a:1", "--ray-address needs --launcher ray"),
        ("train snake --launcher slurm", "takes one of 'local', 'ray'"),
    ],
)
def test_flags_that_do_not_fit(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.answer_command(words.split()) == 2
    assert said in capsys.readouterr().err


@pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed: make ray")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--workers none", "--workers is a number"),
        ("--workers 32", "32 ranks"),
        ("--workers 2:4", "any number of --workers 2:4. 16 boards do not divide among 3 ranks"),
        ("--ranks 2", "give --workers"),
    ],
)
def test_workers_that_do_not_fit(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.answer_command(["train", "snake", "--launcher", "ray", *words.split(), *tiny_flags()]) == 2
    assert said in capsys.readouterr().err


def test_numbers_of_workers() -> None:
    assert parse_workers("8") == (8, 8)
    assert parse_workers("2:8") == (2, 8)
    for text in ("0", "8:2", "-1", "two", "1:", "2:3:4", ""):
        with pytest.raises(ConfigError, match="--workers"):
            parse_workers(text)


# ------------------------------------------------------------------------------------------------ snapshots


def test_a_run_goes_on_from_its_snapshot_elsewhere(finished_run: Run, tmp_path: Path) -> None:
    import flashdqn

    run = finished_run.path
    point = next(
        path
        for path in (run / "checkpoints").iterdir()
        if path.name.isdigit() and int(path.name) == find_newest(run)
    )
    take_snapshot(run, point, tmp_path / "snapshot")
    there = restore_snapshot(tmp_path / "snapshot", tmp_path / "runs")
    assert there == tmp_path / "runs" / run.name
    assert not (there / NAME_FILE).exists()
    assert find_newest(there) == find_newest(run)
    more = flashdqn.train(resume=there, steps=6000, progress=False)
    twin = shutil.copytree(run, tmp_path / "twin")
    assert (
        more.summary["weights"] == flashdqn.train(resume=twin, steps=6000, progress=False).summary["weights"]
    )


def test_a_run_that_is_still_there_is_kept(run_copy: Path, tmp_path: Path) -> None:
    point = max(
        (path for path in (run_copy / "checkpoints").iterdir() if path.name.isdigit()),
        key=lambda p: int(p.name),
    )
    take_snapshot(run_copy, point, tmp_path / "snapshot")
    (run_copy / "mark").touch()
    assert (restore_snapshot(tmp_path / "snapshot", run_copy.parent) / "mark").exists()
    shutil.rmtree(point)  # it is behind its snapshot
    assert not (restore_snapshot(tmp_path / "snapshot", run_copy.parent) / "mark").exists()
    assert find_newest(run_copy) == int(point.name)


@pytest.mark.parametrize("name", ["", "../elsewhere", "a/b", "/tmp"])
def test_a_snapshot_cannot_lead_elsewhere(name: str, tmp_path: Path) -> None:
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / NAME_FILE).write_text(name)
    with pytest.raises(CheckpointError, match="not a snapshot"):
        restore_snapshot(tmp_path / "snapshot", tmp_path / "runs")


def test_words_reach_the_display() -> None:
    class Remembers(Silent):
        said = ""

        def note(self, text: str) -> None:
            self.said = text

    box, display = Mailbox(), Remembers()
    assert not box.put("note", ("hello",))
    box.ask_to_stop()
    assert box.put("an unknown word", (1, 2))
    for name, parts in box.take():
        show_word(display, name, parts)
    assert display.said == "hello"
    assert box.take() == []
