"""A run that was stopped and resumed is the run that never stopped, bit by bit; and nothing but the seed and the
settings that learning depends on changes what is learned."""

from __future__ import annotations

import itertools
import json
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import flashdqn
from conftest import tiny_config
from flashdqn import Run
from flashdqn.core import signals
from flashdqn.runs import checkpoint
from flashdqn.runs.tables import read_table
from flashdqn.show.report import RUN_PAGES
from flashdqn.training.loop import Loop

VARIANTS: dict[str, dict[str, Any]] = {
    "1-step, hard target": {},
    "3-step, soft target, spread ε": {
        "replay__n_step": 3,
        "learn__target_every": 0,
        "explore__schedule": "spread",
        "explore__end": 0.02,
    },
    "falling lr, exponential ε, AdamW": {
        "learn__lr_end": 1e-5,
        "learn__lr_over": 3000,
        "explore__schedule": "exponential",
        "learn__optimizer": "adamw",
        "learn__weight_decay": 0.01,
    },
    "prioritized, 2-step": {"replay__priority": 0.6, "replay__n_step": 2, "replay__beta_over": 3000},
    "planes, absolute moves, greedy, step cap": {
        "env__features": "grid",
        "env__actions": "absolute",
        "env__max_steps": 30,
        "env__start": "random",
        "network__channels": [4],
        "learn__bootstrap": "greedy",
    },
}

TIMES = ("seconds", "steps_per_second", "memory_mb")


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUN_PAGES, "learning curve", lambda path: None)


