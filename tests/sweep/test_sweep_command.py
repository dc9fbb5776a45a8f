"""`flashdqn sweep` on the command line: what it refuses, and in which words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flashdqn.cli import main as cli

SPACE = "[learn]\nlr = { low = 1e-5, high = 1e-2, log = true }\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.toml").write_text(SPACE)
    (tmp_path / "bad.toml").write_text("[learn]\nlrr = [1, 2]\n")
    (tmp_path / "code.toml").write_text('[learn]\nbootstrap = ["double", "evil:Code"]\n')


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("sweep snake", "Say what to try: --space FILE"),
        ("sweep snake --space missing.toml", "Cannot read the configuration file missing.toml"),
        ("sweep snake --space bad.toml", "bad.toml: Unknown setting 'learn.lrr'; did you mean 'lr'?"),
        ("sweep snake --space code.toml", "code.toml asks to import 'evil:Code'"),
        ("sweep snak --space space.toml", "did you mean 'snake'?"),
        ("sweep snake --space space.toml --trails 3", "did you mean '--trials'?"),
        ("sweep snake --space space.toml --trials 0", "--trials must be at least 1"),
        ("sweep snake --space space.toml --budget soon", "A time is written like 90s"),
        ("sweep snake --space space.toml --budget 10s --trials 500", "leaves 0.0 s of training for each"),
        ("sweep snake --space space.toml --sampler best", "takes one of 'tpe'"),
        ("sweep snake --space space.toml --objective both --pruner median", "cannot prune"),
        ("sweep snake --space space.toml --log.mlflow --log.mlflow-uri http://x", "single training"),
        ("sweep snake --space space.toml --ray-address here:1", "needs --launcher ray"),
        ("sweep snake-flood 3 --space space.toml", "one word too many"),
        ("sweep --resume nowhere", "nowhere does not exist"),
        ("sweep --resume .", "is not the folder of a sweep"),
        ("sweep --resume . --space space.toml", "only --trials, --budget and --jobs can change, not --space"),
        ("sweep snake --resume .", "not snake"),
        ("sweep show nowhere", "nowhere does not exist"),
        ("sweep show .", "is not the folder of a sweep"),
        ("tune", "did you mean 'flashdqn sweep'?"),
    ],
)
def test_a_mistake_is_one_sentence(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.answer_command(words.split()) == 2
    wrong = capsys.readouterr().err
    assert said in wrong
    assert wrong.count("\n") == 1
    assert not Path("runs").exists()


@pytest.mark.parametrize("words", ["sweep snake --space space.toml", "sweep show ."])
def test_without_optuna(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert cli.answer_command(words.split()) == 2
    wrong = capsys.readouterr().err
    assert "pip install 'flashdqn[sweep]'" in wrong or "not the folder of a sweep" in wrong
    assert not Path("runs").exists()


@pytest.mark.parametrize("words", [["--help"], ["--help", "sweep"], ["--help-all"], ["show", "--help"]])
def test_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.answer_command(["sweep", *words]) in (0, 2)
    assert capsys.readouterr().out or words == ["--help", "sweep"]
