"""The scripts of docs/slurm.md, run as they stand there, with stand-ins for the commands of a scheduler."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from doc_pages import ROOT, Block, blocks

from conftest import tiny_flags
from flashdqn.cli.launch_ranks import find_free_port
from flashdqn.runs.checkpoint import list_checkpoints

PAGE = ROOT / "docs" / "slurm.md"
SECONDS = 180

#: Starts the tasks of a step as Slurm does, passes a signal on, and ends with the highest exit code.
SRUN = """#!{python}
import os, signal, subprocess, sys
words = sys.argv[1:]
assert words[:2] == ["--kill-on-bad-exit=0", "--wait=600"], words
count = int(os.environ["SLURM_NTASKS"])
tasks = [
    subprocess.Popen(words[2:], env=os.environ | {{"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)}})
    for rank in range(count)
]
signal.signal(signal.SIGTERM, lambda *_: [task.send_signal(signal.SIGTERM) for task in tasks])
open(os.environ["STEP_FILE"], "w").write(str(os.getpid()))
sys.exit(max(task.wait() for task in tasks))
"""

#: Knows one node, and notes what is put into the queue again.
SCONTROL = """#!{python}
import os, sys
if sys.argv[1:3] == ["show", "hostnames"]:
    print("127.0.0.1" if sys.argv[3] == "node[1-2]" else "unknown")
else:
    open(os.environ["QUEUE_FILE"], "a").write(" ".join(sys.argv[1:]) + "\\n")
"""

FLASHDQN = """#!/bin/bash
exec {python} -m flashdqn "$@"
"""


def find_block(language: str) -> Block:
    (found,) = (block for block in blocks(PAGE) if block.language == language)
    return found


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    """The environment of a job, with the stand-ins first among the programs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("flashdqn", FLASHDQN)):
        (programs / name).write_text(text.format(python=sys.executable), encoding="utf-8")
        (programs / name).chmod(0o755)
    words = ["snake", *tiny_flags(steps=10**8, log__game=False)]
    own = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "RUNS": str(tmp_path / "runs"),
        "TRAIN": " ".join(words),
        "RANKS": "2",
        "STEP_FILE": str(tmp_path / "step"),
        "QUEUE_FILE": str(tmp_path / "queue"),
        "MASTER_PORT": str(find_free_port()),
    }
    return os.environ | own


@contextmanager
def started(command: list[str], place: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        env=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def find_newest(runs: Path) -> int:
    """The step of the newest checkpoint; -1 if there is none. There is never more than one run."""
    found = list(runs.glob("snake-*"))
    assert len(found) <= 1
    points = list_checkpoints(found[0] / "checkpoints", True) if found else []
    return int(points[-1].name) if points else -1


def wait_for_step(process: subprocess.Popen[str], runs: Path, step: int) -> None:
    until = time.monotonic() + SECONDS
    while find_newest(runs) <= step:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.05)


def train_until_stopped(command: list[str], place: dict[str, str], who: str) -> tuple[int, str, int]:
    """Start it, send SIGTERM after a checkpoint more than there was; returns exit code, output and step."""
    runs = Path(place["RUNS"])
    with started(command, place) as process:
        wait_for_step(process, runs, find_newest(runs))
        number = int(Path(place["STEP_FILE"]).read_text(encoding="utf-8")) if who == "step" else process.pid
        os.kill(number, signal.SIGTERM)
        said = process.communicate(timeout=SECONDS)[0]
    return process.returncode, said, find_newest(runs)


def test_the_batch_script_saves_and_queues_and_goes_on(tmp_path: Path, place: dict[str, str]) -> None:
    script = tmp_path / "train.sbatch"
    script.write_text(find_block("bash").text, encoding="utf-8")
    numbers = {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_JOB_ID": "4711"}
    job = place | numbers | {"SLURM_JOB_NODELIST": "node[1-2]"}
    steps = []
    for turn in range(2):
        code, said, step = train_until_stopped(["bash", str(script)], job, "step")
        assert code == 75, said
        assert said.count("everything is saved") == 1
        assert Path(place["QUEUE_FILE"]).read_text(encoding="utf-8") == "requeue 4711\n" * (turn + 1)
        steps.append(step)
    assert 0 < steps[0] < steps[1]
    (run,) = Path(place["RUNS"]).glob("snake-*")
    assert json.loads((run / "summary.json").read_text(encoding="utf-8"))["ranks"]["count"] == 2


def test_a_mistake_is_not_queued_again(tmp_path: Path, place: dict[str, str]) -> None:
    script = tmp_path / "train.sbatch"
    script.write_text(find_block("bash").text, encoding="utf-8")
    numbers = {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_JOB_ID": "4711"}
    job = place | numbers | {"SLURM_JOB_NODELIST": "node[1-2]", "TRAIN": "snake --steps 100 --envs 3"}
    done = subprocess.run(
        ["bash", str(script)], env=job, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "3 boards do not divide among 2 ranks" in done.stderr
    assert not Path(place["QUEUE_FILE"]).exists()


def test_the_script_asks_slurm_for_a_warning() -> None:
    asked = [line.split()[1] for line in find_block("bash").text.splitlines() if line.startswith("#SBATCH")]
    assert {"--signal=TERM@120", "--requeue"} <= set(asked)


def test_the_job_of_kubernetes_saves_and_goes_on(place: dict[str, str]) -> None:
    job: dict[str, Any] = yaml.safe_load(find_block("yaml").text)
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    names = {item["name"] for item in container["env"]}
    assert names == {"RUNS", "RANKS", "TRAIN"}
    assert all(isinstance(item["value"], str) for item in container["env"])
    assert pod["restartPolicy"] == "Never"
    ignored = [
        rule["onExitCodes"]["values"]
        for rule in job["spec"]["podFailurePolicy"]["rules"]
        if "onExitCodes" in rule
    ]
    assert ignored == [[75], [2]]
    steps = []
    for _ in range(2):
        code, said, step = train_until_stopped([*container["command"], *container["args"]], place, "pod")
        assert code == 75, said
        steps.append(step)
    assert 0 < steps[0] < steps[1]
