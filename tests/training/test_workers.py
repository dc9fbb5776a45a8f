"""Workers that collect by themselves: real processes that play, die, hang, and end with the training."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import flashdqn
from conftest import start
from flashdqn import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.replay.ring import Kind
from flashdqn.runs import checkpoint
from flashdqn.runs.tables import read_table
from flashdqn.show.report import RUN_PAGES
from flashdqn.training.workers import processes
from flashdqn.training.workers.channel import Channel

#: Look at what has arrived, and leave it there.
PEEK = socket.MSG_PEEK | socket.MSG_DONTWAIT

SMALL: dict[str, Any] = {
    "steps": 600,
    "envs": 4,
    "device": "cpu",
    "train_ratio": 0.5,
    "env.collect": "async",
    "env.workers": 2,
    "network.hidden": [16],
    "replay.capacity": 20_000,
    "learn.batch_size": 16,
    "learn.starts": 50,
    "explore.over": 300,
    "eval.every": 0,
    "eval.episodes": 2,
    "log.tensorboard": False,
    "log.every": 200,
    "log.game": False,
    "runtime.mode": "eager",
    "runtime.threads": 1,
    "runtime.warmup": False,
}


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUN_PAGES, "learning curve", lambda path: None)


def small(out: Path, name: str = "gym:worker_envs:make_telling", **changes: Any) -> Config:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return apply_settings(base_config(name), SMALL | {"out": str(out)} | named)


def list_children() -> list[int]:
    """All processes that descend from this one."""
    parents: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = file.read_text(encoding="utf-8").rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(file.parent.name)] = int(parent)
    found, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        grown = bool(more)
        found |= more
    return sorted(found - {os.getpid()})


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it has not happened"
        time.sleep(0.02)


def read_state(run: Path) -> dict[str, Tensor]:
    newest = checkpoint.list_checkpoints(run / "checkpoints", with_state=True)[-1]
    return dict(checkpoint.load_checkpoint(newest, with_state=True)[1])


def check_ring(state: dict[str, Tensor]) -> int:
    """Every transition in a ring of `Telling` games is as that game plays; returns their number."""
    obs, kind, reward = state["ring.obs"], state["ring.kind"], state["ring.reward"]
    action, mask, count = state["ring.action"], state["ring.mask"], 0
    seen = set()
    for row in range(int(state["ring.head"])):
        for column in range(obs.shape[1]):
            if kind[row, column] == Kind.RESET:
                continue
            (episode, salt, at, _), following = obs[row, column].tolist(), obs[row + 1, column].tolist()
            chosen = int(action[row, column])
            assert following == [episode, salt, at + 1, chosen]
            assert float(reward[row, column]) == pytest.approx(at + 0.1 * chosen)
            assert mask[row, column].tolist() == [True, at % 3 != 0]
            assert mask[row, column, chosen]
            if at + 1 == 7:
                assert kind[row, column] == (Kind.TERMINATED if episode % 2 == 0 else Kind.TRUNCATED)
            else:
                assert kind[row, column] in (Kind.STEP, Kind.TRUNCATED)
            assert (episode, salt, at) not in seen
            seen.add((episode, salt, at))
            count += 1
    return count


def test_what_was_played_is_in_the_ring_and_the_ratio_is_exact(tmp_path: Path) -> None:
    before = list_children()
    run = flashdqn.train(small(tmp_path), progress=False)
    assert run.finished
    steps = run.summary["steps"]
    assert run.summary["updates"] == (steps - 50) // 2
    assert check_ring(read_state(run.path)) == steps
    told = run.summary["collectors"]
    assert told["workers"] == 2
    assert told["replaced_workers"] == 0
    assert told["most_lag"] <= told["max_lag"]
    assert not told["reproducible"]
    rows = read_table(run.path / "metrics.csv")
    assert all(float(row["longest_lag"]) >= float(row["policy_lag"]) >= 0 for row in rows)
    assert all(float(row["length"]) == 7 for row in rows)
    assert all(float(row["score"]) == pytest.approx(21.3, abs=0.4) for row in rows)
    wait_until(lambda: list_children() == before)


@pytest.mark.parametrize("mood", ["crash", "hang", "raise"])
def test_a_worker_that_fails_is_replaced_and_named(
    tmp_path: Path, mood: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / mood).touch()
    kwargs = {"moods": str(tmp_path), "when": 90, "seconds": 0.002}
    config = small(tmp_path / "runs", steps=5000, env__kwargs=kwargs, env__timeout=1.0, env__workers=4)
    run = flashdqn.train(config, progress=False)
    told = run.summary["collectors"]
    assert told["replaced_workers"] == 1
    (name,) = told["replaced"]
    said = [record.getMessage() for record in caplog.records if "was replaced" in record.getMessage()]
    reason = {"crash": "exit code 7", "hang": "has not answered for 1 s", "raise": "RuntimeError: a bad mood"}
    assert len(said) == 1
    assert said[0].startswith(f"{name} was replaced".capitalize())
    assert reason[mood] in said[0]
    assert run.summary["updates"] == (run.summary["steps"] - 50) // 2
    assert check_ring(read_state(run.path)) == run.summary["steps"]


def test_a_worker_whose_end_is_told_twice_at_once_is_replaced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its channel closes and the nursery tells of it, and both are found by one look."""
    together = []

    def wait_for_both(sources: list[Any], seconds: float) -> list[Any]:
        ready = wait(sources, seconds)
        if any(isinstance(source, Channel) and not source.socket.recv(1, PEEK) for source in ready):
            together.append(wait(sources[:1], 20.0))
            ready = wait(sources, 0.0)
        return ready

    monkeypatch.setattr(processes, "wait", wait_for_both)
    (tmp_path / "crash").touch()
    kwargs = {"moods": str(tmp_path), "when": 90, "seconds": 0.002}
    config = small(tmp_path / "runs", steps=5000, env__kwargs=kwargs, env__workers=4)
    run = flashdqn.train(config, progress=False)
    assert any(together)
    assert run.summary["collectors"]["replaced_workers"] == 1
    assert check_ring(read_state(run.path)) == run.summary["steps"]


