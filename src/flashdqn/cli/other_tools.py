"""Configuration files with the names that users of fuel-break trainers know: what each of them means here.

Such a file has one level of keys (`grid_size`, `num_parallel_envs`, `memory_simulations`, …). Each key becomes one
of our settings, with a note about what it became; unknown keys are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from flashdqn.config import Config
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import describe_value
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.core.text import clean_line

#: The preset that such a file starts from.
PRESET = "fuelbreaks"


@dataclass(frozen=True)
class Meaning:
    """The setting that a key becomes, and how its value is converted."""

    setting: str
    turn: Callable[[Any], Any] = lambda value: value


def require_whole_number(value: Any) -> int:
    """The value as a whole number; JSON's 1e5 counts as one."""
    if require_number(value, "a whole number") % 1 != 0:
        raise ValueError("a whole number")
    return int(value)


def require_number(value: Any, what: str = "a number") -> float:
    """The value as a number that float can hold; `what` says in a message what was expected."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        raise ValueError(what)
    return float(value)


def frequency_to_ratio(value: Any) -> float:
    """The ratio for one gradient step every `value` transitions."""
    if require_number(value) <= 0:
        raise ValueError("a number above 0")
    return 1.0 / require_number(value)


def require_text(value: Any) -> str:
    """The value as a text."""
    if not isinstance(value, str):
        raise ValueError("a text")
    return value


MEANINGS: dict[str, Meaning] = {
    "grid_size": Meaning("env.size", require_whole_number),
    "num_landscapes": Meaning("env.landscapes", require_whole_number),
    "num_episodes": Meaning("episodes", require_whole_number),
    "num_parallel_envs": Meaning("envs", require_whole_number),
    "steps_per_episode": Meaning("env.budget", lambda value: float(require_whole_number(value))),
    "train_frequency": Meaning("train_ratio", frequency_to_ratio),
    "memory_simulations": Meaning("env.fires", require_whole_number),
    "fire_simulation_max_duration": Meaning("env.duration", require_number),
    "pretrain_steps": Meaning("demos.pretrain_steps", require_whole_number),
    "learning_rate": Meaning("learn.lr", require_number),
    "gamma": Meaning("learn.gamma", require_number),
    "epsilon_start": Meaning("explore.start", require_number),
    "epsilon_end": Meaning("explore.end", require_number),
    "epsilon_min": Meaning("explore.end", require_number),
    "epsilon_decay_steps": Meaning("explore.over", require_whole_number),
    "buffer_size": Meaning("replay.capacity", require_whole_number),
    "batch_size": Meaning("learn.batch_size", require_whole_number),
    "target_update_frequency": Meaning("learn.target_every", require_whole_number),
    "checkpoint_frequency": Meaning("log.checkpoint_every", require_whole_number),
    "output_dir": Meaning("out", require_text),
    "raster_dir": Meaning("env.rasters", require_text),
}

#: Remarks for keys that need an explanation.
REMARKS = {
    "steps_per_episode": "an episode ends when its budget of breaks is spent",
    "train_frequency": "gradient steps per transition, whatever the number of environments",
    "fire_simulation_max_duration": "minutes",
    "memory_simulations": "fires that every break is judged by",
    "checkpoint_frequency": "in transitions: the episodes times the breaks of each",
    "raster_dir": "landscapes are windows of its rasters",
}


#: Keys that only fuel-break trainers use. Every trainer uses others, such as `gamma` or `batch_size`: they do not
#: say what a file is for.
UNMISTAKABLE = {
    "grid_size",
    "num_landscapes",
    "num_parallel_envs",
    "memory_simulations",
    "fire_simulation_max_duration",
    "raster_dir",
}


def uses_other_tool_keys(settings: Mapping[str, Any]) -> bool:
    """Whether a file uses these names: it has a key that only fuel-break trainers use."""
    return any(key in UNMISTAKABLE for key in settings)


def translate_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Our settings, and a line about each key; the file may also contain our own keys."""
    ours = {field.name for field in fields(Config)} | {"algo"}
    result: dict[str, Any] = {}
    notes: list[str] = []
    for key, value in settings.items():
        if key.partition(".")[0] in ours and key not in MEANINGS:
            result[key] = value
            continue
        if key not in MEANINGS:
            raise ConfigError(
                f"Unknown setting {describe_value(key)}{suggest_nearest(key, [*MEANINGS, *sorted(ours)])}"
            )
        meaning = MEANINGS[key]
        if meaning.setting in result:
            raise ConfigError(f"'{key}' says again what another key has said: {meaning.setting}. Keep one.")
        try:
            turned = meaning.turn(value)
        except ValueError as error:
            raise ConfigError(f"'{key}' must be {error}, and is {describe_value(value)}.") from None
        turned = episodes_to_transitions(turned, settings) if key == "checkpoint_frequency" else turned
        result[meaning.setting] = turned
        shown = f"{turned:g}" if isinstance(turned, float) else str(turned)
        remark = f" ({REMARKS[key]})" if key in REMARKS else ""
        notes.append(f"{key} {clean_line(str(value), 60)} → {meaning.setting} {shown}{remark}")
    return add_implied_settings(result), notes


def episodes_to_transitions(episodes: int, settings: Mapping[str, Any]) -> int:
    """A number of episodes in transitions."""
    breaks = settings.get("steps_per_episode", 1)
    return int(episodes) * int(breaks if isinstance(breaks, int | float) and abs(breaks) < 1e300 else 1)


def add_implied_settings(result: dict[str, Any]) -> dict[str, Any]:
    """Add what a setting implies: a fixed budget has no minimum, a falling ε has a schedule, and pre-training has
    an expert to learn from."""
    if "env.budget" in result:
        result.setdefault("env.least_budget", 0.0)
    if any(name.startswith("explore.") for name in result):
        result.setdefault("explore.schedule", "linear")
    steps = result.get("demos.pretrain_steps")
    if steps == 0:
        result |= {"demos.source": "none", "demos.episodes": 0}
    elif steps:
        result.setdefault("demos.source", "domirank")
        result.setdefault("demos.episodes", 64)
    return result
