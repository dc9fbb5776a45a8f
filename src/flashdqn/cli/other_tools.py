"""Configuration files with the names that users of other trainers know: what each of them means here.

Such a file has one level of keys (`grid_size`, `startingBlocks`, `train_freq`, …). Each key becomes one of our
settings, with a note about what it became; unknown keys are refused by name. What to train comes from the command
line or the file, or from keys that only one kind of trainer uses; never from a key that all of them have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from flashdqn.config import Config
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import describe_value
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.core.text import clean_line


@dataclass(frozen=True)
class Meaning:
    """The setting that a key becomes, how its value is converted, and a remark if it needs an explanation.

    A value that is converted to None becomes no setting: the remark says why.
    """

    setting: str
    turn: Callable[[Any], Any]
    remark: str = ""


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


def require_switch(value: Any) -> bool:
    """The value as true or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def target_network_to_period(value: Any) -> int | None:
    """Without a target network: one that is copied at every gradient step."""
    return None if require_switch(value) else 1


def require_training(value: Any) -> None:
    """Refuse a file that is for playing."""
    if not require_switch(value):
        raise ValueError("true: a trained agent plays with `flashdqn eval` and `flashdqn watch`")


def width_to_layers(value: Any) -> list[int]:
    """Two hidden layers of one width."""
    return [require_whole_number(value)] * 2


#: Keys that trainers of all kinds use. They do not say what a file is for.
GENERAL = {
    "num_episodes": Meaning("episodes", require_whole_number),
    "num_envs": Meaning("envs", require_whole_number),
    "learning_rate": Meaning("learn.lr", require_number),
    "gamma": Meaning("learn.gamma", require_number),
    "epsilon_start": Meaning("explore.start", require_number),
    "epsilon_end": Meaning("explore.end", require_number),
    "epsilon_min": Meaning("explore.end", require_number),
    "epsilon_decay_steps": Meaning("explore.over", require_whole_number),
    "buffer_size": Meaning("replay.capacity", require_whole_number),
    "batch_size": Meaning("learn.batch_size", require_whole_number),
    "hidden_size": Meaning("network.hidden", width_to_layers, "two layers"),
    "train_freq": Meaning(
        "train_ratio",
        frequency_to_ratio,
        "gradient steps per transition, whatever the number of environments",
    ),
    "target_update": Meaning("learn.target_every", require_whole_number, "gradient steps between copies"),
    "output_dir": Meaning("out", require_text),
    "max_steps": Meaning("env.max_steps", require_whole_number, "an episode is cut off after so many steps"),
    "train_mode": Meaning("", require_training, "`flashdqn train` trains, `flashdqn eval RUN` plays"),
    "use_target_network": Meaning(
        "learn.target_every",
        target_network_to_period,
        "there always is a target network: see learn.target_every",
    ),
}

FUEL_BREAKS = {
    "grid_size": Meaning("env.size", require_whole_number),
    "num_landscapes": Meaning("env.landscapes", require_whole_number),
    "num_parallel_envs": Meaning("envs", require_whole_number),
    "steps_per_episode": Meaning(
        "env.budget",
        lambda value: float(require_whole_number(value)),
        "an episode ends when its budget of breaks is spent",
    ),
    "train_frequency": GENERAL["train_freq"],
    "memory_simulations": Meaning("env.fires", require_whole_number, "fires that every break is judged by"),
    "fire_simulation_max_duration": Meaning("env.duration", require_number, "minutes"),
    "pretrain_steps": Meaning("demos.pretrain_steps", require_whole_number),
    "target_update_frequency": Meaning("learn.target_every", require_whole_number),
    "checkpoint_frequency": Meaning(
        "log.checkpoint_every",
        require_whole_number,
        "in transitions: the episodes times the breaks of each",
    ),
    "raster_dir": Meaning("env.rasters", require_text, "landscapes are windows of its rasters"),
}

