"""Convert configurations to and from plain data: files, keyword arguments, the run folder.

Mistakes are named by key: `replay.n_stp: unknown; did you mean n_step?`
"""

from __future__ import annotations

import dataclasses
import functools
import tomllib
import types
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from flashdqn.config import Config, parse_duration, parse_ratio
from flashdqn.config.schedules import apply_shares, take_shares
from flashdqn.config.values import parse_count
from flashdqn.core.errors import ConfigError
from flashdqn.core.files import parse_json, read_plain_text
from flashdqn.core.ranges import describe_value, name_kind
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.core.text import clean_line
from flashdqn.core.user_code import find_names, find_paths, names_code
from flashdqn.envs.task import EnvConfig
from flashdqn.envs.tasks import TASKS, find_task

T = TypeVar("T")

BUDGETS = ("steps", "episodes", "max_time")

#: The largest configuration file, in bytes.
LARGEST_FILE = 10 * 2**20


def to_dict(config: Any) -> dict[str, Any]:
    """Plain data that `apply_settings` understands; `env.task` names the task of the settings."""
    data = dataclasses.asdict(config)
    if isinstance(config, Config):
        data["env"] = {"task": config.env.task, **data["env"]}
    return data


def apply_settings(config: T, changes: Mapping[str, Any], where: str = "") -> T:
    """A copy of a configuration with some values changed; keys may be nested or dotted."""
    kind: Any = type(config)
    hints = _list_hints(kind)
    values: dict[str, Any] = {}
    nested = _nest_keys(changes)
    shares: dict[str, Fraction] = {}
    if isinstance(config, Config):
        nested, shares = take_shares(nested)
    for key, value in nested.items():
        name = key.replace("-", "_")
        name = "train_ratio" if name == "train_steps_ratio" and not where else name
        if name not in hints:
            raise ConfigError(f"Unknown setting {describe_value(where + key)}{suggest_setting(config, name)}")
        if name in values:
            raise ConfigError(f"'{where}{name}' is given twice.")
        old = getattr(config, name)
        if dataclasses.is_dataclass(old):
            if not isinstance(value, Mapping):
                raise ConfigError(
                    f"'{where}{key}' is a group of settings, and {describe_value(value)} is not."
                )
            if isinstance(old, EnvConfig) and "task" in value:
                old, value = _select_task_config(old, value)
            values[name] = apply_settings(old, value, f"{where}{key}.")
        else:
            values[name] = _convert_value(value, hints[name], f"{where}{key}", f"{where}{name}")
    if isinstance(config, Config):
        values = drop_old_budget(values)
        changed: Any = apply_shares(dataclasses.replace(config, **values), shares)
        return cast("T", changed)
    return dataclasses.replace(config, **values)  # type: ignore[type-var]


@functools.cache
def _list_hints(kind: type) -> dict[str, Any]:
    """The types of a group's settings by name."""
    hints = get_type_hints(kind, include_extras=False)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _select_task_config(old: EnvConfig, settings: Mapping[str, Any]) -> tuple[EnvConfig, dict[str, Any]]:
    """The settings of the named task to start from, and the other given settings."""
    rest = dict(settings)
    task = rest.pop("task")
    if not isinstance(task, str) or task not in TASKS:
        raise ConfigError(
            f"Unknown task {describe_value(task)} in 'env.task'{suggest_nearest(str(task), TASKS)}"
        )
    return old if task == old.task else find_task(task).config(), rest


def suggest_setting(config: Any, name: str) -> str:
    """The setting that was perhaps meant: one inside a group (`learn.gamma` for `gamma`), or a similar spelling."""
    names = [field.name for field in dataclasses.fields(config)]
    for group in names:
        inner = getattr(config, group)
        if dataclasses.is_dataclass(inner) and name in {field.name for field in dataclasses.fields(inner)}:
            return f"; did you mean '{group}.{name}'?"
    return suggest_nearest(name, names)


