"""Configuration files with the names of other trainers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flashdqn import Config
from flashdqn.cli.other_tools import FUEL_BREAKS, GENERAL, SERVICE_CHAINS, SNAKE, translate_settings
from flashdqn.cli.train import resolve_base_config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.errors import ConfigError
from flashdqn.envs import SfcConfig, SnakeConfig

#: What a Snake trainer's users write.
SNAKE_FILE: dict[str, Any] = {
    "train_mode": True,
    "episodes": 50_000,
    "max_steps": 500,
    "learning_rate": 0.001,
    "gamma": 0.99,
    "use_target_network": True,
}
#: What a service-chain trainer's users write.
CHAINS_FILE: dict[str, Any] = {"gamma": 0.99, "batch_size": 16, "target_update": 50, "train_freq": 5}


def read(tmp_path: Path, settings: dict[str, Any], *words: str) -> Config:
    file = tmp_path / "theirs.json"
    file.write_text(json.dumps(settings))
    return resolve_base_config([*words, "--config", str(file)])[0]


def test_a_snake_trainers_file_says_what_it_became(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = {"startingBlocks": 4, "dim": 12, "distToBorder": 3}
    config = read(tmp_path, SNAKE_FILE | board)
    assert isinstance(config.env, SnakeConfig)
    assert (config.preset, config.episodes, config.steps) == ("snake-flood", 50_000, None)
    assert (config.env.start_length, config.env.size, config.env.max_steps) == (4, 12, 500)
    assert (config.env.start, config.env.border_distance) == ("random", 3)
    assert (config.learn.lr, config.learn.gamma, config.learn.target_every) == (0.001, 0.99, 1000)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "The file is for the preset snake-flood"
    assert "startingBlocks 4 → env.start_length 4 (cells, head included)" in said
    assert "dim 12 → env.size 12" in said
    assert "distToBorder 3 → env.border_distance 3 (with env.start random)" in said
    assert any(line.startswith("train_mode True → nothing: ") for line in said)
    assert any(line.startswith("use_target_network True → nothing: ") for line in said)
    assert any(line.startswith("max_steps 500 → env.max_steps 500") for line in said)


def test_without_a_target_network(tmp_path: Path) -> None:
    config = read(tmp_path, SNAKE_FILE | {"use_target_network": False})
    assert (config.preset, config.learn.target_every) == ("snake-flood", 1)


def test_a_service_chain_trainers_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = read(tmp_path, CHAINS_FILE, "sfc")
    assert (config.preset, config.train_ratio, config.learn.batch_size) == ("sfc", 0.2, 16)
    assert config.learn.target_every == 50
    said = capsys.readouterr().out
    assert "train_freq 5 → train_ratio 0.2 (gradient steps per transition" in said
    assert "target_update 50 → learn.target_every 50 (gradient steps between copies)" in said
    config = read(tmp_path, CHAINS_FILE | {"actions_per_step": 50})
    assert config.preset == "sfc"
    assert isinstance(config.env, SfcConfig)
    assert config.env.actions_per_step == 50


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 16},
        {"train_freq": 5, "target_update": 50, "gamma": 0.9},
        {"max_steps": 500},
        {"dim": 10},
        {"use_target_network": True},
    ],
)
def test_keys_that_everybody_has_claim_no_file(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"Unknown setting .* flashdqn train PRESET --config FILE"):
        read(tmp_path, settings)


def test_a_named_preset_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = read(tmp_path, {"dim": 8, "startingBlocks": 3}, "snake")
    assert config.preset == "snake"
    assert "The file is for" not in capsys.readouterr().out
    assert read(tmp_path, {"preset": "cartpole", "batch_size": 32}).learn.batch_size == 32


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train_mode": False}, "a trained agent plays with `flashdqn eval`"),
        ({"use_target_network": "yes"}, "'use_target_network' must be true or false, and is 'yes'"),
        ({"startingBlocks": 2.5}, "'startingBlocks' must be a whole number"),
        ({"target_update": 5, "use_target_network": False}, "says again what another key has said"),
        ({"dim": 8, "startingBlocks": 3, "env.size": 9}, "'env.size' says again what another key has said"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        translate_settings(settings)


@pytest.mark.parametrize(
    ("table", "preset"),
    [(SNAKE, "snake"), (SERVICE_CHAINS, "sfc"), (GENERAL, "snake"), (FUEL_BREAKS, "fuelbreaks-small")],
)
def test_every_name_means_a_setting_that_there_is(table: dict[str, Any], preset: str) -> None:
    values: dict[str, Any] = {"output_dir": "results", "raster_dir": "rasters", "train_mode": True}
    values |= {"use_target_network": False, "steps_per_episode": 12, "grid_size": 20, "gamma": 0.9}
    values |= {"distToBorder": 2, "epsilon_start": 0.9, "epsilon_end": 0.1, "epsilon_min": 0.1}
    values |= {"buffer_size": 10_000, "learning_rate": 1e-3, "dim": 8}
    for name in table:
        settings, notes = translate_settings({name: values.get(name, 3)})
        assert len(notes) == 1
        apply_settings(base_config(preset), settings)
