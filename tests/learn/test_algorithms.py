"""`--algo` and `algo=`: every algorithm trains Snake, combines with every task, and stays below file and flags."""

from __future__ import annotations

from pathlib import Path

import pytest

import flashdqn
from conftest import TINY
from flashdqn import ConfigError
from flashdqn.cli.main import dispatch_command
from flashdqn.cli.train import parse_training, resolve_base_config
from flashdqn.config.presets import PRESETS, base_config
from flashdqn.config.settings import apply_settings
from flashdqn.learn.algorithms import ALGORITHMS, apply_algorithm

every_algorithm = pytest.mark.parametrize("algo", ALGORITHMS)


@every_algorithm
def test_every_algorithm_trains_snake_and_evaluates_without_chance(tmp_path: Path, algo: str) -> None:
    tiny = {**TINY, "steps": 3000, "network.hidden": [16, 16], "eval.every": 0, "out": str(tmp_path)}
    done = flashdqn.train("snake-flood", algo=algo, progress=False, **tiny)
    assert done.finished
    assert done.summary["updates"] > 150
    agent = flashdqn.load(done.path, "cpu")
    assert agent.evaluate(done.config.eval.episodes).to_dict() == done.summary["evaluation"]
    assert agent.config == done.config
    for key, value in ALGORITHMS[algo].settings.items():
        group, name = key.split(".")
        assert getattr(getattr(done.config, group), name) == value, key


@every_algorithm
@pytest.mark.parametrize("task", PRESETS)
def test_every_algorithm_combines_with_every_task(task: str, algo: str) -> None:
    config = apply_algorithm(base_config(task), algo)
    assert config.env == base_config(task).env
    assert apply_algorithm(config, algo) == config


def test_rainbow_is_its_flags() -> None:
    flags = {
        "learn.head": "categorical",
        "learn.bootstrap": "double",
        "replay.priority": 0.5,
        "replay.n_step": 3,
        "network.dueling": True,
        "network.noisy": True,
        "explore.start": 0.0,
        "explore.end": 0.0,
    }
    assert apply_algorithm(base_config("snake-flood"), "rainbow") == apply_settings(
        base_config("snake-flood"), flags
    )


def test_settings_come_on_top_of_the_algorithm(tmp_path: Path) -> None:
    tiny = {**TINY, "steps": 300, "out": str(tmp_path), "eval.every": 0}
    done = flashdqn.train("snake", algo="c51", progress=False, **tiny, **{"learn.atoms": 11})
    assert (done.config.learn.head, done.config.learn.atoms) == ("categorical", 11)
    with pytest.raises(ConfigError, match="keeps its algorithm"):
        flashdqn.train(resume=done.path, algo="dqn", progress=False)


def test_an_unknown_algorithm_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"'rainbw'; did you mean 'rainbow'\?"):
        flashdqn.train("snake", algo="rainbw")


def test_the_command_line_takes_algorithms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('preset = "snake"\nalgo = "iqn"\n[learn]\niqn_learn = 3\n')
    for words, head, n in (
        (["snake-grid", "--algo", "munchausen"], "scalar", 8),
        (["--config", str(file)], "iqn", 3),
        (["--config", str(file), "--learn.iqn-learn", "5"], "iqn", 5),
        (["--config", str(file), "--algo=qr-dqn"], "quantile", 3),
    ):
        base, _, rest = resolve_base_config(words)
        config = parse_training(base, rest)
        assert (config.learn.head, config.learn.iqn_learn) == (head, n)
    with pytest.raises(ConfigError, match="leave out the preset, --algo"):
        resolve_base_config(["--resume", "runs/x", "--algo", "dqn"])
    dispatch_command(["presets"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in ALGORITHMS)
