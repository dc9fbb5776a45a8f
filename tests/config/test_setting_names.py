"""Other names of settings lead to ours, in Python as on the command line."""

from __future__ import annotations

import pytest

from flashdqn.cli.train import parse_training
from flashdqn.config import Config
from flashdqn.config.names import FOREIGN_NAMES, SHORT_NAMES, replace_short_names
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings, flatten_keys, to_dict
from flashdqn.core.errors import ConfigError


def test_python_takes_the_short_names_of_the_command_line() -> None:
    base = base_config("snake")
    given = {"lr": 1e-3, "gamma": 0.9, "batch_size": 32, "hidden": (64, 32), "steps": 1000}
    words = ["--lr", "1e-3", "--gamma", "0.9", "--batch-size", "32", "--hidden", "64,32"]
    config = apply_settings(base, replace_short_names(given))
    assert config.learn.lr == 1e-3
    flags = parse_training(base, words)
    assert (config.learn, config.network) == (flags.learn, flags.network)
    assert replace_short_names({"learn": {"lr": 1}, "env.size": 8}) == {"learn": {"lr": 1}, "env.size": 8}


@pytest.mark.parametrize(
    ("name", "ours"),
    [("learning_rate", "lr"), ("total_timesteps", "steps"), ("buffer_size", "replay.capacity")],
)
def test_other_trainers_names_are_answered_with_ours(name: str, ours: str) -> None:
    with pytest.raises(ConfigError, match=f"Unknown setting '{name}'; did you mean '{ours}'?"):
        replace_short_names({name: 1})


def test_the_names_lead_somewhere() -> None:
    known = {*flatten_keys(to_dict(Config())), *(name.replace("-", "_") for name in SHORT_NAMES), "algo"}
    assert {name.replace("-", "_") for name in SHORT_NAMES.values()} <= known
    assert {name.replace("-", "_") for name in FOREIGN_NAMES.values()} <= known
    assert not {name.replace("-", "_") for name in FOREIGN_NAMES} & known


def test_names_of_the_first_service_chain_trainer_are_accepted() -> None:
    given = {"train_freq": 5, "batch_size": 16, "target_update": 50}
    ours = {"train_ratio": 0.2, "learn.batch_size": 16, "learn.target_every": 50}
    assert replace_short_names(given) == ours
    with pytest.raises(ConfigError, match="train_freq takes a whole number"):
        replace_short_names({"train_freq": 0})
