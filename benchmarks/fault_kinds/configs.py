"""Hostile configurations: as Python data, as JSON, as TOML, as flags.

Each either gives a configuration or is refused in one sentence, within seconds. Some of those that were accepted
are then built and trained for three iterations, under a memory limit: what was accepted must also work, or say why
not.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from fault_kinds.tally import Tally, scale_count
from flashdqn.compute.device import process_free_bytes
from flashdqn.config import Config
from flashdqn.config.presets import PRESETS, base_config
from flashdqn.config.settings import apply_settings, flatten_keys, parse_toml, read_settings_file, to_dict
from flashdqn.core.errors import FlashDQNError
from flashdqn.core.files import parse_json

CONFIGS, TRAININGS = 100_000, 300
#: Seconds that reading a configuration may take, and a short training of it.
SLOW, LONGEST = 2.0, 60
#: Bytes that a training may take besides what Python and PyTorch have.
ROOM = 2 * 10**9
#: Presets that start quickly.
QUICK = ("snake", "snake-flood", "snake-grid", "fuelbreaks-small", "sfc", "gym:CartPole-v1")

DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]

NUMBERS: tuple[Any, ...] = (
    -1, 0, 1, 2, 3, 5, 7, 16, 31, 32, 33, 63, 64, 100, 255, 256, 257, 1000, 1024, 4096, 10**4, 65_535, 65_536,
    10**5, 10**6, 2**24, 2**31 - 1, 2**31, 2**32, 2**32 + 1, 10**9, 10**12, 10**15, 2**53 + 1, 2**62,
    2**63 - 1, 2**63, 2**64, 10**30, 10**400, -(2**31), -(2**63), -(2**64), -(10**400), 0.0, -0.0, 0.5, 1.0,
    1.5, -1.5, 1e-45, 1e-310, 1e-30, 1e-8, 1e30, 3.4e38, 3.5e38, -3.5e38, 1e300, 1.7e308, float("nan"),
    float("inf"), float("-inf"),
)  # fmt: skip
TEXTS = (
    "", " ", "auto", "nan", "inf", "1e400", "１２", "1_000", "0x10", "a\0b", "a\nb", "\x1b[2J", "\udcff",
    "\u202e", "é", "a" * 5000, "../" * 2000, "os:system", ":", "a:", ":b", "none", "random", "mlp", "cnn",
    "resnet", "nature", "impala", "cells", "branches", "scalar", "categorical", "quantile", "iqn", "greedy",
    "munchausen", "adamw", "radam", "prioritized", "pqn", "dry@1.2.3", "dry@999999", "extreme@90/1e9",
    "12,30", "99999999999999999999,0", "2h", "-5m", "9" * 5000, "14:" + "9" * 5000, "quality", "/dev/zero",
    "/dev/null", "grid", "absolute", "spread", "ring",
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    None, True, False, [], {}, [1], ["a"], [64, 64], [10**9], [0], [-1], [1.5], [float("nan")], [None],
    list(range(2000)), [1] * 1500, DEEP, {"a": 1}, {"a": {"b": 1}}, {"": 0}, {"x": float("nan")}, {"x": DEEP},
    ["14:128"], [[1]], [{}],
)  # fmt: skip
KEYS = (
    "",
    ".",
    "..",
    "env.",
    ".env",
    "env..size",
    "a" * 10**4,
    "env.task",
    "learn",
    "env",
    "\x1b[31m",
    "preset",
    "task",
)


class TimeLimitError(Exception):
    """A training went on for longer than there is time here."""


def try_faults(effort: float, folder: Path) -> list[Tally]:
    """Read hostile configurations, then train some of those that were accepted."""
    random_ = random.Random(18)
    read = Tally("hostile configurations")
    bases = {name: base_config(name) for name in (*PRESETS, "gym:CartPole-v1")}
    accepted: list[tuple[Config, Config]] = []
    file = folder / "settings"
    for number in range(scale_count(CONFIGS, effort, 200)):
        name = random_.choice(list(bases))
        changes = make_changes(random_, bases[name])
        begun = time.perf_counter()
        outcome = read_changes(random_, bases[name], changes, file, number)
        took = time.perf_counter() - begun
        shown = repr(changes)[:300] if isinstance(outcome, Exception) or took > SLOW else ""
        read.check(not isinstance(outcome, Exception), f"{name} {shown}: {outcome!r}")
        if took > SLOW:
            read.failures.append(f"{name} {shown}: took {took:.1f} s")
        if isinstance(outcome, Config) and name in QUICK:
            accepted.append((bases[name], outcome))
    return [read, try_trainings(accepted, scale_count(TRAININGS, effort, 2), folder, random_)]


@functools.cache
def list_names(preset: str) -> tuple[str, ...]:
    """The settings of a preset by their dotted names."""
    return tuple(flatten_keys(to_dict(base_config(preset))))


def make_changes(random_: random.Random, base: Config) -> dict[str, Any]:
    """One to four settings of a configuration with other values; sometimes a strange key."""
    names = list_names(base.preset)
    changes: dict[str, Any] = {}
    for _ in range(random_.choice((1, 1, 1, 2, 2, 3, 4))):
        key = random_.choice(names) if random_.random() < 0.97 else random_.choice(KEYS)
        values = random_.choice((NUMBERS, NUMBERS, NUMBERS, TEXTS, OTHERS))
        changes[key] = random_.choice(values)
    return changes


def read_changes(
    random_: random.Random, base: Config, changes: dict[str, Any], file: Path, number: int
) -> Config | Exception | None:
    """The configuration; None if it was refused in one sentence; the error if it was not."""
    form = random_.choice(("python", "python", "objects", "json", "toml"))
    try:
        if form == "objects":
            return change_objects(base, changes)
        if form == "json":
            text = json.dumps(nest(changes) if number % 2 else changes)
            if number % 20 == 0:
                changes = read_text(file.with_suffix(".json"), text)
            else:
                changes = parse_json(text, unique=True)
        elif form == "toml":
            text = "".join(f"{json.dumps(key)} = {write_toml(value)}\n" for key, value in changes.items())
            changes = read_text(file.with_suffix(".toml"), text) if number % 20 == 0 else parse_toml(text)
        return apply_settings(base, changes)
    except FlashDQNError as error:
        return find_bad_message(str(error))
    except ValueError as error:  # the text itself is not JSON or TOML: a file says so in one sentence
        return None if form in ("json", "toml") else error
    except Exception as error:
        return error


def find_bad_message(message: str) -> Exception | None:
    """An error if a refusal would fill or control the terminal, or says nothing."""
    bad = len(message) > 1500 or any(ord(one) < 32 or 127 <= ord(one) < 160 for one in message)
    return ValueError(f"a bad message: {message[:200]!r}") if bad or len(message) < 10 else None


def read_text(path: Path, text: str) -> dict[str, Any]:
    """Settings by way of a file."""
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return read_settings_file(path)


def change_objects(base: Config, changes: dict[str, Any]) -> Config:
    """The changes by the constructors of the dataclasses, as somebody does who writes Python."""
    for key, value in changes.items():
        *groups, name = key.split(".")
        path: list[Any] = [base]
        for group in groups:
            path.append(getattr(path[-1], group, None))
        if any(not dataclasses.is_dataclass(part) for part in path) or name not in vars(path[-1]):
            continue
        for part, own in zip(reversed(path), (name, *reversed(groups)), strict=True):
            value = dataclasses.replace(part, **{own: value})
        base = value
    return base


def nest(changes: dict[str, Any]) -> dict[str, Any]:
    """Dotted keys as nested ones."""
    nested: dict[str, Any] = {}
    for key, value in changes.items():
        group, dot, rest = key.partition(".")
        if dot and isinstance(nested.setdefault(group, {}), dict):
            nested[group][rest] = value
        elif not dot:
            nested[key] = value
    return nested


def write_toml(value: Any) -> str:
    """A value as TOML writes it; dates and None, which it does not have, as what it has."""
    if isinstance(value, bool | str):
        return json.dumps(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {write_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" * 300 + "]" * 300 if value is DEEP else "[" + ", ".join(map(write_toml, value)) + "]"
    if value is None:
        return "2026-11-16T12:00:00Z"
    if isinstance(value, int) and abs(value) >= 10**300:
        return "9" * 400
    return repr(value)


def try_trainings(
    accepted: list[tuple[Config, Config]], count: int, folder: Path, random_: random.Random
) -> Tally:
    """Train some accepted configurations for three iterations: what is large is refused before it is allocated."""
    tally = Tally("accepted ones, built and trained")
    slow = 0
    for base, config in random_.sample(accepted, min(count, len(accepted))):
        shown = repr(list_changes(base, config))[:500]
        try:
            with time_limit(LONGEST), memory_limit(ROOM):
                train_shortly(config, folder)
            outcome: Exception | None = None
        except FlashDQNError as error:
            outcome = find_bad_message(str(error))
        except TimeLimitError:
            slow, outcome = slow + 1, None
        except Exception as error:
            outcome = error
        tally.check(outcome is None, f"{base.preset} {shown}: {outcome!r}"[:1500])
    tally.note = f"{slow} were still working after {LONGEST} s" if slow else ""
    return tally


def list_changes(base: Config, config: Config) -> dict[str, Any]:
    """The settings that differ from their preset's."""
    before = flatten_keys(to_dict(base))
    return {key: value for key, value in flatten_keys(to_dict(config)).items() if before.get(key) != value}


