"""The start of a training is never silent, and compiles nothing that cannot pay."""

from __future__ import annotations

import io
import sys
import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from rich.console import Console

from conftest import tiny_config
from flashdqn.compute import kernel_cache
from flashdqn.compute.compilation import CompilationLog, find_kernel, get_log, restart_log
from flashdqn.compute.graphs import ExecutionPlan
from flashdqn.config.presets import base_config
from flashdqn.core.errors import ConfigError
from flashdqn.core.signals import Interrupt
from flashdqn.envs import build_env
from flashdqn.envs.tasks import find_task
from flashdqn.training import autotune, prepared, progress, startup
from flashdqn.training.assemble import Parts, assemble_parts
from flashdqn.training.autotune import prepare_engine, warm_up_plan
from flashdqn.training.backends.cpu.backend import CpuBackend
from flashdqn.training.backends.cpu.record import NativeRecord
from flashdqn.training.backends.eager import EagerBackend
from flashdqn.training.compile_budget import (
    EAGER_KERNELS,
    NATIVE_KERNELS,
    count_updates,
    guess_kernels,
    is_worth_waiting,
    list_native_kernels,
    may_be_native,
)
from flashdqn.training.engine import Engine
from flashdqn.training.prepared import Session
from flashdqn.training.progress import LiveDisplay, Plain, choose_bar, watch_work
from flashdqn.training.startup import StartUp, describe_log


def make_terminal() -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, force_terminal=True, width=100), text


def test_the_line_says_what_happens() -> None:
    log = CompilationLog()
    assert describe_log(log, 103.4, 100.0) == "Warming up: loading PyTorch, 3 s"
    log.doing = "allocating"
    assert describe_log(log, 105.0, 100.0) == "Warming up: allocating, 5 s"
    log.times, log.done, log.expected = {"a": 10.0, "b": 20.0, "c": 30.0}, {"a": 10.0}, ["c"]
    log.current, log.started = "b", 100.0
    assert describe_log(log, 105.0, 90.0) == "Compiling b, 2 of 3, about 45 s left (once)"


def test_a_terminal_gets_a_bar_that_leaves_nothing_behind() -> None:
    console, text = make_terminal()
    shown = StartUp(lambda line: None, console)
    shown.start()
    assert shown.is_running
    get_log().current, get_log().started = "play_vector", time.perf_counter()
    with shown.hidden():
        console.print("a note")
    shown.stop()
    shown.stop()
    assert not shown.is_running
    drawn = text.getvalue()
    assert "loading PyTorch" in drawn
    assert "Compiling play_vector, 1 of 1, about" in drawn
    assert "a note\n" in drawn
    assert drawn.rstrip().endswith("\x1b[2K"), "the line is erased"
    restart_log()


def test_elsewhere_lines_come_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "EVERY", 0.001)
    lines: list[str] = []
    shown = StartUp(lines.append, None)
    shown.start()
    while len(lines) < 3:
        time.sleep(0.001)
    shown.stop()
    assert lines[0].startswith("Warming up: loading PyTorch")
    count = len(lines)
    time.sleep(0.02)
    assert len(lines) <= count + 1


def test_the_display_begins_once_and_ends_with_the_training() -> None:
    text = io.StringIO()
    plain = Plain(Console(file=text))
    plain._start_up = StartUp(plain._print_note, None)
    plain.prepare()
    plain.prepare()
    assert plain._start_up.is_running
    plain.begin("a title", 0.5)
    plain.prepared()
    assert not plain._start_up.is_running
    assert text.getvalue() == "Warming up: compiling and allocating, before the clock starts\na title\n"


def test_people_see_the_bar_whichever_stream_they_watch() -> None:
    terminal, _ = make_terminal()
    assert choose_bar(terminal) is not None
    errors = Console(stderr=True, force_terminal=True)
    assert choose_bar(errors) is errors
    live = LiveDisplay(terminal)
    live.prepared()  # without a start


# ---- what takes its time


def test_long_work_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: clock[0])
    console, text = make_terminal()
    lines = Plain(console)
    stop = watch_work(lines, "evaluation", Interrupt())
    assert not stop()
    assert "evaluation" not in text.getvalue(), "not at once"
    clock[0] += 6
    assert not stop()
    assert "evaluation: step 2, 6 s" in text.getvalue()
    live = LiveDisplay(console)
    live.begin("the title", 0.5)
    stop = watch_work(live, "demonstrations", Interrupt())
    stop()
    clock[0] += 3
    stop()
    assert "now demonstrations: step 2, 3 s" in text.getvalue().replace("\x1b[2m", "").replace("\x1b[0m", "")
    live.end()
    stop = watch_work(live, "judging", Interrupt())
    stop()
    clock[0] += 3
    stop()
    live.end()
    assert "judging: step 2, 3 s" in text.getvalue()


# ---- no compilation that cannot pay


