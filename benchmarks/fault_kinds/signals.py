"""Signals: every one that may end a training, at every moment, for an own game and for Gymnasium's in this process
and in others.

A training runs in a process of its own, which sends itself (and its workers: the whole group) a signal at a
chosen moment. Afterwards the exit code must be right, nothing may be lost beyond the iteration in progress, nothing
printed but sentences, and the resumed run must end like one that was never stopped: with the same weights where the
game can be saved.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flashdqn
from fault_kinds.tally import Tally, scale_count, share_cases
from flashdqn.core.signals import STOP_SIGNALS, find_exit_code
from flashdqn.runs import checkpoint

STEPS, WHEN = 1600, 700
TINY = {
    "steps": STEPS,
    "envs": 8,
    "device": "cpu",
    "network.hidden": 16,
    "replay.capacity": 2000,
    "learn.batch-size": 32,
    "learn.starts": 200,
    "learn.target-every": 20,
    "explore.over": 1000,
    "train-ratio": 0.0625,
    "eval.every": 600,
    "eval.episodes": 4,
    "log.every": 300,
    "log.checkpoint-every": 500,
    "runtime.threads": 1,
}
GAMES = {
    "own game": ["snake", "--env.size", "6"],
    "Gymnasium": ["gym:CartPole-v1", "--env.vectorization", "sync"],
    "Gymnasium, in processes": ["gym:CartPole-v1", "--env.vectorization", "async", "--env.workers", "2"],
}
MOMENTS = ("start-up", "fill", "training", "evaluation", "checkpoint", "last games", "pages")
#: seconds after which a training that was told to end counts as one that hangs
PATIENCE = 120


def try_faults(effort: float, folder: Path) -> list[Tally]:
    """Each signal at each moment in each kind of game, or as many of them as the effort allows."""
    cases = list(itertools.product(GAMES, MOMENTS, STOP_SIGNALS))
    random.Random(5).shuffle(cases)
    cases = cases[: scale_count(len(cases), effort, least=3)]
    tallies = {moment: Tally(f"signal during {moment}") for moment in MOMENTS}
    endings: dict[str, str] = {}
    for number, (game, moment, name) in enumerate(share_cases(cases)):
        harm = try_signal(game, moment, name, folder / str(number), endings, folder)
        tallies[moment].check(not harm, f"{name.name} during {moment} of {game}: {harm}")
    return [tally for tally in tallies.values() if tally.tried]


def try_signal(
    game: str, moment: str, name: signal.Signals, out: Path, endings: dict[str, str], folder: Path
) -> str:
    """The harm that one signal does; empty if it does none."""
    out.mkdir(parents=True)
    words = [__file__, moment, name.name, str(out / "sent.json"), "train", *GAMES[game], *make_flags(out)]
    try:
        done = subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            start_new_session=True,
            check=False,
            env=make_environment(),
        )
    except subprocess.TimeoutExpired:
        return "it does not end"
    if "Traceback" in done.stderr or "Exception ignored" in done.stderr:
        return f"a traceback: {done.stderr[-300:]}"
    if done.returncode != find_exit_code(name):
        return f"exit code {done.returncode}: {done.stderr[-300:]}"
    runs = list((out / "runs").glob("*")) if (out / "runs").exists() else []
    if not runs:
        return "" if moment == "start-up" else "no run is left"
    return check_resumed(runs[0], json.loads((out / "sent.json").read_text()), game, endings, folder)


def check_resumed(run: Path, sent: int, game: str, endings: dict[str, str], folder: Path) -> str:
    """The harm that shows when a stopped run goes on."""
    if not (run / "summary.json").exists():
        return "no summary.json"
    if json.loads((run / "summary.json").read_text())["finished"]:
        return "summary.json says that it finished"
    points = checkpoint.list_checkpoints(run / "checkpoints", with_state=True)
    if not points or int(points[-1].name) < sent:
        return f"the newest checkpoint is {points[-1:]}, but the signal came at step {sent}"
    resumed = flashdqn.train(resume=run, progress=False)
    if not resumed.finished or resumed.summary["steps"] < STEPS:
        return f"the resumed run does not finish: {resumed.summary}"
    steps = [line.split(",")[0] for line in (run / "metrics.csv").read_text().splitlines()]
    if len(set(steps)) < len(steps):
        return f"metrics.csv has a row twice: {steps}"
    if game != "own game":  # Gymnasium's games cannot be saved: they begin again
        return ""
    if game not in endings:
        never = subprocess.run(
            [sys.executable, "-m", "flashdqn", "train", *GAMES[game], *make_flags(folder / "never")],
            capture_output=True,
            text=True,
            check=True,
            env=make_environment(),
        )
        endings[game] = next(line.split()[1] for line in never.stdout.splitlines() if "Weights" in line)
    return "" if resumed.summary["weights"] == endings[game] else "it has learned something else"


def make_flags(out: Path) -> list[str]:
    """The flags of a tiny training."""
    named = {**TINY, "out": out / "runs"}
    switches = ["--log.no-tensorboard", "--runtime.no-warmup", "--log.no-game"]
    return [word for name, value in named.items() for word in (f"--{name}", str(value))] + switches


def make_environment() -> dict[str, str]:
    """The environment variables of a training."""
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


# ---- in the process that is stopped


def run_and_signal(moment: str, name: str, note: Path, arguments: list[str]) -> None:
    """Run `flashdqn …` in this process, which sends a signal to its group at the moment."""
    from flashdqn.cli.main import main
    from flashdqn.training import evaluator, loop, session, summary

    sent: list[int] = []

    def send(step: int) -> None:
        if not sent:
            sent.append(step)
            note.write_text(json.dumps(step))
            os.killpg(os.getpgid(0), getattr(signal, name))

    def step_of(one: Any) -> int:
        return int(one.parts.counts.transitions)

    def before(owner: Any, what: str, due: Callable[..., int | None]) -> None:
        """Ask `due` before each call of a function: the step at which to send, or None."""
        inner = getattr(owner, what)

        def call(*given: Any, **named: Any) -> Any:
            if (step := due(*given)) is not None:
                send(step)
            return inner(*given, **named)

        setattr(owner, what, call)

    def when_late(one: Any, *_: Any) -> int | None:
        return step_of(one) if step_of(one) >= WHEN else None

    if moment == "start-up":
        before(session, "prepare_engine", lambda *_: 0)
    elif moment == "fill":
        before(loop.Loop, "iterate", lambda one: step_of(one) if step_of(one) >= 100 else None)
    elif moment == "training":
        before(loop.Loop, "learn", when_late)
    elif moment == "evaluation":
        before(evaluator, "evaluate", lambda *_: 600)
    elif moment == "checkpoint":
        saving: list[int] = []
        before(loop.Loop, "_write_checkpoint", lambda one, *_: saving.append(step_of(one)))
        before(os, "fsync", lambda *_: saving[0] if saving else None)
    elif moment == "last games":
        before(summary, "evaluate_checkpoint", lambda *_: STEPS)
    else:
        before(summary, "write_pages", lambda *_: STEPS)
    sys.argv = ["flashdqn", *arguments]
    sys.modules["__main__"].__file__ = "flashdqn"  # it is the command
    main()


if __name__ == "__main__":
    run_and_signal(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