def upgrade_settings(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of a run of an earlier version, as this version says the same."""
    env = settings.get("env")
    if not isinstance(env, dict) or str(env.get("task")) not in TASKS:
        return settings
    return {**settings, "env": find_task(env["task"]).upgrade(env)}


def list_named_code(config: Config) -> tuple[str, ...]:
    """Every `module:Name` that a training could import: all texts with a colon, in every group of settings except
    `log`, whose texts are addresses (`list_receivers`). A branch (14:128,64) does not count, because it is a shape.
    An environment that an installed package has registered may open what its arguments name: files and modules
    count there, too."""
    groups = {
        name: value for name, value in to_dict(config).items() if isinstance(value, dict) and name != "log"
    }
    groups["network"].pop("branches")
    env = groups["env"]
    paths = find_paths(env.get("kwargs")) if not names_code(str(env.get("id", ""))) else ()
    return tuple(dict.fromkeys((*find_names(groups), *paths)))


def list_remaining_code(config: Config, changed: Config) -> list[str]:
    """The names of a file's configuration that are still there after the user's own changes."""
    still, names = set(list_named_code(changed)), list_named_code(config)
    if getattr(changed.env, "id", "") != getattr(config.env, "id", ""):
        # The file's arguments go to an environment that the user has not chosen them for.
        paths = tuple(find_paths(getattr(changed.env, "kwargs", None)))
        still, names = still | set(paths), tuple(dict.fromkeys((*names, *paths)))
    return [name for name in names if name in still]


def list_receivers(config: Config) -> dict[str, str]:
    """Where a training with this configuration sends its figures besides the run folder, by the setting that says
    so. MLflow without an address uses the user's own."""
    log, found = config.log, {}
    if log.wandb and log.wandb_mode != "offline":
        found["log.wandb"] = f"Weights & Biases, project {log.wandb_project}"
    if log.mlflow and log.mlflow_uri:
        found["log.mlflow_uri"] = f"MLflow at {log.mlflow_uri}"
    return found


def trust_flag(config: Config) -> str:
    """The flag that a command needs after a run with this configuration: " --trust" if it names code."""
    return " --trust" if list_named_code(config) else ""


def resume_flag(config: Config) -> str:
    """The same for a training that goes on, which may also send figures."""
    return " --trust" if list_receivers(config) else trust_flag(config)


def drop_old_budget(changes: Mapping[str, Any]) -> dict[str, Any]:
    """A new budget replaces the old one: `--max-time 60s` must not also stop at the preset's steps."""
    given = {name for name in BUDGETS if changes.get(name) is not None}
    cleared = dict.fromkeys(set(BUDGETS) - given) if given else {}
    return {**changes, **cleared}


def read_settings_file(path: Path) -> dict[str, Any]:
    """Read settings from a JSON or TOML file; a run's config.json works too."""
    try:
        text = read_plain_text(path, follow=True, most=LARGEST_FILE).removeprefix("\ufeff")
        data = parse_toml(text) if path.suffix == ".toml" else parse_json(text, unique=True)
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a text in UTF-8: save it in that encoding.") from None
    except OSError as error:
        raise ConfigError(f"Cannot read the configuration file {path}: {error.strerror}.") from None
    except ValueError as error:
        reason = clean_line(str(error), 200)
        if "\0" in str(path):
            raise ConfigError("The name of a configuration file cannot hold a zero byte.") from None
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise ConfigError(f"{path} is not valid {kind}: {reason}.") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must hold settings by name, and holds a {type(data).__name__}.")
    if isinstance(data.get("config"), dict):
        data = data["config"]
    return data


def parse_toml(text: str) -> dict[str, Any]:
    """TOML as Python data; every kind of damage is a ValueError, also nesting that Python cannot follow."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _nest_keys(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        if not isinstance(key, str):
            raise ConfigError(f"A setting is named by a text, and {describe_value(key)} is not.")
        group, dot, rest = key.partition(".")
        inside = {rest: value} if dot else value
        if not isinstance(inside, Mapping):
            if group in nested:
                raise ConfigError(f"{describe_value(group)} is given twice.")
            nested[group] = value
            continue
        inner = nested.setdefault(group, {})
        if not isinstance(inner, dict) or inner.keys() & inside.keys():
            raise ConfigError(f"{describe_value(group)} is given twice.")
        inner.update(inside)
    return nested


def _convert_value(value: Any, hint: Any, key: str, name: str) -> Any:
    """A value from a file or a keyword as its setting's type has it; `check_values` looks at the range later."""
    if name == "train_ratio" and isinstance(value, str):
        return parse_ratio(value)
    if name == "max_time" and isinstance(value, str):
        return parse_duration(value)
    if get_origin(hint) in (Union, types.UnionType):
        if value is None:
            return None
        hint = next(option for option in get_args(hint) if option is not type(None))
    if get_origin(hint) is Literal:
        if isinstance(value, str) and value in get_args(hint):
            return value
        allowed = ", ".join(map(str, get_args(hint)))
        raise ConfigError(f"'{key}' must be one of {allowed}, and is {describe_value(value)}.")
    if get_origin(hint) is dict:
        if isinstance(value, Mapping):
            return dict(value)
        raise ConfigError(f"'{key}' must be settings by name, and is {describe_value(value)}.")
    if get_origin(hint) is tuple:
        kind = get_args(hint)[0]
        if isinstance(value, list | tuple) and all(type(item) is kind for item in value):
            return tuple(value)
        items = "whole numbers" if kind is int else "texts"
        raise ConfigError(f"'{key}' must be a list of {items}, and is {describe_value(value)}.")
    if hint is int and type(value) in (str, float):
        with suppress(ValueError):
            value = parse_count(value) if isinstance(value, str) else as_whole_number(value)
    if hint is float and type(value) is int:
        return float(value) if value.bit_length() < 1000 else value  # a longer one fits no range
    if type(value) is not hint and not (hint is float and type(value) is int):
        raise ConfigError(f"'{key}' must be {name_kind(hint)}, and is {describe_value(value)}.")
    return value


def as_whole_number(value: float) -> int:
    """A float that is a whole number, such as Python's 1e5; ValueError if it is not."""
    if not value.is_integer():
        raise ValueError(value)
    return int(value)


def flatten_keys(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        inside = isinstance(value, Mapping) and value
        found |= flatten_keys(value, f"{prefix}{key}.") if inside else {f"{prefix}{key}": value}
    return found
