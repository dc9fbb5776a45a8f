"""How Gymnasium environments are named on the command line and kept in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import flashdqn
from flashdqn import Config
from flashdqn.cli.main import dispatch_command
from flashdqn.cli.train import parse_training, resolve_base_config
from flashdqn.config.presets import PRESETS, base_config
from flashdqn.config.settings import apply_settings, to_dict
from flashdqn.core.errors import ConfigError
from flashdqn.core.user_code import Permission
from flashdqn.envs import GymConfig, SnakeConfig
from flashdqn.runs.folder import RunFolder


def resolve(*words: str) -> Config:
    base, _, rest = resolve_base_config(list(words))
    return parse_training(base, rest)


def test_the_command_line_names_any_environment() -> None:
    config = resolve(
        "gym:Acrobot-v1", "--env.max-steps", "7", "--env.kwargs", '{"a": [1, 2.5]}', "--envs", "4"
    )
    assert config.env == GymConfig(id="Acrobot-v1", max_steps=7, kwargs={"a": [1, 2.5]})
    assert (config.preset, config.envs) == ("gym:Acrobot-v1", 4)
    assert resolve("my_package.envs:make_env").env == GymConfig(id="my_package.envs:make_env")
    assert resolve("gym:my_package.envs:make_env").env == GymConfig(id="my_package.envs:make_env")


def test_a_preset_serves_its_environment_by_name() -> None:
    named, preset = base_config("gym:CartPole-v1"), base_config("cartpole")
    assert named == apply_settings(preset, {"preset": "gym:CartPole-v1"})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gym:Acrobot-v1", "--env.size", "8"), r"Unknown flag '--env.size'"),
        (("snake", "--env.vectorization", "sync"), r"Unknown flag '--env.vectorization'"),
        (("gym:Acrobot-v1", "--env.vectorisation", "sync"), "did you mean '--env.vectorization'"),
        (("gym:Acrobot-v1", "--env.kwargs", "gravity=3"), "env.kwargs"),
        (("gym:Acrobot-v1", "--env.max-steps", "-1"), "env.max_steps"),
    ],
)
def test_wrong_settings_are_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(*words)


def test_gymnasiums_own_names_are_taken() -> None:
    assert resolve("Acrobot-v1", "--steps", "1000") == resolve("gym:Acrobot-v1", "--steps", "1000")
    assert resolve("MountainCar-v0").env == base_config("mountaincar").env, "its tuned settings"


def test_help_shows_the_tasks_own_flags(capsys: pytest.CaptureFixture[str]) -> None:
    for task, own, other in (
        ("gym:Acrobot-v1", "--env.kwargs JSON", "--env.size N"),
        ("Acrobot-v1", "--env.kwargs JSON", "--env.size N"),
        ("snake", "--env.size N", "--env.kwargs JSON"),
    ):
        assert dispatch_command(["train", task, "--help", "env"]) == 0
        shown = capsys.readouterr().out
        assert own in shown
        assert other not in shown


@pytest.mark.parametrize("name", [*PRESETS, "gym:ALE/Pong-v5", "my_module:make_env"])
def test_every_configuration_survives_a_file(name: str, tmp_path: Path) -> None:
    config = base_config(name)
    data = json.loads(json.dumps(to_dict(config)))
    assert apply_settings(Config(), data) == config
    assert apply_settings(base_config("cartpole"), data) == config
    (tmp_path / "c.json").write_text(json.dumps({"config": data}))
    words = ["--config", str(tmp_path / "c.json")]
    assert parse_training(*resolve_base_config(words, Permission(everything=True))[::2]) == config


def test_the_task_can_be_said_in_settings() -> None:
    changed = apply_settings(Config(), {"env": {"task": "gym", "id": "Acrobot-v1"}})
    assert changed.env == GymConfig(id="Acrobot-v1")
    assert apply_settings(changed, {"env": {"task": "snake", "size": 8}}).env == SnakeConfig(size=8)
    with pytest.raises(ConfigError, match=r"Unknown task 'gmy' in 'env\.task'; did you mean 'gym'"):
        apply_settings(Config(), {"env": {"task": "gmy"}})


def test_a_run_folder_has_a_plain_name(tmp_path: Path) -> None:
    config = apply_settings(base_config("gym:ALE/Pong-v5"), {"out": str(tmp_path)})
    assert RunFolder.create(config, {}).path.parent == tmp_path


def test_a_time_limit_can_be_given() -> None:
    for name, how in (
        ("gym:CartPole-v1", "auto"),
        ("gym:CartPole-v1", "sync"),
        ("gym_envs:make_walk", "sync"),
    ):
        env = flashdqn.make_env(name, 2, max_steps=2, vectorization=how)
        env.reset(0)
        first, second = (env.step(torch.tensor([0, 1])).truncated.any() for _ in range(2))
        assert (bool(first), bool(second)) == (False, True)
