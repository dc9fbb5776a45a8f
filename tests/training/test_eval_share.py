"""Evaluations keep to their share of the time, and change nothing of what is learned."""

from __future__ import annotations

import functools
import math
import os
import signal
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_evaluate import HEAD, Timetable, right

import flashdqn
from conftest import tiny_config
from flashdqn import Config, Run
from flashdqn.config import EvalConfig
from flashdqn.core.errors import ConfigError
from flashdqn.runs.tables import read_evaluations
from flashdqn.training import eval_share, evaluator
from flashdqn.training.eval_share import ALWAYS, FEWEST_GAMES, EvaluationShare
from flashdqn.training.evaluate import evaluate
from flashdqn.training.progress import Silent

#: Training time before an evaluation is due, and the time that it would take; whole numbers add up exactly.
COSTS = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 300)), max_size=40)


@given(costs=COSTS, share=st.sampled_from([0.125, 0.25, 0.5, 1.0]))
def test_they_never_take_more(costs: list[tuple[int, int]], share: float) -> None:
    """A simulated training beside a twin in fractions that remembers everything."""
    limit = EvaluationShare(share)
    history: list[tuple[str, Fraction]] = []  # what each evaluation came to, and its time
    now = Fraction(0)
    for training, cost in costs:
        now += training
        began = limit.may_begin(float(now))
        assert began == may_begin_twin(history, Fraction(share), now)
        if not began:
            limit.note_skipped()
            history.append(("skipped", Fraction(0)))
            continue
        took = Fraction(min(cost, limit.find_allowance(float(now))))
        complete = took == cost
        history.append(("complete" if complete else "cut off", took))
        now += took
        if complete:
            limit.note_complete(float(took))
        else:
            limit.note_skipped(float(took))
        assert sum(took for _, took in history) <= max(Fraction(ALWAYS), Fraction(share) * now)
    assert limit.skipped == sum(what != "complete" for what, _ in history)


def may_begin_twin(history: list[tuple[str, Fraction]], share: Fraction, now: Fraction) -> bool:
    if share == 1:
        return True
    left = max(Fraction(2), share * now) - sum(took for _, took in history)
    needed = Fraction(0)
    for what, took in history:
        if what == "complete":
            needed = took * Fraction(3, 2)
        elif what == "cut off":
            needed = max(needed, 2 * took)
    return left > 0 and needed + 2 * needed / Fraction(3, 2) <= left  # two more at the end


@given(cost=st.floats(0.01, 30), every=st.floats(0.1, 60))
def test_they_do_happen(cost: float, every: float) -> None:
    """Whatever one takes: if the training is long enough, evaluations come again and again."""
    limit, now, done = EvaluationShare(0.1), 0.0, 0
    while now < 40 * (cost + every) / 0.1:
        now += every
        if limit.may_begin(now):
            took = min(cost, limit.find_allowance(now))
            now += took
            if took == cost:
                done += 1
                limit.note_complete(took)
            else:
                limit.note_skipped(took)
        else:
            limit.note_skipped()
    assert done >= 3


@given(
    games=st.integers(1, 500), usual=st.integers(1, 500), cost=st.floats(0.0, 100.0), total=st.floats(0, 1e4)
)
def test_the_last_one_plays_as_many_games_as_there_is_time_for(
    games: int, usual: int, cost: float, total: float
) -> None:
    limit = EvaluationShare(0.1)
    limit.note_complete(cost)
    planned = limit.plan_games(games, usual, total)
    assert min(FEWEST_GAMES, games) <= planned <= games
    allowed = max(ALWAYS, (0.1 * total - cost) / 2)
    each = cost / usual
    if planned > FEWEST_GAMES:
        assert planned * each <= allowed * (1 + 1e-9)
    if planned < games:
        assert games * each > allowed * (1 - 1e-9)


def test_one_means_no_limit() -> None:
    limit = EvaluationShare(1.0)
    limit.note_complete(1e6)
    assert limit.may_begin(0.0)
    assert limit.find_allowance(0.0) == limit.find_last_allowance(0.0) == math.inf
    assert limit.plan_games(100, 100, 0.0) == 100


def test_a_resumed_run_knows_what_evaluations_take() -> None:
    limit, other = EvaluationShare(0.1), EvaluationShare(0.1)
    limit.note_complete(3.0)
    limit.note_skipped()
    other.load(limit.to_json())
    assert other == limit
    for damaged in (None, [], {"spent": math.nan}, {"needed": "3"}, {"skipped": -1}, {"needed": 10**400}):
        other.load(damaged)
    assert other == limit


@pytest.mark.parametrize("share", [0, -0.1, 1.5, math.nan, "much"])
def test_a_share_is_above_zero_and_at_most_one(share: Any) -> None:
    with pytest.raises(ConfigError, match=r"eval\.max_share must"):
        EvalConfig(max_share=share)


