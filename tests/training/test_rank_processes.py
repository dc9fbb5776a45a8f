"""Ranks as a user meets them: started by `--ranks` or torchrun, stopped, killed, resumed, refused."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from conftest import tiny_flags
from flashdqn.cli.launch_ranks import find_free_port
from flashdqn.compute.ranks import has_ended
from flashdqn.runs.checkpoint import list_checkpoints
from flashdqn.runs.records import SUMMARY_FILE

#: Long enough for a busy machine.
SECONDS = 180
FLASHDQN = [sys.executable, "-m", "flashdqn"]
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def train(*words: str, out: Path, **changes: Any) -> list[str]:
    flags = tiny_flags(out=str(out), log__game=False, **changes)
    return ["train", "snake", *flags, *words]


def run(*words: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    known = os.environ | (environment or {})
    return subprocess.run(
        [*FLASHDQN, *words], env=known, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def read_summary(run_folder: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((run_folder / SUMMARY_FILE).read_text(encoding="utf-8"))
    return summary


@contextmanager
def training(out: Path, command: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A training that has saved its first checkpoint."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    try:
        wait_until(lambda: process.poll() is not None or bool(find_saved(out)))
        assert process.poll() is None, process.communicate()[0]
        yield process
    finally:
        ranks = find_ranks(process.pid)
        for number in (process.pid, *ranks):
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def find_saved(out: Path) -> list[Path]:
    return [point for path in out.glob("snake-*") for point in list_checkpoints(path / "checkpoints", True)]


def find_ranks(parent: int) -> dict[int, int]:
    """The processes below a launcher that are ranks, and which."""
    found = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            above = int((entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            words = (entry / "environ").read_bytes().split(b"\0")
            rank = [int(word[5:]) for word in words if word.startswith(b"RANK=")]
            if above == parent and rank:
                found[int(entry.name)] = rank[0]
    return found


def wait_until(is_so: Any) -> None:
    until = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


def only(out: Path) -> Path:
    (found,) = out.glob("snake-*")
    return found


# ---- training and resuming


def test_one_two_and_one_rank_go_on_with_the_same_run(tmp_path: Path) -> None:
    done = run(*train(out=tmp_path, steps=1000))
    assert done.returncode == 0, done.stderr
    folder = only(tmp_path)
    for ranks, steps in ((2, 2000), (1, 3000)):
        done = run("train", "--resume", str(folder), "--steps", str(steps), "--ranks", str(ranks))
        assert done.returncode == 0, done.stderr
        assert "the replay and the boards are dealt out again" in " ".join(done.stdout.split())
    summary = read_summary(folder)
    assert 3000 <= summary["steps"] < 3016
    assert summary["updates"] == int((summary["steps"] - 200) * 0.0625)  # of all ranks, exactly
    with (folder / "metrics.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) // 500 for row in rows] == [1, 2, 3, 4, 5, 6]
    assert all(float(row["memory_mb"]) > 0 for row in rows)


@pytest.mark.parametrize("algo", ["dqn", "rainbow", "pqn"])
def test_two_ranks_that_were_stopped_come_to_the_same_weights(tmp_path: Path, algo: str) -> None:
    """Bit by bit, because the boards, the replay and all random numbers are saved."""
    fixed = {"algo": algo, "replay__beta_over": 2000}  # else the schedule would follow the budget
    whole = run(*train("--ranks", "2", out=tmp_path / "whole", steps=1500, **fixed))
    half = run(*train("--ranks", "2", out=tmp_path / "half", steps=700, **fixed))
    assert whole.returncode == half.returncode == 0, whole.stderr + half.stderr
    folder = only(tmp_path / "half")
    again = run("train", "--resume", str(folder), "--steps", "1500", "--ranks", "2")
    assert again.returncode == 0, again.stderr
    assert "dealt out again" not in again.stdout
    first, second = read_summary(only(tmp_path / "whole")), read_summary(folder)
    assert first["weights"] == second["weights"]
    assert first["ranks"]["count"] == 2
    assert len(second["ranks"]["waited_seconds"]) == 2


def test_a_batch_of_each_rank(tmp_path: Path) -> None:
    done = run(
        *train("--ranks", "2", "--learn.batch-per-rank", out=tmp_path, steps=500, learn__batch_size=31)
    )
    assert done.returncode == 0, done.stderr
    assert read_summary(only(tmp_path))["batch"] == 62


# ---- signals and deaths


@pytest.mark.parametrize(
    ("number", "target", "code"),
    [
        (signal.SIGTERM, "launcher", 75),
        (signal.SIGINT, "launcher", 130),
        (signal.SIGHUP, "launcher", 75),
        (signal.SIGTERM, "rank 0", 75),
        (signal.SIGUSR1, "rank 1", 75),
    ],
)
def test_a_signal_to_any_of_them_saves_once(tmp_path: Path, number: int, target: str, code: int) -> None:
    with training(tmp_path, [*FLASHDQN, *train("--ranks", "2", out=tmp_path, steps=10**8)]) as process:
        ranks = find_ranks(process.pid)
        assert sorted(ranks.values()) == [0, 1]
        named = {f"rank {rank}": pid for pid, rank in ranks.items()} | {"launcher": process.pid}
        os.kill(named[target], number)
        said = process.communicate(timeout=SECONDS)[0]
    assert process.returncode == code, said
    assert said.count("everything is saved") == 1
    assert "Traceback" not in said
    assert all(has_ended(pid) for pid in ranks)
    folder = only(tmp_path)
    assert read_summary(folder)["steps"] == int(list_checkpoints(folder / "checkpoints", True)[-1].name)
    steps = read_summary(folder)["steps"] + 200
    again = run("train", "--resume", str(folder), "--steps", str(steps), "--ranks", "2")
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("target", ["rank 0", "rank 1", "launcher"])
def test_nothing_is_left_running_after_a_kill(tmp_path: Path, target: str) -> None:
    with training(tmp_path, [*FLASHDQN, *train("--ranks", "2", out=tmp_path, steps=10**8)]) as process:
        ranks = find_ranks(process.pid)
        named = {f"rank {rank}": pid for pid, rank in ranks.items()} | {"launcher": process.pid}
        os.kill(named[target], signal.SIGKILL)
        wait_until(lambda: all(has_ended(pid) for pid in ranks))
        said = process.communicate(timeout=SECONDS)[0]
    assert "Traceback" not in said
    folder = only(tmp_path)
    if target == "launcher":  # the ranks get a SIGTERM from the system
        assert said.count("everything is saved") == 1
    else:
        assert process.returncode == 1
        name = (
            "Rank 0 was ended by SIGKILL"
            if target == "rank 0"
            else f"Rank 1 (process {named[target]}) has ended"
        )
        assert name in said
        assert said.count(f"go on with: flashdqn train --resume {folder}") == 1
    steps = int(list_checkpoints(folder / "checkpoints", True)[-1].name) + 200
    again = run("train", "--resume", str(folder), "--steps", str(steps))
    assert again.returncode == 0, again.stderr


def test_a_closed_terminal_leaves_nothing_running(tmp_path: Path) -> None:
    leader, follower = os.openpty()
    command = [*FLASHDQN, *train("--ranks", "2", out=tmp_path, steps=10**8)]
    own_terminal = "import fcntl, os, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    program = f"{own_terminal}os.execv({command[0]!r}, {command!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=follower, stdout=follower, stderr=follower
    )
    os.close(follower)
    os.set_blocking(leader, False)

    def saved() -> bool:
        with suppress(BlockingIOError, OSError):
            os.read(leader, 1 << 16)  # or the terminal would be full
        return bool(find_saved(tmp_path)) or process.poll() is not None

    try:
        wait_until(saved)
        ranks = find_ranks(process.pid)
        assert len(ranks) == 2
        os.close(leader)  # the system sends SIGHUP
        wait_until(lambda: process.poll() is not None and all(has_ended(pid) for pid in ranks))
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 75
    assert read_summary(only(tmp_path))["stopped"] == "SIGHUP"


def test_torchrun_goes_on_after_a_rank_has_died(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "2"]
    command = [*torchrun, "--master-port", str(find_free_port()), "-m", "flashdqn"]
    with training(tmp_path, [*command, *train(out=tmp_path, steps=30_000)]) as process:
        ranks = find_ranks(process.pid)
        os.kill(next(pid for pid, rank in ranks.items() if rank == 1), signal.SIGKILL)
        said = process.communicate(timeout=SECONDS)[0]
    assert process.returncode == 0, said
    summary = read_summary(only(tmp_path))  # one run, not two
    assert summary["finished"]
    assert summary["steps"] >= 30_000
    assert summary["updates"] == int((summary["steps"] - 200) * 0.0625)
    assert not list(tmp_path.glob(".torchrun-*"))


# ---- bad input


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--ranks", "0"], "--ranks must be at least 1, and is 0"),
        (["--ranks", "32"], "32 ranks need at least 32 boards, and --envs is 16"),
        (["--ranks", "3"], "16 boards do not divide among 3 ranks: use --envs 15 or 18"),
        (["--ranks", "2", "--learn.batch-size", "33"], "A batch of 33 does not divide among 2 ranks"),
        (
            ["--ranks", "2", "--demos.source", "random", "--demos.episodes", "4"],
            "Demonstrations are for one rank",
        ),
        (["--ranks", "2", "--algo", "pqn", "--pqn.rollout", "3", "--pqn.minibatches", "48"], "rollout of 24"),
    ],
)
def test_what_cannot_be_shared_is_refused(tmp_path: Path, words: list[str], sentence: str) -> None:
    done = run(*train(*words, out=tmp_path / "runs", learn__batch_size=32))
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("place", "words", "sentence"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, [], "lacks MASTER_ADDR, MASTER_PORT"),
        (
            dict(zip(NAMES, ("0", "2", "0", "2", "127.0.0.1", "1"), strict=True)),
            ["--ranks", "2"],
            "leave out --ranks",
        ),
        (dict(zip(NAMES, ("2", "2", "0", "1", "127.0.0.1", "1"), strict=True)), [], "does not exist"),
        (dict(zip(NAMES, ("one", "2", "0", "1", "127.0.0.1", "1"), strict=True)), [], "must be numbers"),
    ],
)
def test_a_launcher_that_says_nonsense(
    tmp_path: Path, place: dict[str, str], words: list[str], sentence: str
) -> None:
    done = run(*train(*words, out=tmp_path), environment=place)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_ranks_with_other_settings_are_refused_by_one_sentence(tmp_path: Path) -> None:
    port, processes = str(find_free_port()), []
    for rank in range(2):
        place = dict(zip(NAMES, (str(rank), "2", str(rank), "2", "127.0.0.1", port), strict=True))
        words = train("--learn.lr", f"{rank + 1}e-4", out=tmp_path / "runs")
        processes.append(
            subprocess.Popen([*FLASHDQN, *words], env=os.environ | place, stderr=subprocess.PIPE, text=True)
        )
    said = "".join(process.communicate(timeout=SECONDS)[1] for process in processes)
    assert [process.returncode for process in processes] == [2, 2]
    assert "rank 1 has another learn.lr" in said
    assert said.count("flashdqn:") == 1
    assert not (tmp_path / "runs").exists()
