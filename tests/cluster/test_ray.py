"""With a real Ray on this machine: workers that learn together, are killed, stopped; nothing runs on afterwards.

`make ray` runs them, in an environment that has Ray; `make test` does, too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import start, tiny_flags

if "FLASHDQN_RAY" not in os.environ:  # where it must be there, nothing is skipped
    pytest.importorskip("ray", reason="Ray is not installed: make ray")

PATIENCE = 240.0
#: long enough to be killed in the middle
LONG = {"steps": 150_000, "eval__every": 100_000, "log__every": 2000, "log__checkpoint_every": 10_000}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (tmp_path / "space.toml").write_text("[learn]\nlr = { low = 1e-5, high = 1e-2, log = true }\n")


@pytest.fixture(autouse=True)
def _end_what_is_left() -> Iterator[None]:
    """A test that fails leaves nothing running either."""
    yield
    for process in STARTED:
        if process.poll() is None:
            process.kill()
            process.communicate()
    STARTED.clear()


STARTED: list[subprocess.Popen[str]] = []


def run_flashdqn(*words: str) -> subprocess.Popen[str]:
    """Start `flashdqn …`, and end it with the test."""
    STARTED.append(start(*words))
    return STARTED[-1]


def find_family(parent: int) -> dict[int, str]:
    """All processes below one, with their titles."""
    parents: dict[int, int] = {}
    titles: dict[int, str] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                parents[int(process.name)] = int(fields[1])
                titles[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, ValueError):
            continue
    found: dict[int, str] = {}
    for pid in parents:
        above = pid
        while above in parents and above != parent:
            above = parents[above]
        if above == parent and pid != parent:
            found[pid] = titles[pid]
    return found


def is_alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(what: Callable[[], object], why: str) -> None:
    until = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < until, why
        time.sleep(0.1)


def start_training(*words: str, **settings: Any) -> subprocess.Popen[str]:
    return run_flashdqn("train", "snake", "--launcher", "ray", *words, *tiny_flags(**settings))


def list_runs() -> list[Path]:
    return sorted(Path("runs").glob("snake-*"))


def read_summary(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return found


def list_ray_checkpoints() -> list[Path]:
    return sorted(Path("runs/ray").glob("*/checkpoint_*/run.txt"))


def test_two_workers_learn_what_two_ranks_learn() -> None:
    with_ray = start_training("--workers", "2")
    said, wrong = with_ray.communicate(timeout=PATIENCE)
    assert with_ray.returncode == 0, said + wrong
    assert "evaluation: score" in said, "the terminal shows the training"
    assert list_ray_checkpoints()
    ranks = run_flashdqn("train", "snake", "--ranks", "2", "--out", "other", *tiny_flags())
    said, wrong = ranks.communicate(timeout=PATIENCE)
    assert ranks.returncode == 0, said + wrong
    (run,), (other,) = list_runs(), list(Path("other").glob("snake-*"))
    ours, theirs = read_summary(run), read_summary(other)
    assert ours["finished"]
    assert (ours["steps"], ours["weights"]) == (theirs["steps"], theirs["weights"])
    assert (run / "report.html").exists()


def test_a_killed_worker_is_replaced_and_the_training_goes_on() -> None:
    training = start_training("--workers", "2", **LONG)
    wait_until(list_ray_checkpoints, "Ray has no checkpoint")
    workers = [pid for pid, title in find_family(training.pid).items() if "RayTrainWorker" in title]
    assert len(workers) == 2
    os.kill(workers[-1], signal.SIGKILL)
    said, wrong = training.communicate(timeout=PATIENCE)
    assert training.returncode == 0, said + wrong
    assert "Traceback" not in wrong
    (run,) = list_runs()
    summary = read_summary(run)
    assert summary["finished"]
    assert summary["steps"] >= 150_000
    steps = [int(line.split(",")[0]) for line in (run / "metrics.csv").read_text().splitlines()[1:]]
    assert steps == sorted(set(steps)), "what was done twice is there once"


@pytest.fixture
def machines() -> Iterator[Any]:
    """A cluster of two machines with a core each, as two of Ray's nodes on this one."""
    from ray.cluster_utils import Cluster

    soon = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 500,
        "health_check_failure_threshold": 3,
    }
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": soon}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    yield cluster
    cluster.shutdown()


