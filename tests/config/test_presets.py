"""Presets: what each of them resolves to is pinned, so that a change of a base or a default is seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flashdqn.config.presets import PRESETS, base_config, resolve_preset
from flashdqn.config.settings import apply_settings, to_dict
from flashdqn.core.errors import ConfigError
from flashdqn.envs.task import Preset
from flashdqn.envs.tasks import find_task, iterate_tasks

#: The defaults of a training, those of each task, and for each preset and some named environments what differs.
PINNED = json.loads((Path(__file__).parent / "presets.json").read_text(encoding="utf-8"))

#: What a preset may say although it is the default: it is what the preset is about.
IDENTITY = ("env.id", "env.features")


def flatten(data: dict[str, Any], where: str = "") -> dict[str, Any]:
    """Settings by their dotted names, as JSON has them."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict) and key != "kwargs":
            flat |= flatten(value, f"{where}{key}.")
        else:
            flat[where + key] = list(value) if isinstance(value, tuple) else value
    return flat


@pytest.mark.parametrize("name", PINNED["presets"])
def test_every_setting_of_a_preset_is_as_pinned(name: str) -> None:
    pinned = PINNED["presets"][name]
    expected = PINNED["default"] | PINNED["tasks"][pinned["differs"]["env.task"]] | pinned["differs"]
    found = flatten(to_dict(base_config(name)))
    assert {key: found.get(key) for key in expected} == expected  # newer settings may come besides
    assert name not in PRESETS or PRESETS[name].about == pinned["about"]


def test_every_preset_is_pinned() -> None:
    assert [name for name in PINNED["presets"] if ":" not in name] == list(PRESETS)


def all_presets() -> list[tuple[str, Preset]]:
    """Every preset and every base."""
    found = []
    for task in iterate_tasks():
        starts = [task.naming.start("some:Game")] if task.naming is not None else []
        for preset in [*task.presets.values(), *starts]:
            one: Preset | None = preset
            while one is not None:
                if (task.name, one) not in found:
                    found.append((task.name, one))
                one = one.base
    return found


@pytest.mark.parametrize(("task", "preset"), all_presets(), ids=lambda value: getattr(value, "about", value))
def test_a_preset_says_only_what_differs_from_its_base(task: str, preset: Preset) -> None:
    base = resolve_preset(find_task(task), preset.base or Preset("the defaults", {}))
    same = flatten(to_dict(base)).items()
    said = [item for item in flatten(dict(preset.settings)).items() if item[0] not in IDENTITY]
    assert [key for key, value in said if (key, value) in same] == []


def test_a_base_comes_first_and_defaults_stay() -> None:
    first = Preset("first", {"envs": 8, "replay": {"capacity": 1000, "n_step": 3}})
    second = Preset("second", {"replay": {"capacity": 500}, "max_time": 60.0}, base=first)
    config = resolve_preset(find_task("snake"), second)
    assert (config.envs, config.replay.capacity, config.replay.n_step) == (8, 500, 3)
    assert config.learn == apply_settings(config, {}).learn
    assert resolve_preset(find_task("snake"), first).replay.capacity == 1000


def test_a_wrong_setting_in_a_preset_is_named() -> None:
    with pytest.raises(ConfigError, match=r"replay\.n_stp"):
        resolve_preset(find_task("snake"), Preset("wrong", {"replay": {"n_stp": 3}}))


def test_unknown_names_are_refused_with_advice() -> None:
    with pytest.raises(ConfigError, match="a Gymnasium environment is written 'gym:CartPole-v1'"):
        base_config("CartPole-v1")
    with pytest.raises(ConfigError, match="did you mean 'snake-flood'"):
        base_config("snake-flod")
