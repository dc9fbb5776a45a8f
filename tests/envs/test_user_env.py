"""A batched game of the user's, trained by its name from the command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import flashdqn
from flashdqn import ConfigError, EnvError
from flashdqn.cli import main as cli
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings, to_dict
from flashdqn.envs import GymConfig, UserEnvConfig, build_env
from flashdqn.envs.user_env import takes_num_envs

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK = [
    *(
        "--steps",
        "8000",
        "--envs",
        "32",
        "--learn.starts",
        "500",
        "--network.hidden",
        "16",
        "--train-ratio",
        "0.03",
    ),
    *("--eval.every", "0", "--eval.episodes", "8", "--log.every", "4000", "--log.checkpoint-every", "0"),
    *("--log.no-tensorboard", "--runtime.no-warmup", "--device", "cpu", "--replay.capacity", "4000"),
]


@pytest.fixture(autouse=True)
def _findable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


def test_a_name_is_understood_by_what_it_makes() -> None:
    config = base_config("own_game:Coins")
    assert config.env == UserEnvConfig(id="own_game:Coins")
    assert base_config("own:own_game:Coins").env == config.env
    assert isinstance(base_config("gym:own_game:Coins").env, GymConfig)
    assert isinstance(base_config("no_such_module:make_env").env, GymConfig)  # refused when it is to be made
    assert not takes_num_envs("json:dumps")
    assert apply_settings(flashdqn.Config(), to_dict(config)) == config


def test_it_trains_and_plays_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.dispatch_command(["train", "own_game:Coins", *QUICK, "--out", str(tmp_path)]) == 0
    (run,) = tmp_path.iterdir()
    assert run.name.startswith("own_game-Coins-")
    capsys.readouterr()
    assert cli.dispatch_command(["eval", str(run), "--episodes", "16", "--trust"]) == 0
    assert "over 16 games" in capsys.readouterr().out
    assert cli.dispatch_command(["train", "--resume", str(run), "--steps", "9000", "--trust"]) == 0


class Half:
    """Takes `num_envs` and has nothing of a VecEnv."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs


def broken(num_envs: int, device: str, level: int = 0) -> Any:
    raise ValueError(f"no level {level} on {device}")


@pytest.mark.parametrize(
    ("name", "kwargs", "kind", "message"),
    [
        ("nowhere_at_all:Game", {}, ConfigError, "There is no module 'nowhere_at_all'"),
        ("own_game:Missing", {}, ConfigError, "has no 'Missing'"),
        ("json:dumps", {}, ConfigError, "takes num_envs; a Gymnasium environment is written gym:json:dumps"),
        (f"{__name__}:Half", {}, EnvError, "it has no name, num_actions, obs_spec"),
        (f"{__name__}:broken", {"level": 3}, EnvError, "cannot be made: ValueError: no level 3 on cpu"),
        ("own_game:Coins", {"sides": 3}, EnvError, "cannot be made: TypeError.*sides"),
    ],
)
def test_mistakes_are_one_sentence(name: str, kwargs: dict[str, Any], kind: Any, message: str) -> None:
    sys.modules.setdefault(__name__, sys.modules[Half.__module__])
    with pytest.raises(kind, match=message):
        build_env(UserEnvConfig(id=name, kwargs=kwargs), 4, torch.device("cpu"))


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="written module:Class, and is 'Coins'"):
        UserEnvConfig(id="Coins")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_it_plays_where_the_learner_is() -> None:
    env = build_env(UserEnvConfig(id="own_game:Coins"), 8, torch.device("cuda", 0))
    assert env.reset(0).device.type == "cuda"
    assert env.device.type == "cuda"
