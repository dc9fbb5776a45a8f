"""Sweeps as real processes: to the end, stopped, killed and resumed; nothing runs on afterwards."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import start, tiny_config, tiny_flags
from flashdqn.config.settings import to_dict
from flashdqn.sweep.folder import read_plan
from flashdqn.sweep.pool import LOG, TrialMessage, TrialPool, TrialTask
from flashdqn.sweep.results import DONE, LOST, list_results
from flashdqn.sweep.study import read_study

SPACE = "[learn]\nlr = { low = 1e-5, high = 1e-2, log = true }\nbatch_size = [16, 32]\n"
PATIENCE = 120.0


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.toml").write_text(SPACE)


def find_trials(home: Path) -> list[int]:
    """The processes of trials that were started in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
            if b"trial_process" in words and (process / "cwd").resolve() == home.resolve():
                state = (process / "stat").read_text().rpartition(")")[2].split()[0]
                found += [int(process.name)] if state != "Z" else []
        except OSError:
            continue
    return found


def wait_until(what: Callable[[], object], why: str) -> None:
    until = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < until, why
        time.sleep(0.05)


def start_sweep(*words: str, **settings: Any) -> subprocess.Popen[str]:
    return start("sweep", "snake", "--space", "space.toml", *words, *tiny_flags(**settings))


def find_folder() -> Path:
    return next(Path("runs").glob("sweep-*"))


def test_from_the_space_to_a_preset_of_ones_own(tmp_path: Path) -> None:
    ended = start_sweep("--trials", "3", "--seeds", "1", "--jobs", "2")
    said, wrong = ended.communicate(timeout=PATIENCE)
    assert ended.returncode == 0, said + wrong
    folder = find_folder()
    plan = read_plan(folder)
    results = list_results(read_study(folder), plan.space)
    assert [one.state for one in results] == [DONE] * 3
    assert results[0].label == "preset"
    assert all((Path(one.run) / "summary.json").exists() for one in results)
    assert not list(folder.glob("**/state.safetensors")), "replays of trials are not kept"
    assert all(one.points[-1].seconds > 0 for one in results)
    page = (folder / "report.html").read_text()
    assert not re.search(r"(src|href)=[\"']?https?:", page)
    assert "Score over seconds" in page
    assert "Parallel coordinates" in page
    assert find_trials(tmp_path) == []

    shown = start("sweep", "show", str(folder), "--trial", "1", "--out", "mine.toml")
    said, wrong = shown.communicate(timeout=PATIENCE)
    assert shown.returncode == 0, said + wrong
    written = tomllib.loads(Path("mine.toml").read_text())
    assert written["learn"]["lr"] == results[1].values["learn.lr"]
    assert written["preset"] == "snake"
    trained = start("train", "--config", "mine.toml", "--device", "cpu")
    said, wrong = trained.communicate(timeout=PATIENCE)
    assert trained.returncode == 0, said + wrong
    run = next(path for path in Path("runs").glob("snake-*"))
    config = json.loads((run / "config.json").read_text())["config"]
    assert config["learn"]["lr"] == results[1].values["learn.lr"]
    assert config["steps"] == 4000
    assert config["env"]["size"] == 6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_sweep_that_is_ended_leaves_nothing_running(number: signal.Signals, tmp_path: Path) -> None:
    sweep = start_sweep("--trials", "3", "--seeds", "0", "--jobs", "2", steps=10**9)
    wait_until(lambda: len(list(Path("runs").glob("sweep-*/trials/*/snake-*"))) == 2, "no trial has begun")
    assert len(find_trials(tmp_path)) == 2
    refused = start("sweep", "--resume", str(find_folder()))
    _, wrong = refused.communicate(timeout=PATIENCE)
    assert refused.returncode == 2
    assert "being swept by another process" in wrong
    sweep.send_signal(number)
    said, wrong = sweep.communicate(timeout=PATIENCE)
    codes = {signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}
    assert sweep.returncode == codes.get(number, 75), said + wrong
    wait_until(lambda: not find_trials(tmp_path), "trials run on")
    assert "Traceback" not in wrong
    if number != signal.SIGKILL:
        assert "sweep --resume" in said
        assert (find_folder() / "report.html").exists()


def test_a_killed_sweep_goes_on(tmp_path: Path) -> None:
    sweep = start_sweep("--trials", "4", "--seeds", "0", "--jobs", "1", steps=2000)
    finished = lambda: len(list(Path("runs").glob("sweep-*/trials/*/*/summary.json")))  # noqa: E731
    wait_until(lambda: finished() >= 2, "no two trials have ended")
    sweep.kill()
    sweep.communicate()
    folder = find_folder()
    wait_until(lambda: not find_trials(tmp_path), "trials run on")
    plan = read_plan(folder)
    before = {one.number: one for one in list_results(read_study(folder), plan.space) if one.state == DONE}
    assert before
    again = start("sweep", "--resume", str(folder))
    said, wrong = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, said + wrong
    results = list_results(read_study(folder), plan.space)
    assert {one.number: one for one in results if one.number in before} == before
    assert sum(one.state == DONE for one in results) == 4
    assert len([one for one in results if one.reason == LOST]) <= 1


# ----------------------------------------------------------------------------------------------------- the pool


@pytest.fixture
def pool() -> Iterator[TrialPool]:
    with TrialPool(2) as opened:
        yield opened


def receive_all(pool: TrialPool) -> list[TrialMessage]:
    """What trials say until all of them have ended; all evaluations are answered."""
    said = []
    until = time.monotonic() + PATIENCE
    while not pool.is_idle:
        assert time.monotonic() < until
        if (message := pool.receive(0.2)) is not None:
            said.append(message)
            if message.event == "evaluation":
                pool.answer(message.name, prune=message.name == "pruned")
    return said


def make_task(home: Path, name: str, **changes: Any) -> TrialTask:
    config = tiny_config(**{"out": str(home / name)} | changes)
    return TrialTask(name, json.loads(json.dumps(to_dict(config))), home / name)


def test_ends_of_trials(pool: TrialPool, tmp_path: Path) -> None:
    broken = make_task(tmp_path, "broken")
    broken = TrialTask("broken", dict(broken.config) | {"envs": -1}, broken.folder)
    pool.start(make_task(tmp_path, "pruned"))
    pool.start(broken)
    assert pool.is_full
    ends = {one.name: one for one in receive_all(pool) if one.event != "evaluation"}
    assert ends["pruned"].event == "ended"
    assert ends["pruned"].data["stopped"] == "callback: on_evaluation"
    assert ends["pruned"].data["steps"] < 4000
    assert ends["broken"].event == "failed"
    assert "envs must be" in ends["broken"].data["reason"]


def test_a_trial_that_dies_is_named(pool: TrialPool, tmp_path: Path) -> None:
    pool.start(make_task(tmp_path, "dies", steps=10**9))
    wait_until(lambda: find_trials(Path.cwd()), "it has not begun")
    os.kill(find_trials(Path.cwd())[0], signal.SIGKILL)
    ends = receive_all(pool)
    assert [one.event for one in ends] == ["failed"]
    assert "SIGKILL" in ends[0].data["reason"]
    assert (tmp_path / "dies" / LOG).exists()
