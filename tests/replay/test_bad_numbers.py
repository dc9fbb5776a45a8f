"""The oldest number that is not finite, against a book of every step that was taken."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from flashdqn.core.contract import ObsSpec
from flashdqn.core.errors import BadNumbersError, DivergedError
from flashdqn.core.types import Batch, Step, Transition
from flashdqn.learn.divergence import DataOrigin, DivergenceWatch
from flashdqn.replay.bad_numbers import find_bad_number
from flashdqn.replay.ring import Ring

ENVS, SIZE = 3, 4


def play(
    steps: int, at: int, what: str, value: float = math.nan, capacity: int = 30
) -> tuple[Ring, int, list[int]]:
    """A ring after some steps of which one is spoiled, all transitions, and how many there were after each step."""
    ring = Ring(capacity, ENVS, ObsSpec((SIZE,), torch.float32), 2, torch.device("cpu"))
    ring.start(torch.zeros(ENVS, SIZE))
    total, totals = 0, [0]
    for k in range(1, steps + 1):
        obs, reward = torch.full((ENVS, SIZE), float(k)), torch.zeros(ENVS)
        if k == at:
            (obs[1] if what == "an observation" else reward[1:2])[-1] = value
        ended = torch.tensor([k % 3 == 0, k % 4 == 0, False])
        total += int((~ring.ended).sum())
        totals.append(total)
        ring.append(torch.zeros(ENVS, dtype=torch.int64), Step(obs, reward, ended, ended & False, None))
    return ring, total, totals


@pytest.mark.parametrize("what", ["an observation", "a reward"])
@pytest.mark.parametrize(("steps", "at"), [(1, 1), (5, 5), (5, 2), (25, 24), (25, 18), (41, 33)])
def test_it_is_dated_and_placed(what: str, steps: int, at: int) -> None:
    ring, total, totals = play(steps, at, what, -math.inf)
    bad = find_bad_number(ring)
    assert bad is not None
    assert (bad.what, bad.value, bad.env) == (what, -math.inf, 1)
    assert total - bad.later == totals[at]


def test_nothing_is_found_where_all_is_finite_or_overwritten() -> None:
    assert find_bad_number(play(5, 0, "a reward")[0]) is None
    assert find_bad_number(play(25, 3, "an observation")[0]) is None


def test_the_older_of_two_is_named() -> None:
    ring, _, _ = play(8, 4, "an observation")
    ring.reward[6, 2] = math.inf
    bad = find_bad_number(ring)
    assert bad is not None
    assert bad.what == "an observation"
    ring.reward[1, 2] = math.inf
    bad = find_bad_number(ring)
    assert bad is not None
    assert (bad.what, bad.env) == ("a reward", 2)


# ---- what is said of a loss


def make_watch(ring: Ring, total: int, given_rewards: bool = True) -> DivergenceWatch:
    watch = DivergenceWatch(torch.device("cpu"))
    watch.explain_by(DataOrigin("coins", ring, lambda: total, given_rewards))
    return watch


def look(watch: DivergenceWatch, reward: Tensor, obs: Tensor | None = None) -> None:
    obs = torch.zeros(2, SIZE) if obs is None else obs
    transition = Transition(obs, torch.zeros(2, dtype=torch.int64), reward, torch.ones(2), obs, None)
    batch = Batch(transition, torch.ones(2), torch.zeros(2, dtype=torch.int64))
    watch.look(torch.tensor(math.nan), batch, torch.tensor(7))


def test_the_environment_is_named_with_value_and_step() -> None:
    ring, total, totals = play(6, 4, "an observation")
    said = f"coins gave .*: an observation of environment 1 of 3 was nan at step {totals[4]}, and the replay holds"
    with pytest.raises(BadNumbersError, match=said):
        look(make_watch(ring, total), torch.zeros(2))


def test_returns_that_a_network_computed_are_not_the_environments() -> None:
    """PQN's batches hold returns: where the network is broken, they are NaN too."""
    ring, total, _ = play(6, 0, "a reward")
    with pytest.raises(DivergedError):
        look(make_watch(ring, total, given_rewards=False), torch.full((2,), math.nan))
    with pytest.raises(BadNumbersError, match="gradient step 7 holds 2 of 2 in reward"):
        look(make_watch(ring, total), torch.full((2,), math.nan))


def test_huge_numbers_need_another_scale_and_no_other_learning_rate() -> None:
    ring, total, _ = play(6, 0, "a reward")
    for obs, reward, advice in (
        (1.0, 1.0, "smaller --learn.lr"),
        (1e30, 1.0, "observations are very large"),
        (1.0, -1e20, "rewards are very large"),
    ):
        with pytest.raises(DivergedError) as caught:
            look(make_watch(ring, total), torch.full((2,), reward), torch.full((2, SIZE), obs))
        assert advice in caught.value.advice
