"""Presets: a task with settings that are known to work. `envs/<task>/presets.py` has the presets of each task."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from flashdqn.config.settings import apply_settings
from flashdqn.config.training import Config
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import describe_value
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.envs.task import Preset, Task
from flashdqn.envs.tasks import iterate_tasks

__all__ = ["PRESETS", "Preset", "base_config"]


class PresetTable(Mapping[str, Preset]):
    """The presets of all tasks by name."""

    def __getitem__(self, name: str) -> Preset:
        return find_preset(name)[1]

    def __iter__(self) -> Iterator[str]:
        return (name for task in iterate_tasks() for name in task.presets)

    def __len__(self) -> int:
        return sum(len(task.presets) for task in iterate_tasks())


PRESETS = PresetTable()


def base_config(name: str) -> Config:
    """The configuration of a preset, or of an environment by its name: gym:CartPole-v1, my_module:make_env,
    my_game:Coins."""
    task, preset = find_preset(name) if name in PRESETS else find_named_start(name)
    return dataclasses.replace(resolve_preset(task, preset), preset=name)


def find_preset(name: str) -> tuple[Task[Any], Preset]:
    """A preset and the task that it belongs to."""
    for task in iterate_tasks():
        if name in task.presets:
            return task, task.presets[name]
    raise KeyError(name)


def find_named_start(name: str) -> tuple[Task[Any], Preset]:
    """The start for an environment without a preset: `task:environment`, or `module:Name` alone."""
    named = {task.name: (task, task.naming) for task in iterate_tasks() if task.naming is not None}
    prefix, colon, rest = name.partition(":")
    if colon and prefix in named:
        task, naming = named[prefix]
        return task, naming.start(rest)
    for task, naming in named.values():
        if colon and naming.claims(name):
            return task, naming.start(name)
        if naming.resembles(name):
            shown = describe_value(f"{task.name}:{name}")
            raise ConfigError(f"Unknown preset {describe_value(name)}; {naming.noun} is written {shown}.")
    raise ConfigError(f"Unknown preset {describe_value(name)}{suggest_nearest(name, PRESETS)}")


def resolve_preset(task: Task[Any], preset: Preset) -> Config:
    """The defaults, then the settings of the base, then the preset's own."""
    base = Config(env=task.config()) if preset.base is None else resolve_preset(task, preset.base)
    return apply_settings(base, preset.settings)
