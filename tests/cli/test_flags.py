"""Short names, short ways to write a value, and help on one page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import tiny_config
from flashdqn import Run
from flashdqn.cli import eval as eval_command
from flashdqn.cli.latest import find_latest_run
from flashdqn.cli.main import answer_command
from flashdqn.cli.train import parse_training, resolve_base_config
from flashdqn.config import Config
from flashdqn.config.settings import apply_settings
from flashdqn.config.values import parse_count
from flashdqn.core.errors import ConfigError


def resolve(*words: str) -> Config:
    """The configuration that a command line comes to, without training."""
    base, _, rest = resolve_base_config(list(words))
    return parse_training(base, rest)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("50000", 50_000),
        ("1e5", 100_000),
        ("100k", 100_000),
        ("100K", 100_000),
        ("1M", 10**6),
        ("1.5m", 1_500_000),
        ("2.5e6", 2_500_000),
        ("1_000", 1000),
        ("1,000,000", 10**6),
        ("-3", -3),
        ("1e15", 10**15),
    ],
)
def test_whole_numbers(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize(
    "text",
    ["ten", "", "k", "1.5", "1e-3", "1kk", "0x10", "nan", "inf", "1,5", "1e9999", "1 000", "..", "1__0.5"],
)
def test_no_whole_numbers(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_count(text)


def test_values_can_be_written_shortly() -> None:
    words = ["--steps", "100k", "--envs=1e2", "--hidden", "256,256", "--lr", "1e-3", "--gamma=0.9"]
    config = resolve("snake", *words, "--batch-size", "64", "--replay.capacity", "1M", "--seed", "-7")
    assert (config.steps, config.envs, config.network.hidden) == (100_000, 100, (256, 256))
    assert (config.learn.lr, config.learn.gamma, config.learn.batch_size) == (1e-3, 0.9, 64)
    assert (config.replay.capacity, config.seed) == (10**6, -7)
    assert resolve("snake", "--network.hidden", "64", "32", "--envs", "8").network.hidden == (64, 32)
    assert resolve("snake", "--hidden=64,").network.hidden == (64,)
    assert resolve("snake", "--learn.lr-end", "none").learn.lr_end is None
    assert resolve("snake", "--train_ratio", "fast", "--max-time", "1.5m").max_time == 90.0
    assert resolve("snake", "--network", "mlp", "--log.no-game").network.torso == "mlp"


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["--log.tensorboard", "false"], False),
        (["--log.tensorboard=False"], False),
        (["--log.no-tensorboard=false"], True),
        (["--log.tensorboard", "true", "--seed", "3"], True),
        (["--no-log.tensorboard"], False),
    ],
)
def test_switches_are_understood_as_other_programs_write_them(words: list[str], value: bool) -> None:
    assert resolve("snake", *words).log.tensorboard is value


def test_a_new_budget_replaces_the_old_one_also_in_short() -> None:
    assert resolve("snake", "--max-time", "9").steps is None
    assert resolve("snake", "--steps=5e3").steps == 5000


def test_files_and_keywords_take_them_too() -> None:
    config = apply_settings(tiny_config(), {"steps": 1e5, "learn.starts": "2k"})
    assert (config.steps, config.learn.starts) == (100_000, 2000)
    assert isinstance(config.steps, int)
    for wrong in (1.5, "many", True, float("nan")):
        with pytest.raises(ConfigError, match="'steps' must be a whole number"):
            apply_settings(tiny_config(), {"steps": wrong})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-lr", "3"], "Unknown flag '-lr'; did you mean '--lr'?"),
        (["--learning-rate", "3"], "Unknown flag '--learning-rate'; did you mean '--lr'?"),
        (["--batchsize", "3"], "did you mean '--batch-size'?"),
        (["--capacity", "3"], "did you mean '--replay.capacity'?"),
        (["--n-step", "3"], "did you mean '--replay.n-step'?"),
        (["--envs", "ten"], "--envs takes a whole number such as 64, 100k or 1e6, and 'ten' is not."),
        (["--lr", "0,001"], "--lr takes a number such as 0.5 or 1e-3, and '0,001' is not."),
        (["--hidden", "256;256"], "--hidden takes whole numbers such as 256,256, and '256;256' is not."),
        (["--hidden", "256,,256"], "--hidden takes whole numbers such as 256,256, and '' is not."),
        (["--steps", "1.5"], "--steps takes a whole number"),
        (["--steps"], "--steps needs a value: a whole number such as 64, 100k or 1e6."),
        (["--steps", "--envs", "3"], "--steps needs a value"),
        (["--device", "gpu"], "--device takes one of 'auto', 'cpu', 'cuda', and 'gpu' is not one."),
        (["--log.game=no"], "a switch and takes no value: --log.game turns it on, --log.no-game off."),
    ],
)
def test_mistakes_are_answered_with_what_is_allowed(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as found:
        resolve("snake", *words)
    assert message in str(found.value)


# ---- help


def show(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert answer_command(words) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", ["train", "profile"])
def test_help_is_one_page(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = show(capsys, command, "--help").splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    everything = show(capsys, command, "--help-all").splitlines()
    assert max(map(len, everything)) <= 80
    assert len(everything) > 200


def test_help_about_a_group_or_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    text = show(capsys, "train", "cartpole", "--help")
    assert "(50,000)" in text, "the preset's own values are shown"
    text = show(capsys, "train", "cartpole", "--help", "learn")
    assert "--learn.lr, --lr X" in text
    assert "(0.0023)" in text
    assert "--env.id" not in text
    assert "--learn.lr-over" in show(capsys, "train", "--help", "lr")
    assert answer_command(["train", "--help", "qqq"]) == 2
    assert "There is no help about 'qqq'; known are: run, env, network" in capsys.readouterr().err


QUICK = [
    ["--help"],
    ["--version"],
    ["trian"],
    ["train", "--help"],
    ["train", "snak"],
    ["train", "snake", "--envz"],
]


@pytest.mark.parametrize("words", [*QUICK, ["eval", "nope"], ["watch"], ["profile", "--help"], ["presets"]])
def test_help_and_typos_do_not_wait_for_pytorch(words: list[str], tmp_path: Path) -> None:
    words = ["-X", "importtime", "-m", "flashdqn", *words]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    imported = set(re.findall(r"\| +(\w+)$", done.stderr, re.MULTILINE))
    assert "flashdqn" in imported
    assert not imported & {"torch", "numba", "gymnasium"}


# ---- the latest run


def make_run(path: Path, seconds: float) -> None:
    (path / "checkpoints" / "000100").mkdir(parents=True)
    (path / "config.json").write_text("{}")
    os.utime(path / "checkpoints" / "000100", (seconds, seconds))


def test_the_latest_run_is_the_one_that_saved_last(tmp_path: Path) -> None:
    assert find_latest_run(tmp_path / "nothing") is None
    make_run(tmp_path / "a", 300)
    make_run(tmp_path / "b", 400)
    make_run(tmp_path / "c", 200)
    (tmp_path / "d").mkdir()
    (tmp_path / "e").symlink_to(tmp_path / "b")
    assert find_latest_run(tmp_path) == tmp_path / "b"


def test_eval_without_a_run_takes_the_latest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, finished_run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("eval", "watch"):
        assert answer_command([command]) == 2
        assert "There is no run in 'runs' yet" in capsys.readouterr().err
    run = tmp_path / "runs" / "mine"
    run.parent.mkdir()
    shutil.copytree(finished_run.path, run)
    assert eval_command.run_command(["--episodes", "2", "--json"]) == 0
    found: Any = capsys.readouterr()
    assert found.err == "The latest run is runs/mine\n"
    assert found.out.startswith("{")
    assert answer_command(["eval", "runs/mime"]) == 2
    assert "runs/mime does not exist; did you mean 'runs/mine'?" in capsys.readouterr().err
    for words in (["eval", "nothing"], ["report", "nothing"], ["train", "--resume", "nothing"]):
        assert answer_command(words) == 2
        assert "nothing does not exist; the latest run is runs/mine." in capsys.readouterr().err
        assert answer_command([*words[:-1], "runs"]) == 2
        assert (
            "runs is a folder of runs: name one of them; the latest is runs/mine." in capsys.readouterr().err
        )
    assert answer_command(["train", "runs/mine"]) == 2
    assert "runs/mine is a run: `flashdqn train --resume runs/mine` continues it." in capsys.readouterr().err
    assert answer_command(["report"]) == 0
    assert capsys.readouterr().err == "The latest run is runs/mine\n"


def test_one_environments_settings_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer_command(["envs", "snake"]) == 0
    shown = capsys.readouterr().out
    assert "--env.size" in shown
    assert "--env.id" not in shown