@pytest.mark.parametrize(
    ("preset", "changes", "pays"),
    [
        ("snake", {}, True),
        ("snake-flood", {}, True),
        ("cartpole", {}, True),
        ("acrobot", {}, True),
        ("snake", {"steps": 5000}, False),
        ("snake", {"steps": 100_000}, False),
        ("cartpole", {"steps": 2000}, False),
        ("snake", {"steps": None, "max_time": 5.0}, False),
        ("snake", {"steps": None, "max_time": 60.0}, True),
        ("snake", {"steps": None, "episodes": 10}, False),
    ],
)
def test_presets_compile_and_short_trainings_do_not(preset: str, changes: dict[str, Any], pays: bool) -> None:
    config = replace(base_config(preset), **changes)
    assert is_worth_waiting(config, wait=35.0, update=0.8e-3) is pays
    policy, updates, _ = list_native_kernels(config)
    restart_log().times = {updates: 33.2}  # as on a slow machine
    kernels = guess_kernels(config, "cpu")
    restart_log()
    assert (policy in kernels) is (pays and may_be_native(config))
    assert guess_kernels(config, "cuda") == tuple(
        f"{name}_cuda" for name in find_task(config.env.task).kernels(config.env)
    )


@pytest.mark.parametrize(
    ("changes", "native"),
    [
        ({}, True),
        ({"network__dueling": True}, True),
        ({"network__torso": "cnn"}, False),
        ({"learn__head": "quantile"}, True),
        ({"learn__head": "iqn"}, False),
        ({"network__normalize": True}, False),
        ({"runtime__mode": "eager"}, False),
    ],
)
def test_only_known_networks_wait_for_hand_written_updates(changes: dict[str, Any], native: bool) -> None:
    config = tiny_config(steps=10_000_000, **changes)
    assert ("run_" in " ".join(guess_kernels(config, "cpu"))) is native
    assert ("run_updates" in guess_kernels(config, "cpu", ["run_updates"])) is native


@pytest.mark.parametrize(
    "changes",
    [
        {"network__hidden": (16, 16)},
        {"network__dueling": True},
        {"learn__head": "quantile"},
        {"learn__head": "categorical", "network__noisy": True},
        {"learn__bootstrap": "munchausen"},
    ],
)
def test_guessed_kernels_are_those_that_are_planned(changes: dict[str, Any]) -> None:
    config = tiny_config(steps=10_000_000, **changes)
    _, jobs = prepared.check_settings(config, torch.device("cpu"))
    assert {job.name for job in jobs} == set(list_native_kernels(config)) - {"adam_step"}


def test_updates_are_counted() -> None:
    assert count_updates(tiny_config()) == pytest.approx((4000 - 200) / 16)
    assert count_updates(tiny_config(steps=100)) == 0


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    monkeypatch.delenv("FLASHDQN_COMPILE")
    config = tiny_config(runtime__warmup=True)
    return assemble_parts(config, build_env(config.env, config.envs, torch.device("cpu")))


def test_a_short_training_without_compiled_code_runs_eagerly(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_compiled_code(monkeypatch, {*EAGER_KERNELS, *NATIVE_KERNELS} - {"adam_step"})
    notes: list[str] = []
    engine, choice = prepare_engine(parts.config, parts, notes.append)
    assert str(choice.plan) == "eager"
    assert "not compiled: too short a training" in notes[0]
    backend = engine.backend
    assert isinstance(backend, EagerBackend)
    assert not isinstance(backend._record, NativeRecord)


def test_code_on_disk_is_used_by_short_trainings_too(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autotune, "TRIAL_SECONDS", 0.01)
    monkeypatch.setattr(autotune, "is_worth_waiting", lambda *_: pytest.fail("everything is compiled"))
    monkeypatch.setattr(autotune, "choose_threads", lambda _: 0)
    prepare_engine(compiled_config(parts), parts, [].append)
    notes: list[str] = []
    choice = prepare_engine(parts.config, parts, notes.append)[1]
    assert not notes
    assert set(choice.seconds) == {"native", "eager"}


def test_a_plan_chooses_actions_before_the_clock_starts(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another plan has filled the ring, so no game is played again; the policy must be compiled all the same."""
    engine = Engine(parts.config, parts)
    warm_up_plan(engine, ExecutionPlan("eager"))
    acted: list[int] = []
    act = CpuBackend.act
    monkeypatch.setattr(CpuBackend, "act", lambda self, *given: acted.append(1) or act(self, *given))
    warm_up_plan(engine, ExecutionPlan("native"))
    assert acted


def test_the_first_estimate_counts_all_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    restart_log()
    seen: list[list[str]] = []

    def check(config: Any, device: Any) -> Any:
        seen.append(list(get_log().expected))
        raise ConfigError("enough")

    monkeypatch.setattr(prepared, "check_settings", check)
    monkeypatch.setattr("flashdqn.compute.compilation.list_compiled", set)
    with pytest.raises(ConfigError, match="enough"), Session.open(base_config("snake-flood"), [].append):
        pass
    assert seen == [[*EAGER_KERNELS, *NATIVE_KERNELS]]
    restart_log()


def compiled_config(parts: Parts) -> Any:
    """The same training in the mode that compiles everything."""
    return replace(parts.config, runtime=replace(parts.config.runtime, mode="native"))


def forget_compiled_code(monkeypatch: pytest.MonkeyPatch, kernels: set[str]) -> None:
    """As in a new process with an empty cache, for these kernels."""
    find = kernel_cache.find_entry
    monkeypatch.setattr(
        kernel_cache,
        "find_entry",
        lambda name, key: None if find_kernel(name) in kernels else find(name, key),
    )
    for name in [name for name in sys.modules if name.startswith("flashdqn_kernel_")]:
        if find_kernel(name) in kernels:
            monkeypatch.delitem(sys.modules, name)
