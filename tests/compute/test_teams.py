"""How many threads a team takes: by a clock that the test sets."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flashdqn.compute import threads as threading
from flashdqn.compute.native import Views
from flashdqn.compute.threads import KEPT, LONGEST, TRIES, Team, make_team


def play(team: Team, calls: int, seconds: dict[int, float], clock: list[float], amount: int = 1) -> list[int]:
    """So many calls that take so long by the number of threads."""
    sizes = []
    for _ in range(calls):
        sizes.append(team.start())
        clock[0] += seconds[sizes[-1]] * amount
        team.stop(amount)
    return sizes


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(threading.time, "perf_counter", lambda: now[0])
    return now


def test_takes_the_faster_size_and_looks_again(clock: list[float]) -> None:
    team, trials = Team(1, 4), 2 * TRIES
    assert play(team, trials, {1: 2.0, 4: 1.0}, clock) == [1, 4] * TRIES
    assert play(team, KEPT, {1: 2.0, 4: 1.0}, clock) == [4] * KEPT
    assert play(team, trials, {1: 2.0, 4: 9.0}, clock) == [1, 4] * TRIES  # a neighbor came
    assert play(team, KEPT, {1: 2.0, 4: 9.0}, clock) == [1] * KEPT


def test_tries_less_often_while_nothing_changes(clock: list[float]) -> None:
    team, trials, seconds = Team(1, 2), 2 * TRIES, {1: 1.0, 2: 9.0}
    for kept in (KEPT, 2 * KEPT, 4 * KEPT):
        assert play(team, trials + kept, seconds, clock) == [1, 2] * TRIES + [1] * kept
    seconds[2] = 0.5
    assert play(team, trials + KEPT, seconds, clock) == [1, 2] * TRIES + [2] * KEPT
    for _ in range(8):
        play(team, trials + team._kept, seconds, clock)
    assert team._kept == LONGEST


def test_a_few_calls_that_were_disturbed_do_not_decide(clock: list[float]) -> None:
    team = Team(1, 2)
    play(team, 2, {1: 2.0, 2: 50.0}, clock)
    play(team, 2 * TRIES - 2, {1: 2.0, 2: 1.0}, clock)
    assert team.start() == 2


def test_compares_by_the_amount_of_work(clock: list[float]) -> None:
    team = Team(1, 2)
    for call in range(2 * TRIES):  # one thread is always given more to do
        play(team, 1, {1: 1.0, 2: 2.0}, clock, amount=1 if call % 2 else 16)
    assert team.start() == 1


def test_what_was_asked_for_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "cores", lambda: 8)
    assert make_team(3).sizes == (3,)
    assert make_team(0).sizes == (1, 8)
    assert make_team(0).most == 8
    monkeypatch.setattr(threading, "cores", lambda: 1)
    assert make_team(0).sizes == (1,)


def test_views_are_of_the_tensors_that_come() -> None:
    views, first, second = Views(), torch.zeros(2), torch.ones(2)
    kept = views(first, second)
    first.fill_(5)
    assert views(first, second) is kept
    assert kept[0].tolist() == [5, 5]
    (other,) = views(second)
    assert np.shares_memory(other, second.numpy())
    assert views(second, first)[1].tolist() == [5, 5]
