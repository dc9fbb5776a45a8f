"""`kill -9` at any moment: the folder stays usable, and the run ends as if nothing had happened."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import flashdqn
from conftest import start, tiny_config, tiny_flags
from flashdqn.runs import checkpoint
from flashdqn.runs.tables import read_table

ENDLESS = 1_000_000_000


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Poll until it holds, or the process is over."""
    while not condition() and process.poll() is None:
        time.sleep(0.005)


def last_step(run: Path) -> int:
    rows = read_table(run / "metrics.csv")
    return int(rows[-1]["step"]) if rows else 0


def kill_after(
    process: subprocess.Popen[str], run: Callable[[], Path | None], step: int, delay: float
) -> None:
    """Kill once a resumable checkpoint lies there and the table has come to `step`, and then a little later."""

    def ready() -> bool:
        path = run()
        return (
            path is not None
            and bool(checkpoint.list_checkpoints(path / "checkpoints", with_state=True))
            and last_step(path) >= step
        )

    wait_until(ready, process)
    time.sleep(delay)
    assert process.poll() is None, process.communicate()
    process.kill()
    process.communicate()


def test_killed_three_times_ends_like_one_that_lived(tmp_path: Path) -> None:
    chance = random.Random(20)
    out = tmp_path / "runs"

    def run() -> Path | None:
        return next(iter(out.glob("*")), None) if out.exists() else None

    settings = {"log__checkpoint_every": 600, "eval__every": 1700, "log__tensorboard": True}
    words = ["train", "snake", *tiny_flags(out=out, steps=ENDLESS, **settings)]
    reached = 0
    for _ in range(3):
        process = start(*words)
        kill_after(process, run, reached + chance.randrange(500, 2000), chance.random() * 0.05)
        path = run()
        assert path is not None
        for point in checkpoint.list_checkpoints(path / "checkpoints"):
            checkpoint.load_checkpoint(point, with_state=False)
        newest = checkpoint.list_checkpoints(path / "checkpoints", with_state=True)[-1]
        checkpoint.load_checkpoint(newest, with_state=True)
        flashdqn.load(path, "cpu")
        reached = last_step(path)
        words = ["train", "--resume", str(path)]
    assert path is not None
    steps = reached + 1000
    resumed = flashdqn.train(resume=path, steps=steps, progress=False)
    never = flashdqn.train(tiny_config(out=str(tmp_path / "never"), steps=steps, **settings), progress=False)
    assert resumed.finished
    assert resumed.summary["weights"] == never.summary["weights"]
    assert resumed.summary["evaluation"] == never.summary["evaluation"]
    for name in ("metrics.csv", "evaluations.csv"):
        text = (path / name).read_text(encoding="utf-8")
        lines = text.splitlines()
        assert text.endswith("\n")
        assert len({line.count(",") for line in lines}) == 1, "a row is torn"
        rows, expected = read_table(path / name), read_table(never.path / name)
        assert len(rows) == len(lines) - 1
        assert [row["step"] for row in rows] == [row["step"] for row in expected]
    assert not list((path / "checkpoints").glob(".*"))