@pytest.fixture(scope="module")
def unstopped(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """The run of a variant that never stopped, trained once."""
    runs: dict[str, Run] = {}

    def get(variant: str) -> Run:
        if variant not in runs:
            out = str(tmp_path_factory.mktemp("unstopped"))
            runs[variant] = flashdqn.train(tiny_config(out=out, **VARIANTS[variant]), progress=False)
        return runs[variant]

    return get


def rows(run: Path, name: str) -> list[dict[str, str]]:
    """A table without its time columns."""
    return [
        {k: v for k, v in row.items() if k not in TIMES and not k.startswith("us_")}
        for row in read_table(run / name)
    ]


def everything(run: Path) -> dict[str, Any]:
    """All that the newest checkpoint holds, as bytes, but for the clock."""
    point = checkpoint.list_checkpoints(run / "checkpoints", with_state=True)[-1]
    weights, state, counters = checkpoint.load_checkpoint(point, with_state=True)
    tensors = {f"weights.{k}": v for k, v in weights.items()} | state
    assert any(name.startswith("learner.optimizer") for name in tensors) or counters["updates"] == 0
    for part in ("weights.", "learner.target.", "ring.obs", "env.", "generator.explore", "generator.replay"):
        assert any(name.startswith(part) for name in tensors), f"{part} is in no checkpoint"
    content = {name: (x.dtype, tuple(x.shape), x.numpy().tobytes()) for name, x in tensors.items()}
    return content | {k: v for k, v in counters.items() if k not in ("seconds", "time", "evaluations")}


def assert_same_end(stopped: Path, never: Path) -> None:
    mine, other = everything(stopped), everything(never)
    assert mine.keys() == other.keys()
    assert [name for name in mine if mine[name] != other[name]] == []


def assert_same_tables(stopped: Path, never: Path) -> None:
    for name in ("metrics.csv", "evaluations.csv"):
        assert rows(stopped, name) == rows(never, name)


def interrupt_when(
    monkeypatch: pytest.MonkeyPatch, moment: Callable[[Loop], bool], times: int = 1, kind: int = signal.SIGINT
) -> None:
    """Send this process a signal at the end of the first iteration for which `moment` holds."""
    iterate, fired = Loop.iterate, []

    def wrapped(self: Loop) -> None:
        iterate(self)
        if not fired and moment(self):
            fired.append(True)
            for _ in range(times):
                signal.raise_signal(kind)

    monkeypatch.setattr(Loop, "iterate", wrapped)


def after(step: int) -> Callable[[Loop], bool]:
    return lambda loop: loop.parts.counts.transitions >= step


def after_an_end(loop: Loop) -> bool:
    return loop.parts.counts.transitions >= 1200 and bool(loop.parts.ring.ended.any())


MOMENTS: dict[str, Callable[[Loop], bool]] = {
    "before learning starts": after(60),
    "in the middle of a window": after(1250),
    "at a checkpoint": after(2000),
    "at an evaluation and a checkpoint": after(3000),
    "just after an episode's end": after_an_end,
}


def pairs(moments: Iterable[Any], each: int) -> list[tuple[str, Any]]:
    """Every moment with the first variant, and `each` of them, in turn, with the others."""
    first, *others = VARIANTS
    turn = itertools.cycle(moments)
    return [(first, m) for m in moments] + [(v, next(turn)) for v in others for _ in range(each)]


@pytest.mark.parametrize(("variant", "moment"), pairs(MOMENTS, 3))
def test_interrupted_and_resumed_is_never_stopped(
    variant: str,
    moment: str,
    unstopped: Callable[[str], Run],
    tiny_run: Callable[..., Run],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        interrupt_when(patch, MOMENTS[moment])
        stopped = tiny_run(**VARIANTS[variant])
    assert not stopped.finished
    assert stopped.summary["steps"] < 4000
    resumed = flashdqn.train(resume=stopped.path, progress=False)
    never = unstopped(variant)
    assert resumed.finished
    assert resumed.summary["weights"] == never.summary["weights"]
    assert_same_end(resumed.path, never.path)
    assert_same_tables(resumed.path, never.path)
    best = [json.loads((run.path / "checkpoints" / "best.json").read_text()) for run in (resumed, never)]
    parts = ("checkpoint", "score", "weights")
    assert [best[0][part] for part in parts] == [best[1][part] for part in parts]


@pytest.mark.parametrize(("variant", "stop"), pairs([60, 1250, 2000], 1))
def test_a_larger_budget_goes_on_as_if_it_had_been_there(
    variant: str, stop: int, unstopped: Callable[[str], Run], tiny_run: Callable[..., Run]
) -> None:
    first = tiny_run(steps=stop, **VARIANTS[variant])
    resumed = flashdqn.train(resume=first.path, steps=4000, progress=False)
    never = unstopped(variant)
    assert resumed.path == first.path
    assert_same_end(resumed.path, never.path)
    # The first session's end has a row and an evaluation of its own, and cuts one window in two.
    end = first.summary["steps"]
    windows = [row for row in rows(never.path, "metrics.csv") if int(row["step"]) > end][1:]
    assert rows(resumed.path, "metrics.csv")[-len(windows) :] == windows
    evaluations = [row for row in rows(resumed.path, "evaluations.csv") if int(row["step"]) != end]
    assert evaluations == [row for row in rows(never.path, "evaluations.csv") if int(row["step"]) != end]


def test_resuming_twice(
    unstopped: Callable[[str], Run], tiny_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = "3-step, soft target, spread ε"
    with monkeypatch.context() as patch:
        interrupt_when(patch, after(900))
        path = tiny_run(**VARIANTS[variant]).path
    with monkeypatch.context() as patch:
        interrupt_when(patch, after(2500), kind=signal.SIGTERM)
        assert not flashdqn.train(resume=path, progress=False).finished
    flashdqn.train(resume=path, progress=False)
    assert_same_end(path, unstopped(variant).path)
    assert_same_tables(path, unstopped(variant).path)


def test_resuming_from_an_older_checkpoint_forgets_what_came_after(
    unstopped: Callable[[str], Run], tiny_run: Callable[..., Run]
) -> None:
    variant = "1-step, hard target"
    run = tiny_run(**VARIANTS[variant])
    older = checkpoint.list_checkpoints(run.path / "checkpoints", with_state=True)[-2]
    flashdqn.train(resume=older, progress=False)
    assert_same_end(run.path, unstopped(variant).path)
    assert_same_tables(run.path, unstopped(variant).path)


def test_a_refused_resume_changes_nothing(run_copy: Path) -> None:
    before = {path: path.read_bytes() for path in run_copy.rglob("*") if path.is_file()}
    older = checkpoint.list_checkpoints(run_copy / "checkpoints", with_state=True)[-2]
    for wanted in (run_copy, older):
        with pytest.raises(flashdqn.ConfigError, match="has used its budget"):
            flashdqn.train(resume=wanted, steps=100, progress=False)
    with pytest.raises(flashdqn.ConfigError, match="not envs"):
        flashdqn.train(resume=run_copy, steps=9000, envs=8, progress=False)
    assert {path: path.read_bytes() for path in run_copy.rglob("*") if path.is_file()} == before


def test_a_run_killed_while_summing_up_can_be_finished(run_copy: Path) -> None:
    before = {name: rows(run_copy, name) for name in ("metrics.csv", "evaluations.csv")}
    for name in ("summary.json", "curve.png", "report.html"):
        (run_copy / name).unlink()
    run = flashdqn.train(resume=run_copy, progress=False)
    assert run.finished
    assert (run_copy / "report.html").exists()
    assert {name: rows(run_copy, name) for name in before} == before


def test_a_second_signal_stops_at_once(
    tiny_run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    previous = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        patch.setattr(signals, "CTRL_C_ECHO", 0.0)
        interrupt_when(patch, after(2100), times=2)
        with pytest.raises(KeyboardInterrupt):
            tiny_run()
    assert signal.getsignal(signal.SIGINT) is previous
    (path,) = (tmp_path / "runs").iterdir()
    assert flashdqn.train(resume=path, progress=False).finished


def test_the_seed_decides(unstopped: Callable[[str], Run], tiny_run: Callable[..., Run]) -> None:
    first = unstopped("1-step, hard target")
    again, other = tiny_run(), tiny_run(seed=1)
    assert_same_end(again.path, first.path)
    assert_same_tables(again.path, first.path)
    assert again.summary["evaluation"] == first.summary["evaluation"]
    assert again.summary["weights"] == first.summary["weights"] != other.summary["weights"]


@pytest.mark.parametrize(
    "change",
    [
        {"runtime__warmup": True},
        {"log__every": 100},
        {"log__every": 0},
        {"eval__every": 0},
        {"eval__every": 300, "eval__episodes": 9},
        {"log__checkpoint_every": 0},
        {"log__checkpoint_every": 150},
        {"log__tensorboard": True},
        {"max_time": 3600.0},
    ],
    ids=str,
)
def test_what_is_only_watched_does_not_change_what_is_learned(
    change: dict[str, Any], unstopped: Callable[[str], Run], tiny_run: Callable[..., Run]
) -> None:
    assert tiny_run(**change).summary["weights"] == unstopped("1-step, hard target").summary["weights"]


def test_nothing_depends_on_the_clock(
    unstopped: Callable[[str], Run], tiny_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks: Iterator[float] = (float(1000 * n) for n in itertools.count(1))
    with monkeypatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: next(ticks))
        run = tiny_run()
    assert run.summary["seconds"] > 1e5
    assert_same_end(run.path, unstopped("1-step, hard target").path)
    assert_same_tables(run.path, unstopped("1-step, hard target").path)


def test_global_randomness_is_neither_used_nor_touched(
    unstopped: Callable[[str], Run], tiny_run: Callable[..., Run]
) -> None:
    torch.manual_seed(99)
    before = torch.get_rng_state()
    run = tiny_run()
    assert torch.equal(torch.get_rng_state(), before)
    assert run.summary["weights"] == unstopped("1-step, hard target").summary["weights"]


def test_max_time_spans_sessions(tiny_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock of one second per look: the run stops by time, and a resumed one counts on."""
    ticks: Iterator[float] = (float(n) for n in itertools.count(1))
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    run = tiny_run(steps=None, max_time=500.0)
    assert run.finished
    with pytest.raises(flashdqn.ConfigError, match="--max-time"):
        flashdqn.train(resume=run.path, progress=False)
    more = flashdqn.train(resume=run.path, max_time=2 * run.summary["seconds"], progress=False)
    assert more.summary["steps"] > run.summary["steps"]
    assert more.summary["seconds"] > run.summary["seconds"]