def test_an_environment_that_always_fails_ends_the_training_with_a_sentence(tmp_path: Path) -> None:
    kwargs = {"broken": True, "when": 2}
    before = list_children()
    with pytest.raises(EnvError, match=r"Worker \d of 2 failed: .* raised RuntimeError: broken \(in .*\)\."):
        flashdqn.train(small(tmp_path / "runs", env__kwargs=kwargs), progress=False)
    wait_until(lambda: list_children() == before)


def test_actions_of_old_weights_are_thrown_away(tmp_path: Path) -> None:
    kwargs = {"seconds": 0.001}
    config = small(tmp_path, steps=400, train_ratio=8.0, env__max_lag=64, env__kwargs=kwargs)
    run = flashdqn.train(config, progress=False)
    told = run.summary["collectors"]
    assert told["most_lag"] <= 64
    assert check_ring(read_state(run.path)) == run.summary["steps"]
    assert run.summary["updates"] == (run.summary["steps"] - 50) * 8


def test_rainbow_with_frames_of_a_screen(tmp_path: Path) -> None:
    """Noise, priorities, three steps, quantiles and stacks of frames, on images."""
    rainbow = {"network.noisy": True, "replay.priority": 0.5, "replay.n_step": 3, "learn.head": "quantile"}
    config = small(tmp_path, "gym:gym_envs:make_screen", steps=300, env__stack=3, env__kwargs={"limit": 5})
    config = apply_settings(config, {**rainbow, "network.torso": "cnn", "network.channels": [4]})
    run = flashdqn.train(config, progress=False)
    assert run.finished
    assert run.summary["updates"] == (run.summary["steps"] - 50) // 2


def test_a_stopped_training_goes_on_with_its_ring(tmp_path: Path) -> None:
    config = small(tmp_path)
    first = flashdqn.train(config, progress=False)
    again = flashdqn.train(resume=first.path, steps=1200, trust=True, progress=False)
    assert again.finished
    assert again.summary["updates"] == (again.summary["steps"] - 50) // 2
    assert check_ring(read_state(again.path)) == again.summary["steps"]
    assert again.summary["collectors"]["workers"] == 2


def start_endless(out: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """A training as a process, once its workers play; with its workers."""
    flags = ["--steps", "1000000000", "--envs", "4", "--env.workers", "2", "--env.collect", "async"]
    flags += ["--device", "cpu", "--learn.starts", "50", "--log.every", "200", "--eval.every", "0"]
    flags += ["--runtime.no-warmup", "--runtime.mode", "eager", "--eval.episodes", "2", "--out", str(out)]
    flags += ["--env.kwargs", json.dumps({"seconds": 0.001})]
    here = Path(__file__).parents[1] / "envs"
    process = start("train", "gym:worker_envs:make_telling", *flags, cwd=here)
    wait_until(
        lambda: any(read_table(run / "metrics.csv") for run in out.glob("*")) or process.poll() is not None
    )
    assert process.poll() is None, process.communicate()
    others = [child for child in list_children() if child != process.pid]
    assert len(others) >= 3, "a nursery and two workers"
    return process, others


def test_sigterm_saves_and_leaves_no_process(tmp_path: Path) -> None:
    process, others = start_endless(tmp_path)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 75, said
    wait_until(lambda: not any(Path(f"/proc/{other}").exists() for other in others), 10)
    (run,) = tmp_path.glob("*")
    assert check_ring(read_state(run)) > 0
    assert json.loads((run / "summary.json").read_text(encoding="utf-8"))["collectors"]["workers"] == 2


def test_workers_end_with_a_killed_learner(tmp_path: Path) -> None:
    process, others = start_endless(tmp_path)
    process.kill()
    process.communicate()
    wait_until(lambda: not any(Path(f"/proc/{other}").exists() for other in others), 15)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"learn__method": "pqn", "envs": 4}, "env.collect async needs a replay, and learn.method is pqn"),
        ({"env__normalize_reward": True}, "env.collect async needs env.normalize_reward off"),
        ({"demos__source": "expert", "demos__episodes": 3}, "env.collect async needs demos.source none"),
        ({"env__max_lag": 0}, "env.max_lag"),
        (
            {"env__max_lag": 15, "train_ratio": 2.0},
            "env.max_lag 15 is too small: 4 environments .* at least 16",
        ),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        small(tmp_path, **changes)


def test_an_object_of_this_program_is_refused() -> None:
    from worker_envs import Telling

    with pytest.raises(ConfigError, match="worker processes find by its name, and Telling is an object"):
        flashdqn.train(env=Telling(), steps=100, **{"env.collect": "async"}, progress=False)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_rows_are_copied_to_a_learner_on_a_gpu(tmp_path: Path) -> None:
    config = small(tmp_path, device="cuda", runtime__mode="auto", runtime__warmup=True)
    run = flashdqn.train(config, progress=False)
    assert run.summary["updates"] == (run.summary["steps"] - 50) // 2
    assert check_ring(read_state(run.path)) == run.summary["steps"]