@pytest.mark.skipif("FLASHDQN_RAY_MACHINES" not in os.environ, reason="it takes minutes: docs/ray.md")
def test_a_training_goes_on_with_fewer_workers_when_a_machine_is_lost(machines: Any) -> None:
    second = machines.add_node(num_cpus=1)
    training = start_training("--workers", "1:2", "--ray-address", machines.address, **LONG)
    wait_until(list_ray_checkpoints, "Ray has no checkpoint")
    machines.remove_node(second, allow_graceful=False)
    said, wrong = training.communicate(timeout=PATIENCE)
    assert training.returncode == 0, said + wrong
    (run,) = list_runs()
    summary = read_summary(run)
    assert summary["finished"]
    assert summary["steps"] >= 150_000
    assert "ranks" in said
    steps = [int(line.split(",")[0]) for line in (run / "metrics.csv").read_text().splitlines()[1:]]
    assert steps == sorted(set(steps)), "what was done twice is there once"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_training_that_is_ended_leaves_nothing_running(number: signal.Signals) -> None:
    training = start_training("--workers", "2", **LONG | {"steps": 10**9})
    wait_until(list_ray_checkpoints, "Ray has no checkpoint")
    family = find_family(training.pid)
    assert any("RayTrainWorker" in title for title in family.values())
    training.send_signal(number)
    said, wrong = training.communicate(timeout=PATIENCE)
    wait_until(lambda: not any(map(is_alive, family)), f"they run on: {family}")
    if number == signal.SIGINT:
        assert training.returncode == 130, said + wrong
        assert "train --resume" in said
        assert "Traceback" not in wrong
        (run,) = list_runs()
        steps = read_summary(run)["steps"]
        again = run_flashdqn("train", "--resume", str(run), "--steps", str(steps + 5000))
        said, wrong = again.communicate(timeout=PATIENCE)
        assert again.returncode == 0, said + wrong
        assert read_summary(run)["steps"] >= steps + 5000


def test_a_mistake_on_a_worker_is_one_sentence() -> None:
    training = start_training("--workers", "1", replay__capacity=10**12)
    _, wrong = training.communicate(timeout=PATIENCE)
    assert training.returncode == 2, wrong
    assert "use --replay.capacity" in wrong
    assert wrong.count("\n") == 1
    assert "Traceback" not in wrong


def test_a_sweep_with_tune_and_a_killed_trial() -> None:
    words = ("--trials", "4", "--seeds", "1", "--jobs", "2", "--launcher", "ray")
    sweep = run_flashdqn(
        "sweep", "snake", "--space", "space.toml", *words, *tiny_flags(steps=60_000, eval__every=5000)
    )
    wait_until(lambda: list(Path("runs").glob("sweep-*/trials/*/snake-*/metrics.csv")), "no trial has begun")
    trial = next(pid for pid, title in find_family(sweep.pid).items() if "ray::ImplicitFunc" in title)
    os.kill(trial, signal.SIGKILL)
    said, wrong = sweep.communicate(timeout=PATIENCE)
    assert sweep.returncode == 0, said + wrong
    assert said.count(" done ") >= 3, said
    assert "its process on the cluster was lost" in said
    (folder,) = Path("runs").glob("sweep-*")
    assert (folder / "report.html").exists()
    if "It and the preset are trained again" in said:  # not if the preset itself was the best
        confirmed = json.loads((folder / "confirm.json").read_text())
        assert len(confirmed["runs"]) == 2
        assert all("score" in run for run in confirmed["runs"].values())
    else:
        assert "preset" in said
