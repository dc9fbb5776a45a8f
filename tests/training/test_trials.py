"""How long a trial of a plan lasts, by a clock that only its rounds move."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from flashdqn.compute.ranks import ALONE
from flashdqn.training import autotune


class Rounds:
    """An engine whose rounds take the given seconds, the last of them again and again."""

    largest = 1

    def __init__(self, *seconds: float) -> None:
        self.seconds, self.now, self.done = seconds, 100.0, 0
        learner = SimpleNamespace(device=torch.device("cpu"))
        collector = SimpleNamespace(env=object())
        self.parts = SimpleNamespace(
            learner=learner,
            collector=collector,
            sampler=SimpleNamespace(draw_again=lambda: None),
            ranks=ALONE,
        )

    def learn(self, due: int) -> None:
        """One round."""
        self.now += self.seconds[min(self.done, len(self.seconds) - 1)]
        self.done += 1


def time_rounds(monkeypatch: pytest.MonkeyPatch, engine: Any, best: float = math.inf) -> float:
    monkeypatch.setattr(autotune, "time", SimpleNamespace(perf_counter=lambda: engine.now))
    return autotune.time_updates(engine, best)


def test_a_trial_ends_when_its_best_time_no_longer_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Rounds(0.01, 0.004)
    assert time_rounds(monkeypatch, engine) == pytest.approx(0.004)
    assert engine.now == pytest.approx(100.014 + autotune.PATIENCE, abs=0.0041)


def test_a_trial_goes_on_while_its_best_time_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Rounds(*(0.02 * 0.95**k for k in range(100)))
    time_rounds(monkeypatch, engine)
    assert engine.now == pytest.approx(100 + autotune.TRIAL_SECONDS, abs=0.02)


@pytest.mark.parametrize(("best", "rounds"), [(0.001, autotune.FEW), (0.0026, 21)])
def test_a_hopeless_candidate_is_left_after_a_few_rounds(
    monkeypatch: pytest.MonkeyPatch, best: float, rounds: int
) -> None:
    engine = Rounds(0.005)
    assert time_rounds(monkeypatch, engine, best) == pytest.approx(0.005)
    assert abs(engine.done - rounds) <= (best > 0.001)


def test_one_round_is_played_even_if_there_is_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autotune, "TRIAL_SECONDS", 0.0)
    engine = Rounds(0.5)
    assert time_rounds(monkeypatch, engine) == pytest.approx(0.5)
    assert engine.done == 1
