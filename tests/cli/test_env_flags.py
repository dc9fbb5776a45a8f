"""`--env.…` for a trained agent: other boards than in training."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import forge_settings, tiny_config
from flashdqn import Run, load
from flashdqn.cli import main as cli
from flashdqn.cli.env_flags import split_env_flags
from flashdqn.runs.folder import RunFolder
from flashdqn.training.progress import Silent
from flashdqn.training.session import start_run

Called = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Called:
    """Run `flashdqn …` in this process: exit code, standard output, standard error."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["flashdqn", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return run


@pytest.mark.parametrize(
    ("words", "ours", "rest"),
    [
        ("RUN --env.size 15", "--env.size 15", "RUN"),
        ("--env.size 15 RUN", "--env.size 15", "RUN"),
        ("--env.size=15 RUN --json", "--env.size=15", "RUN --json"),
        ("--episodes 3 --env.size 15 RUN", "--env.size 15", "--episodes 3 RUN"),
        ("RUN --env.weathers a b --json", "--env.weathers a b", "RUN --json"),
        ("RUN --env.no-masks --json --env.size 8", "--env.no-masks --env.size 8", "RUN --json"),
        ("RUN --episodes 3", "", "RUN --episodes 3"),
        ("", "", ""),
    ],
)
def test_the_flags_are_told_apart(words: str, ours: str, rest: str) -> None:
    assert split_env_flags(words.split()) == (ours.split(), rest.split())


def test_an_agent_plays_on_another_board(call: Called, finished_run: Run) -> None:
    code, out, err = call("eval", finished_run.path, "--env.size", 9, "--episodes", 20, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["episodes"] == 20
    assert json.loads(out) != json.loads(call("eval", finished_run.path, "--episodes", 20, "--json")[1])
    shorter = ("--env.max-steps", 5, "--episodes", 20, "--json")
    assert json.loads(call("eval", finished_run.path, *shorter)[1])["mean_length"] <= 5
    same = json.loads(call("eval", finished_run.path, "--env.size", 6, "--episodes", 20, "--json")[1])
    assert same == load(finished_run.path).evaluate(20).to_json()


def test_people_read_what_was_changed(call: Called, finished_run: Run) -> None:
    code, out, _ = call("eval", finished_run.path, "--env.size", 9, "--episodes", 5)
    assert code == 0
    assert "with env.size 9 instead of 6" in out


def test_it_can_be_watched_there(call: Called, finished_run: Run, tmp_path: Path) -> None:
    code, out, err = call("watch", finished_run.path, "--env.size", 9, "--seed", 3)
    assert (code, err) == (0, "")
    board = [line for line in out.splitlines() if "." in line]
    assert any(len(line.split()) >= 9 for line in board)
    assert call("watch", finished_run.path, "--env.size", 9, "--png", tmp_path / "game.png")[0] == 0
    assert (tmp_path / "game.png").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--env.features", "flood"],
            "its network has 11 inputs and 3 actions, and these games have 14 inputs",
        ),
        (["--env.actions", "absolute"], "12 inputs and 4 actions"),
        (["--env.sise", "9"], "Unknown flag '--env.sise'; did you mean '--env.size'?"),
        (["--env.size", "99"], "size must lie in 4 … 32, and is 99"),
        (
            ["--env.size", "many"],
            "--env.size takes a whole number such as 64, 100k or 1e6, and 'many' is not",
        ),
        (["--env.border-distance", "2"], "add --env.start random"),
    ],
)
@pytest.mark.parametrize("command", ["eval", "watch"])
def test_what_the_network_cannot_take_is_refused(
    command: str, words: list[str], message: str, call: Called, finished_run: Run
) -> None:
    code, out, err = call(command, finished_run.path, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_planes_have_the_size_of_their_board(call: Called, tmp_path: Path) -> None:
    small: dict[str, Any] = {"steps": 64, "learn__starts": 32, "eval__every": 0, "log__game": False}
    config = tiny_config(out=str(tmp_path), env__features="grid", network__channels=[2], **small)
    run = start_run(config, Silent())
    code, _, err = call("eval", run.path, "--env.size", 8)
    assert code == 2
    assert "3x6x6 inputs and 3 actions, and these games have 3x8x8 inputs" in err
    assert "docs/troubleshooting.md#other-boards" in err
    assert call("eval", run.path, "--env.max-steps", 5, "--episodes", 3)[0] == 0


def test_a_distance_that_an_older_run_ignored(run_copy: Path) -> None:
    forge_settings(run_copy, lambda record: record["config"]["env"].update(border_distance=2))
    assert RunFolder.open(run_copy).config() == RunFolder.open(run_copy).config()
    assert load(run_copy).evaluate(3).episodes == 3
