"""Words that were renamed are still understood: in flags, in files, and in the runs of earlier versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flashdqn.cli.train import parse_training, resolve_base_config
from flashdqn.config import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.profile.experiments import list_experiments, select_experiments

WORDS = [
    ("snake", "runtime.mode", "written", "native"),
    ("fuelbreaks-small", "env.crop", "centre", "center"),
]


def value_of(config: Config, key: str) -> object:
    group, name = key.split(".")
    return getattr(getattr(config, group), name)


@pytest.mark.parametrize(("preset", "key", "old", "new"), WORDS)
def test_an_old_word_means_the_new_one(preset: str, key: str, old: str, new: str, tmp_path: Path) -> None:
    base, _, rest = resolve_base_config([preset, f"--{key}", old])
    assert value_of(parse_training(base, rest), key) == new
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"preset": preset, key: old}))
    assert value_of(resolve_base_config(["--config", str(file)])[0], key) == new
    assert apply_settings(base_config(preset), {key: old}) == apply_settings(base_config(preset), {key: new})


def test_an_experiment_by_its_old_name() -> None:
    known = list_experiments(base_config("snake-flood"), False, 2)
    assert [one.name for one in select_experiments(known, ["mode-written"], [])] == ["mode-native"]