def train_shortly(config: Config, folder: Path) -> None:
    """Three iterations, as `flashdqn train` would do them."""
    from flashdqn.core.contract import close_env
    from flashdqn.runs.folder import RunFolder
    from flashdqn.training.prepared import Session
    from flashdqn.training.progress import Silent

    runtime = dataclasses.replace(config.runtime, mode="eager", warmup=False, threads=1)
    log = dataclasses.replace(config.log, tensorboard=False, wandb=False, mlflow=False)
    learn = dataclasses.replace(config.learn, starts=min(config.learn.starts, 2 * config.envs))
    config = dataclasses.replace(config, runtime=runtime, log=log, learn=learn, device="cpu", out=str(folder))
    with Session.open(config, lambda text: None) as session:
        env = session.parts.env
        try:
            run = RunFolder(folder / "run")
            run.checkpoints.mkdir(parents=True, exist_ok=True)
            loop = session.make_loop(run, Silent())
            loop.start()
            for _ in range(3):
                loop.iterate()
            loop.reporter.close()
        finally:
            close_env(env)


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise `TimeLimitError` after some seconds."""

    def stop(_: int, frame: FrameType | None) -> None:
        raise TimeLimitError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def memory_limit(room: int) -> Iterator[None]:
    """Let this process take only `room` bytes more; what takes more although it was accepted, fails."""
    with suppress(ImportError):
        import resource

        before = resource.getrlimit(resource.RLIMIT_AS)
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + room, before[1]))
        try:
            assert process_free_bytes() <= room
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