SNAKE = {
    "startingBlocks": Meaning("env.start_length", require_whole_number, "cells, head included"),
    "dim": Meaning("env.size", require_whole_number),
    "distToBorder": Meaning("env.border_distance", require_whole_number, "with env.start random"),
}

SERVICE_CHAINS = {
    "actions_per_step": Meaning("env.actions_per_step", require_whole_number),
}

MEANINGS: dict[str, Meaning] = GENERAL | FUEL_BREAKS | SNAKE | SERVICE_CHAINS


@dataclass(frozen=True)
class OtherTool:
    """A kind of trainer: the preset that its files start from, and the keys that they are known by."""

    preset: str
    #: keys that no other trainer uses: one of them is enough
    unmistakable: frozenset[str]
    #: keys that few others use: two of them are enough
    telling: frozenset[str] = frozenset()

    def claims(self, settings: Mapping[str, Any]) -> bool:
        """Whether a file with these settings is for this kind of trainer."""
        return bool(self.unmistakable & settings.keys()) or len(self.telling & settings.keys()) > 1


TOOLS = (
    OtherTool(
        "fuelbreaks",
        frozenset(
            {
                "grid_size",
                "num_landscapes",
                "num_parallel_envs",
                "memory_simulations",
                "fire_simulation_max_duration",
                "raster_dir",
            }
        ),
    ),
    OtherTool(
        "snake-flood",
        frozenset({"startingBlocks", "distToBorder"}),
        frozenset({"dim", "train_mode", "use_target_network", "max_steps"}),
    ),
    OtherTool("sfc", frozenset({"actions_per_step"})),
)


def find_claimed_preset(settings: Mapping[str, Any]) -> str | None:
    """The preset that a file's keys stand for; None if they do not say it."""
    return next((tool.preset for tool in TOOLS if tool.claims(settings)), None)


def uses_other_tool_keys(settings: Mapping[str, Any]) -> bool:
    """Whether a file has a key of another trainer."""
    return any(key in MEANINGS for key in settings)


def refuse_unclear_keys(settings: Mapping[str, Any]) -> NoReturn:
    """Refuse a file whose keys could mean any task."""
    key = next(key for key in settings if key in MEANINGS)
    ours = MEANINGS[key].setting
    hint = f"; did you mean '{ours}'?" if ours else "."
    raise ConfigError(
        f"Unknown setting '{key}'{hint} Such names of other trainers are "
        "translated if you say what to train: flashdqn train PRESET --config FILE."
    )


def translate_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Our settings, and a line about each key; the file may also contain our own keys."""
    ours = {field.name for field in fields(Config)} | {"algo", "train_steps_ratio"}
    result: dict[str, Any] = {}
    notes: list[str] = []
    for key, value in settings.items():
        if key.partition(".")[0] in ours and key not in MEANINGS:
            if key in result:
                raise ConfigError(f"'{key}' says again what another key has said. Keep one.")
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
        given = f"{key} {clean_line(str(value), 60)}"
        if turned is None:
            notes.append(f"{given} → nothing: {meaning.remark}")
            continue
        turned = episodes_to_transitions(turned, settings) if key == "checkpoint_frequency" else turned
        result[meaning.setting] = turned
        shown = f"{turned:g}" if isinstance(turned, float) else str(turned)
        remark = f" ({meaning.remark})" if meaning.remark else ""
        notes.append(f"{given} → {meaning.setting} {shown}{remark}")
    return add_implied_settings(result, settings), notes


def episodes_to_transitions(episodes: int, settings: Mapping[str, Any]) -> int:
    """A number of episodes in transitions."""
    breaks = settings.get("steps_per_episode", 1)
    return int(episodes) * int(breaks if isinstance(breaks, int | float) and abs(breaks) < 1e300 else 1)


def add_implied_settings(result: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Add what a setting implies: a fixed budget has no minimum, a falling ε has a schedule, pre-training has an
    expert to learn from, and a distance to the border is for random starts."""
    if settings.get("distToBorder"):
        result.setdefault("env.start", "random")
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
