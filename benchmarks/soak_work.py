"""What `soak.py` lets run, each in a process of its own that writes down how large it is.

python benchmarks/soak_work.py long FOLDER SECONDS       one training, a line every few seconds
python benchmarks/soak_work.py turns FOLDER SECONDS      train, resume, evaluate, report; a line after each turn
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import flashdqn
from flashdqn.cli import main as cli
from flashdqn.compute.cache_folder import name_cache_folder
from flashdqn.config.running import LogConfig

SAMPLES = "samples.jsonl"
PAUSE = float(os.environ.get("SOAK_PAUSE", "10"))  # seconds between two lines of the long training
KINDS = {"weights.safetensors": "weights", "state.safetensors": "states", "metrics.csv": "metrics"}


def measure_process() -> dict[str, float]:
    """Memory, Python's own objects, handles, threads and children of this process."""
    rollup = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    memory = {line.split(":")[0]: int(line.split()[1]) for line in rollup.splitlines()[1:]}
    tasks = list(Path("/proc/self/task").iterdir())
    children = [(task / "children").read_text(encoding="ascii").split() for task in tasks]
    return {
        "rss_mb": memory["Rss"] / 1024,
        "heap_mb": memory["Anonymous"] / 1024,
        "python_blocks": float(sys.getallocatedblocks()),
        "handles": float(len(os.listdir("/proc/self/fd"))),  # noqa: PTH208 - opens one less
        "threads": float(len(tasks)),
        "children": float(sum(map(len, children))),
    }


def measure_files(folder: Path) -> dict[str, float]:
    """Bytes of a run folder by kind, and of the kernel cache."""
    sizes = dict.fromkeys(["weights", "states", "metrics", "events", "other", "cache"], 0.0)
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # renamed or removed meanwhile
            if path.is_file():
                kind = "events" if path.name.startswith("events.") else KINDS.get(path.name, "other")
                sizes[kind] += path.stat().st_size
    with contextlib.suppress(OSError):
        sizes["cache"] = float(
            sum(path.stat().st_size for path in name_cache_folder().rglob("*") if path.is_file())
        )
    return {f"{name}_bytes": size for name, size in sizes.items()}


def write_sample(folder: Path, started: float, **more: float) -> None:
    """One line of measurements."""
    sample = {
        "seconds": time.perf_counter() - started,
        **measure_process(),
        **measure_files(folder / "runs"),
        **more,
    }
    with (folder / SAMPLES).open("a", encoding="utf-8") as file:
        file.write(json.dumps(sample) + "\n")


def train_long(folder: Path, seconds: float) -> None:
    """One training with everything that writes: evaluations, checkpoints by steps and by time, events, reports."""
    started, over = time.perf_counter(), threading.Event()

    def watch() -> None:
        while not over.wait(PAUSE):
            write_sample(folder, started)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    log: dict[str, Any] = {"log.checkpoint_every": 250_000, "log.every": 10_000}
    if hasattr(LogConfig(), "checkpoint_minutes"):
        log["log.checkpoint_minutes"] = 1.0
    settings = {"runtime.threads": 1, "eval.every": 250_000, "eval.episodes": 50, "out": str(folder / "runs")}
    budget = {"steps": 10**12, "max_time": seconds}
    run = flashdqn.train("snake-flood", progress=False, **settings, **log, **budget)
    over.set()
    watcher.join()
    until = (run.path / "metrics.csv").stat().st_mtime - time.time() + time.perf_counter() - started
    (folder / "run.json").write_text(json.dumps({"path": str(run.path), "until": until}), encoding="utf-8")


def take_turns(folder: Path, seconds: float) -> None:
    """Short trainings with worker processes, one after another, as a notebook or a sweep has them."""
    started, turn = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        take_turn(folder / "runs")
        gc.collect()
        turn += 1
        write_sample(folder, started, turn=turn)


def take_turn(out: Path) -> None:
    """Train with workers, resume, play, report; then the folder goes."""
    settings = {"env.vectorization": "async", "env.workers": 2, "envs": 8, "learn.starts": 500}
    log = {"eval.every": 1000, "eval.episodes": 5, "log.every": 500, "log.checkpoint_every": 1000}
    run = flashdqn.train("gym:CartPole-v1", progress=False, steps=2000, out=str(out), **settings, **log)
    flashdqn.train(resume=run.path, progress=False, steps=4000)
    agent = flashdqn.load(run.path)
    agent.evaluate(10)
    with contextlib.redirect_stdout(io.StringIO()):
        cli.dispatch_command(["report", str(run.path)])
    shutil.rmtree(run.path)


if __name__ == "__main__":
    {"long": train_long, "turns": take_turns}[sys.argv[1]](Path(sys.argv[2]), float(sys.argv[3]))
