"""Episode figures against a count on one's fingers."""

from __future__ import annotations

import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from toy_envs import Chain

from flashdqn.core.errors import EnvError
from flashdqn.core.types import Step
from flashdqn.training.metrics import EpisodeMeans, EpisodeMetrics

CPU = torch.device("cpu")
NAMES = ("score", "color")


class MetricsTwin:
    """A list of finished episodes, and one of running ones."""

    def __init__(self, num_envs: int) -> None:
        self.rewards: list[list[float]] = [[] for _ in range(num_envs)]
        self.over = [False] * num_envs
        self.finished: list[tuple[float, int, list[float]]] = []
        self.transitions = self.episodes = 0

    def observe(self, step: Step, outcomes: Tensor) -> None:
        for env, rewards in enumerate(self.rewards):
            if self.over[env]:  # this row only starts a new episode
                self.over[env] = False
                continue
            rewards.append(float(step.reward[env]))
            self.transitions += 1
            if step.terminated[env] or step.truncated[env]:
                self.finished.append((sum(rewards), len(rewards), outcomes[env].tolist()))
                self.episodes += 1
                self.over[env] = True
                rewards.clear()

    def read(self) -> dict[str, float]:
        episodes, self.finished = self.finished, []
        rows = [(total, length, *outcomes) for total, length, outcomes in episodes]
        names = ("return", "length", *NAMES)
        if not rows:
            return {"episodes": 0, **dict.fromkeys(names, math.nan)}
        means = (sum(column) / len(rows) for column in zip(*rows, strict=True))
        return {"episodes": len(rows), **dict(zip(names, means, strict=True))}


def flatten_means(means: EpisodeMeans) -> dict[str, float]:
    return {"episodes": means.episodes, "return": means.return_, "length": means.length, **means.outcomes}


def random_steps(num_envs: int, count: int, chance: float, seed: int) -> list[tuple[Step, Tensor, Tensor]]:
    """Step, which rows only start anew, and outcomes: nonsense where no episode ended, as the contract allows."""
    dice = random.Random(seed)
    over = [False] * num_envs
    steps = []
    for _ in range(count):
        was_reset = torch.tensor(over)
        kinds = [0 if o or dice.random() >= chance else dice.choice((1, 2)) for o in over]
        reward = torch.tensor([0.0 if o else float(dice.randint(-3, 3)) for o in over])
        kind = torch.tensor(kinds)
        outcomes = torch.tensor([[float(dice.randint(0, 9)) for _ in NAMES] for _ in over])
        outcomes[kind == 0] = torch.tensor(dice.choice((math.nan, math.inf, 1e30)))
        steps.append((Step(torch.zeros(num_envs, 1), reward, kind == 1, kind == 2), was_reset, outcomes))
        over = [k > 0 for k in kinds]
    return steps


@settings(max_examples=60, deadline=None)
@given(
    num_envs=st.integers(1, 6),
    count=st.integers(1, 40),
    chance=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_every_window_equals_the_twin(
    num_envs: int, count: int, chance: float, seed: int, data: st.DataObject
) -> None:
    metrics, twin = EpisodeMetrics(num_envs, NAMES, CPU), MetricsTwin(num_envs)
    totals = torch.zeros(2, dtype=torch.int64)
    reports = data.draw(st.sets(st.integers(0, count - 1)), label="reports after")
    resumes = data.draw(st.sets(st.integers(0, count - 1), max_size=2), label="resumed after")
    for number, (step, was_reset, outcomes) in enumerate(random_steps(num_envs, count, chance, seed)):
        metrics.observe(step, was_reset, outcomes, totals)
        twin.observe(step, outcomes)
        assert totals.tolist() == [twin.transitions, twin.episodes]
        if number in resumes:
            state = {name: tensor.clone() for name, tensor in metrics.state_dict().items()}
            metrics = EpisodeMetrics(num_envs, NAMES, CPU)
            metrics.load_state_dict(state)
        if number in reports:
            assert flatten_means(metrics.read()) == pytest.approx(twin.read(), nan_ok=True)
    assert flatten_means(metrics.read()) == pytest.approx(twin.read(), nan_ok=True)


def test_by_hand_on_a_chain() -> None:
    """Three states, always to the right: two steps to the end, then one row that is no transition."""
    env = Chain(num_envs=2, num_states=3)
    env.reset(0)
    metrics, totals = EpisodeMetrics(2, env.outcome_names, CPU), torch.zeros(2, dtype=torch.int64)
    was_reset = torch.zeros(2, dtype=torch.bool)
    seen = []
    for _ in range(6):
        step = env.step(torch.ones(2, dtype=torch.int64))
        metrics.observe(step, was_reset, env.outcomes, totals)
        was_reset = step.terminated | step.truncated
        seen.append(totals.tolist())
    assert seen == [[2, 0], [4, 2], [4, 2], [6, 2], [8, 4], [8, 4]]
    # "steps" is the environment's own count of the length, and must agree
    assert metrics.read() == EpisodeMeans(4, 1.0, 2.0, {"score": 1.0, "steps": 2.0})


def test_a_window_without_episodes_has_no_means() -> None:
    metrics = EpisodeMetrics(3, NAMES, CPU)
    read = metrics.read()
    assert read.episodes == 0
    assert all(math.isnan(value) for value in (read.return_, read.length, *read.outcomes.values()))
    assert tuple(read.outcomes) == NAMES


def test_an_outcome_may_not_take_the_name_of_a_figure_of_ours() -> None:
    for name in ("length", "loss", "mean_score", "us_act"):
        with pytest.raises(EnvError, match=name):
            EpisodeMetrics(2, ("score", name), torch.device("cpu"))
