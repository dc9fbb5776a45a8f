"""Trainings so small that a test can afford several, and one finished run that tests may read, not change."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import flashdqn
from flashdqn import Config, Run
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.files import read_signed_json, write_signed_json
from flashdqn.core.signals import STOP_SIGNALS
from flashdqn.runs import checkpoint
from flashdqn.runs.records import CONFIG_FILE, list_lasting_settings
from marker_table import find_marks
from triton_bounds import watch_bounds

#: Which code a training runs must not depend on what other tests have compiled before; for processes, too.
os.environ["FLASHDQN_COMPILE"] = "always"

#: Everything about a tiny training; nested settings by their dotted names.
TINY: dict[str, Any] = {
    "steps": 4000,
    "envs": 16,
    "device": "cpu",
    "env.size": 6,
    "network.hidden": [16],
    "replay.capacity": 2000,
    "learn.batch_size": 32,
    "learn.starts": 200,
    "learn.target_every": 20,
    "explore.over": 2000,
    "train_ratio": 0.0625,
    "eval.every": 1500,
    "eval.episodes": 4,
    "eval.max_share": 1.0,  # which evaluations there are must not depend on the machine
    "log.every": 500,
    "log.checkpoint_every": 1000,
    "log.tensorboard": False,
    "runtime.threads": 1,
    "runtime.warmup": False,
}


def tiny_config(**changes: Any) -> Config:
    """A tiny training with some settings changed; `learn__lr` stands for `learn.lr`."""
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return apply_settings(base_config("snake"), TINY | named)


def forge_settings(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change config.json as a run that was made in this way would have it: checksums and checkpoints fit."""
    record = read_signed_json(run / CONFIG_FILE)
    change(record)
    write_signed_json(run / CONFIG_FILE, record)
    for file in (run / "checkpoints").glob(f"*/{checkpoint.MANIFEST}"):
        manifest = read_signed_json(file)
        write_signed_json(file, manifest | {"config": list_lasting_settings(record["config"])})


def tiny_flags(**changes: Any) -> list[str]:
    """The same as words of a command line."""
    named = TINY | {key.replace("__", "."): value for key, value in changes.items()}
    words: list[str] = []
    for key, value in named.items():
        flag = key.replace("_", "-")
        if isinstance(value, bool):
            group, dot, name = flag.rpartition(".")
            words.append(f"--{flag}" if value else f"--{group}{dot}no-{name}")
        else:
            words += [f"--{flag}", *map(str, value if isinstance(value, list) else [value])]
    return words


def command(*words: str) -> list[str]:
    """`flashdqn …` as a process of its own."""
    return [sys.executable, "-m", "flashdqn", *words]


def start(*words: str, **options: Any) -> subprocess.Popen[str]:
    """Start `flashdqn …` with its output in pipes."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command(*words), text=True, env=environment, **pipes | options)


def pytest_configure() -> None:
    """Signals as on a terminal: in the background of a script, or under nohup, some are ignored, and all that tests
    start would ignore them too, and run on."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
    if os.environ.get("TRITON_INTERPRET") == "1":
        watch_bounds()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`slow`, `process`, `browser` and `cuda`: see marker_table.py."""
    for item in items:
        reasons = [str(mark.kwargs.get("reason", "")) for mark in item.iter_markers("skipif")]
        for name in sorted(find_marks(item.nodeid, tuple(getattr(item, "fixturenames", ())), reasons)):
            item.add_marker(name)


@pytest.fixture(autouse=True)
def _same_threads_everywhere() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _same_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands set this for the processes that they start; later tests start their own."""
    monkeypatch.setenv("PYTHONSAFEPATH", "")


@pytest.fixture(autouse=True)
def _same_signal_handlers() -> Iterator[None]:
    """A command ignores signals in the end, because its process is over; here the process goes on."""
    before = {name: signal.getsignal(name) for name in STOP_SIGNALS}
    yield
    for name, handler in before.items():
        if signal.getsignal(name) is not handler:
            signal.signal(name, handler)


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One finished run, with everything that a run writes; copy it before you change it."""
    config = tiny_config(out=str(tmp_path_factory.mktemp("runs")), log__tensorboard=True, steps=5000)
    return flashdqn.train(config, progress=False)


@pytest.fixture
def run_copy(finished_run: Run, tmp_path: Path) -> Path:
    """The finished run in a place of its own, to be spoiled."""
    return Path(shutil.copytree(finished_run.path, tmp_path / "copy"))


@pytest.fixture
def tiny_run(tmp_path: Path) -> Callable[..., Run]:
    """Train a tiny run with some settings changed."""

    def train(**changes: Any) -> Run:
        return flashdqn.train(tiny_config(**{"out": str(tmp_path / "runs")} | changes), progress=False)

    return train


#: for Chromium as root and without a network
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")  # no longer: Playwright keeps an event loop running in this thread
def browser() -> Iterator[Any]:
    """A headless Chromium of this machine's own; without one the test is skipped, but never in CI."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
            pytest.fail("CI must test in a browser, and there is no Chromium: make browser")
        pytest.skip("there is no Chromium on this machine: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=CHROMIUM_FLAGS)
        yield found
        found.close()
