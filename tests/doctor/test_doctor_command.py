"""`flashdqn doctor` as a user types it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from watching import write_script

from flashdqn.cli import main as cli
from flashdqn.cli.doctor import split_script_arguments
from flashdqn.core.errors import ConfigError

SCRIPT = """
    import sys
    import torch


    class Env:
        def reset(self):
            return 0

        def step(self, action):
            return 0, 0.0, True


    env = Env()
    for _ in range(int(sys.argv[1])):
        env.step(0)
    print("the script's own words")
    if len(sys.argv) > 2:
        raise ValueError(sys.argv[2])
"""


def doctor(*words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["flashdqn", "doctor", *words])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_script(tmp_path, SCRIPT, "train [x].py", hollow=True)


def test_a_report_in_three_forms(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    page, file = tmp_path / "page.html", tmp_path / "report.json"
    words = ["--seconds=30", "--html", str(page), "--json", str(file), str(script), "12"]
    assert doctor(*words, monkeypatch=monkeypatch) == 0
    out = capfd.readouterr().out
    assert re.search(r"Watching.*the script's own words.*transitions +12\b", out, re.DOTALL)
    report = json.loads(file.read_text(encoding="utf-8"))
    assert (report["transitions"], report["episodes"], report["ended"]) == (12, 12, "finished")
    assert (report["script"], report["arguments"]) == (str(script), ["12"])
    assert page.read_text(encoding="utf-8").lower().startswith("<!doctype html>")


def test_a_script_that_fails_shows_why_and_what_was_seen(
    script: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert doctor(str(script), "12", "a broken level", monkeypatch=monkeypatch) == 1
    out = capfd.readouterr().out
    assert "ValueError: a broken level" in out
    assert re.search(r"transitions +12\b", out)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Which script?"),
        (["--seconds", "5"], "Which script?"),
        (["-m"], "-m needs the name of a module"),
        (["missing.py"], "There is no script 'missing.py'."),
        (["--json", "no/such/folder/report.json", "missing.py"], "There is no folder 'no/such/folder'"),
        (["--html", ".", "missing.py"], "'.' cannot be written to: it is a folder."),
        (["--python", "no/python", "SCRIPT"], "There is no Python at 'no/python'."),
        (["--seconds", "soon", "SCRIPT"], "soon"),
        (["--second", "5", "SCRIPT"], "--second"),
    ],
)
def test_mistakes_get_a_sentence(
    words: list[str],
    sentence: str,
    script: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = [str(script) if word == "SCRIPT" else word for word in words]
    assert doctor(*words, monkeypatch=monkeypatch) == 2
    out, err = capfd.readouterr()
    assert sentence in err
    assert "Traceback" not in err
    assert out == ""  # it does not announce what will not happen


def test_no_training_is_a_mistake_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_script(tmp_path, "print('hello')")
    assert doctor(str(path), monkeypatch=monkeypatch) == 2
    captured = capfd.readouterr()
    assert "hello" in captured.out
    assert captured.err.count("\n") == 1
    assert "never imported torch" in captured.err


@pytest.mark.parametrize(
    ("words", "ours", "module", "script", "theirs"),
    [
        ("train.py", "", False, "train.py", ""),
        ("train.py --seconds 3 -m x", "", False, "train.py", "--seconds 3 -m x"),
        ("--deep train.py a", "--deep", False, "train.py", "a"),
        ("--seconds 2m --html p.html train.py", "--seconds 2m --html p.html", False, "train.py", ""),
        ("--seconds=5 train.py", "--seconds=5", False, "train.py", ""),
        ("-m pkg.train --lr 1", "", True, "pkg.train", "--lr 1"),
        ("--python /x/python -m pkg", "--python /x/python", True, "pkg", ""),
        ("--help", "--help", False, "", ""),
        ("", "", False, "", ""),
    ],
)
def test_whose_words_they_are(words: str, ours: str, module: bool, script: str, theirs: str) -> None:
    assert split_script_arguments(words.split()) == (ours.split(), module, script, theirs.split())


def test_a_module_without_a_name() -> None:
    with pytest.raises(ConfigError, match="-m needs the name of a module"):
        split_script_arguments(["--deep", "-m"])


def test_help_says_whose_flags_are_whose(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert doctor("--help", monkeypatch=monkeypatch) == 0
    out = capfd.readouterr().out
    for word in ("--seconds", "--deep", "--html", "--json", "--python", "-m cleanrl.dqn"):
        assert word in out