class Recorder(Silent):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a training says aloud."""
    shown = Recorder()
    monkeypatch.setattr(flashdqn.api, "_choose_display", lambda _: shown)
    return shown.notes


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., Config]:
    """A tiny training with some settings changed."""
    return functools.partial(tiny_config, out=str(tmp_path / "runs"))


def allow(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """All evaluations of a short training together may take this long."""
    monkeypatch.setattr(eval_share, "ALWAYS", seconds)


@pytest.mark.parametrize("noisy", [False, True], ids=["plain", "noisy"])
def test_skipped_evaluations_change_no_weight(
    noisy: bool, tiny: Callable[..., Config], notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = functools.partial(tiny, network__noisy=noisy)
    whole = flashdqn.train(tiny(eval__max_share=1.0))
    assert [row.step // 1500 for row in read_evaluations(whole.path)] == [1, 2, 2]
    allow(0.0, monkeypatch)
    less = flashdqn.train(tiny(eval__max_share=1e-9))
    assert less.summary["weights"] == whole.summary["weights"]
    assert less.summary["skipped_evaluations"] == 2
    (last,) = read_evaluations(less.path)  # which always happens
    assert last == read_evaluations(whole.path)[-1]
    assert less.summary["evaluation"]["episodes"] == whole.summary["evaluation"]["episodes"]
    (said,) = (note for note in notes if "skipped" in note)  # once
    assert "--eval.max-share" in said


def test_one_that_takes_too_long_is_cut_off(
    tiny: Callable[..., Config], notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(1e-6, monkeypatch)
    run = flashdqn.train(tiny(eval__max_share=1e-9))
    assert run.summary["skipped_evaluations"] == 2
    assert any("it was not over after" in note for note in notes)
    assert len(read_evaluations(run.path)) == 1


def test_one_that_is_due_at_the_end_is_the_last_one(
    tiny: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(0.0, monkeypatch)
    run = flashdqn.train(tiny(eval__max_share=1e-9, steps=4500), progress=False)
    assert run.summary["skipped_evaluations"] == 2  # not that at 4,500
    assert len(read_evaluations(run.path)) == 1


def test_a_resumed_run_goes_on_counting(tiny: Callable[..., Config], monkeypatch: pytest.MonkeyPatch) -> None:
    allow(0.0, monkeypatch)
    run = flashdqn.train(tiny(eval__max_share=1e-9), progress=False)
    more = flashdqn.train(resume=run.path, steps=7000, progress=False)
    assert more.summary["skipped_evaluations"] == 4


def test_after_a_training_by_time_fewer_games_are_played(
    tiny: Callable[..., Config], notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if one evaluation of 40 games had taken 40 times what each of the last two may take."""

    def plan(self: EvaluationShare, games: int, usual: int, total: float) -> int:
        self.needed = 60.0 * self.find_last_allowance(total)
        return planned(self, games, usual, total)

    planned = EvaluationShare.plan_games
    monkeypatch.setattr(EvaluationShare, "plan_games", plan)
    config = tiny(eval__episodes=40, eval__max_share=0.1, max_time=0.3)
    run = flashdqn.train(config)
    assert read_evaluations(run.path)[-1].episodes == FEWEST_GAMES
    assert run.summary["evaluation"]["episodes"] == FEWEST_GAMES
    assert [note.split(" plays")[0] for note in notes if "plays 10 of 40 games" in note] == [
        "The last evaluation",
        "The best checkpoint",
    ]


def test_games_that_go_on_are_cut_off_when_enough_have_ended() -> None:
    env = Timetable([1] * FEWEST_GAMES + [40_000])
    result = evaluate(env, right, HEAD, seed=0, patience=0.0)
    assert (result.episodes, result.unfinished, env.steps) == (FEWEST_GAMES, 1, 32)


@pytest.mark.parametrize(("ended", "steps"), [(FEWEST_GAMES, 128), (FEWEST_GAMES - 1, 928)])
def test_it_waits_longer_where_hardly_any_game_has_ended(
    ended: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that goes on by a second in each step, and that is looked at in every 32nd step."""
    env = Timetable([1] * ended + [40_000] * 5)
    monkeypatch.setattr("time.perf_counter", lambda: float(env.steps))
    env.steps = 0
    result = evaluate(env, right, HEAD, seed=0, patience=100.0)
    assert (result.episodes, result.unfinished, env.steps) == (ended, 5, steps)


def test_a_signal_is_no_skip(tiny_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation that a signal cuts off is owed, not skipped: the resumed run does it."""
    played = evaluator.evaluate

    def interrupted(*arguments: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return played(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(evaluator, "evaluate", interrupted)
        stopped = tiny_run(eval__max_share=0.1)
    assert not stopped.finished
    assert stopped.summary["skipped_evaluations"] == 0
    done = flashdqn.train(resume=stopped.path, progress=False)
    assert len(read_evaluations(done.path)) == 3
