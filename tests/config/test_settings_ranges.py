"""Every number among the settings and the flags has a range, and hostile values end in one sentence."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flashdqn.cli.doctor import DoctorArguments
from flashdqn.cli.eval import EvalArguments
from flashdqn.cli.export import ExportArguments
from flashdqn.cli.landscapes import CheckArguments, MakeArguments, ShowArguments
from flashdqn.cli.other_tools import translate_settings
from flashdqn.cli.profile import ProfileArguments
from flashdqn.cli.report import ReportArguments
from flashdqn.cli.train import TrainArguments
from flashdqn.cli.watch import WatchArguments
from flashdqn.config import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings, read_settings_file
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import FieldRule, list_rules
from flashdqn.envs.tasks import iterate_tasks

ARGUMENTS = (
    TrainArguments, EvalArguments, WatchArguments, ReportArguments, ExportArguments, MakeArguments, CheckArguments,
    ShowArguments, ProfileArguments, DoctorArguments,
)  # fmt: skip


def walk_rules(kind: Any) -> Iterator[tuple[str, FieldRule]]:
    """The rules of a dataclass and of those inside it."""
    for rule in list_rules(kind):
        if dataclasses.is_dataclass(rule.kind):
            yield from walk_rules(rule.kind)
        else:
            yield f"{kind.__name__}.{rule.name}", rule


def test_every_number_has_a_range() -> None:
    kinds = [Config, *ARGUMENTS, *(task.config for task in iterate_tasks())]
    rules = {name: rule for kind in kinds for name, rule in walk_rules(kind)}
    numbers = {name: rule for name, rule in rules.items() if rule.kind in (int, float)}
    assert [name for name, rule in numbers.items() if rule.range is None] == []
    assert [name for name, rule in rules.items() if rule.kind is object] == []
    assert len(numbers) > 100
    for name, rule in numbers.items():
        assert rule.range is not None
        assert rule.range.most < 3.5e38, name
        for value in (float("nan"), float("inf"), 10**400, -(10**400)):
            assert rule.find_fault((value,) if rule.listed else value) is not None, name


HOSTILE: dict[str, tuple[str, Any]] = {
    "a batch": ("learn.batch_size", 2**32),
    "a width": ("network.hidden", [10**9]),
    "a million layers": ("network.hidden", [1] * 10**6),
    "games": ("eval.episodes", 10**12),
    "no float32": ("env.death_reward", 3.5e38),
    "steps of a game": ("env.max_steps", 2**63 - 1),
    "400 digits": ("seed", 10**400),
    "400 digits for a float": ("learn.lr", 10**400),
    "threads": ("runtime.threads", 10**9),
    "not a number": ("learn.huber", float("nan")),
    "infinite": ("learn.grad_clip", float("inf")),
    "environments": ("envs", 10**9),
    "atoms": ("learn.atoms", 10**9),
    "n steps": ("replay.n_step", 10**9),
    "reports": ("log.every", 10**30),
    "a time below 0": ("max_time", "-5m"),
    "a time without end": ("max_time", "1e400"),
    "no time": ("max_time", "nan"),
    "a terminal code": ("log.wandb_project", "\x1b[2J"),
    "a zero byte": ("out", "a\0b"),
    "a long path": ("out", "a" * 5000),
    "half a character": ("log.mlflow_uri", "\udcff"),
    "atoms that are equal": ("learn.v_max", -19.9999999),
    "arguments nested deeply": ("learn.head_kwargs", {"a": json.loads("[" * 500 + "]" * 500)}),
    "arguments without JSON": ("learn.head_kwargs", {"a": float("nan")}),
    "a strange weather": ("env.weathers", ["dry@1.2.3"]),
    "a fast wind": ("env.weathers", ["dry@90/99999"]),
    "an ignition": ("env.ignitions", ["9" * 5000 + ",1"]),
}


@pytest.mark.parametrize(("key", "value"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_values_are_refused_at_once(key: str, value: Any) -> None:
    base = base_config("fuelbreaks-small" if key in ("env.weathers", "env.ignitions") else "snake")
    with pytest.raises(ConfigError) as error:
        apply_settings(base, {"learn.head": "a:b", key: value} if "kwargs" in key else {key: value})
    assert len(str(error.value)) < 400
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({1: 2}, "named by a text, and 1 is not"),
        ({"x" * 10**5: 2}, "Unknown setting 'xxx"),
        ({"\x1b[2J": 2}, r"Unknown setting '\\x1b\[2J'"),
        ({"env": {"size": 8}, "env.size": 9}, "'env' is given twice"),
        ({"env.size": 8, "env": {"size": 9}}, "'env' is given twice"),
        ({"env.size": 8, "env": 9}, "'env' is given twice"),
        ({"replay": {"n-step": 2, "n_step": 3}}, "'replay.n_step' is given twice"),
        ({"env.task": "snake" * 10**4}, "Unknown task"),
    ],
)
def test_strange_keys_are_refused(changes: dict[Any, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        apply_settings(base_config("snake"), changes)
    assert len(str(error.value)) < 700


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, "\x1b[2J"])
@pytest.mark.parametrize(
    "key", ["grid_size", "steps_per_episode", "train_frequency", "gamma", "learning_rate"]
)
def test_hostile_values_under_the_names_of_other_tools(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"'{key}' must be a"):
        translate_settings({"grid_size": 20, "checkpoint_frequency": 3, key: value})


FILES: dict[str, tuple[str, bytes | Callable[[Path], object], str]] = {
    "nested deeply": ("c.json", b"[" * 10**5, "nested too deeply"),
    "nested deeply in TOML": ("c.toml", b"a = " + b"[" * 10**5, "nested too deeply"),
    "UTF-16": ("c.json", '{"envs": 8}'.encode("utf-16"), "is not a text in UTF-8"),
    "Latin-1": ("c.json", '{"out": "é"}'.encode("latin-1"), "is not a text in UTF-8"),
    "empty": ("c.json", b"", "is not valid JSON"),
    "a name twice": ("c.json", b'{"envs": 8, "envs": 9}', "it has 'envs' twice"),
    "5000 digits": ("c.json", b'{"envs": ' + b"9" * 5000 + b"}", "is not valid JSON"),
    "large": ("c.json", b" " * 10_485_761, "has more than 10,485,760 bytes"),
    "a folder": ("c.json", Path.mkdir, "is a folder, not a file"),
    "a pipe": ("c.json", os.mkfifo, "is a named pipe, not a file"),
    "a device": ("c.json", lambda path: path.symlink_to("/dev/zero"), "is a device, not a file"),
}


@pytest.mark.parametrize(("name", "content", "says"), FILES.values(), ids=FILES)
def test_strange_files_are_refused(
    name: str, content: bytes | Callable[[Path], object], says: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content(path)
    with pytest.raises(ConfigError, match=says):
        read_settings_file(path)


def test_a_date_is_not_a_setting_and_a_mark_of_order_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("\ufeffenvs = 2026-11-16", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"'envs' must be a whole number, and is datetime\.date"):
        apply_settings(base_config("snake"), read_settings_file(tmp_path / "c.toml"))
