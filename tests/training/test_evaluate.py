"""Evaluation: the first game of every board, whole, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor
from toy_envs import CPU, Chain, Crossing, MaskedBandit

from flashdqn.core.contract import ObsSpec
from flashdqn.core.errors import EnvError
from flashdqn.core.types import Step
from flashdqn.learn.heads import ScalarHead
from flashdqn.training.evaluate import ASK_EVERY, evaluate

HEAD = ScalarHead(1.0)


class Timetable:
    """Board i's first game takes `lengths[i]` steps; every later game takes one and scores −1000.

    A step of the first game earns 1, of later ones −50. Action 1 is the only one that earns anything.
    Outcomes are NaN except for the boards whose game ended in the last step, as the contract allows.
    """

    name = "timetable"
    num_actions = 2
    obs_spec = ObsSpec((1,), torch.float32)
    device = CPU
    mask: Tensor | None = None

    def __init__(self, lengths: list[int], outcome_names: tuple[str, ...] = ("score", "won")) -> None:
        self.lengths, self.outcome_names = torch.tensor(lengths), outcome_names
        self.num_envs = len(lengths)
        self.outcomes = torch.full((self.num_envs, len(outcome_names)), math.nan)
        self.steps = 0

    def reset(self, seed: int) -> Tensor:
        self.steps = 0
        self.played = torch.zeros(self.num_envs, dtype=torch.int64)
        self.games = torch.zeros(self.num_envs, dtype=torch.int64)
        self.over = torch.zeros(self.num_envs, dtype=torch.bool)
        return torch.zeros(self.num_envs, 1)

    def step(self, action: Tensor) -> Step:
        self.steps += 1
        self.played = torch.where(self.over, 0, self.played + 1)
        first = self.games == 0
        reward = torch.where(first, 1.0, -50.0) * (action == 1) * ~self.over
        ended = torch.where(first, self.played == self.lengths, self.played == 1) & ~self.over
        figures = {
            "score": torch.where(first, 10.0 * self.lengths, -1000.0),
            "won": (self.lengths > 2).float(),
        }
        self.outcomes = torch.full((self.num_envs, len(self.outcome_names)), math.nan)
        for column, name in enumerate(self.outcome_names):
            self.outcomes[ended, column] = figures[name][ended]
        self.games += ended
        self.over = ended
        odd = torch.arange(self.num_envs) % 2 == 1
        return Step(torch.zeros(self.num_envs, 1), reward, ended & odd, ended & ~odd)

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        pass


def right(obs: Tensor) -> Tensor:
    """Prefers action 1."""
    return torch.tensor([0.0, 1.0]).expand(len(obs), 2)


@pytest.mark.parametrize(
    "lengths",
    [[1, 1, 1], [1, 2, 6], [1, 70], [ASK_EVERY], [ASK_EVERY + 1, 1], [2 * ASK_EVERY, 3, 3, 3]],
    ids=str,
)
def test_each_board_counts_once_whatever_its_length(lengths: list[int]) -> None:
    """Boards that are done early go on to other games, whose figures must not show."""
    env = Timetable(lengths)
    result = evaluate(env, right, HEAD, seed=0)
    mean = sum(lengths) / len(lengths)
    assert result.episodes == len(lengths)
    assert result.mean_length == pytest.approx(mean)
    assert result.mean_return == pytest.approx(mean)
    assert result.mean_score == pytest.approx(10 * mean)
    assert result.outcomes == pytest.approx({"won": sum(n > 2 for n in lengths) / len(lengths)})
    assert env.steps == math.ceil(max(lengths) / ASK_EVERY) * ASK_EVERY  # it asks rarely, and stops in time


def test_the_error_of_the_score_is_its_standard_error() -> None:
    result = evaluate(Timetable([1, 2, 6]), right, HEAD, seed=0)
    variance = sum((score - 30) ** 2 for score in (10, 20, 60)) / 2
    assert result.score_error == pytest.approx(math.sqrt(variance / 3))
    assert evaluate(Timetable([4]), right, HEAD, seed=0).score_error == 0.0


def test_without_a_score_the_return_is_the_score() -> None:
    result = evaluate(Timetable([1, 3], outcome_names=("won",)), right, HEAD, seed=0)
    assert result.mean_score == result.mean_return == 2.0
    assert result.outcomes == {"won": 0.5}
    bare = evaluate(Timetable([1, 3], outcome_names=()), right, HEAD, seed=0)
    assert bare.mean_score == 2.0
    assert bare.outcomes == {}


def test_the_result_is_plain_data() -> None:
    data = evaluate(Timetable([1, 3]), right, HEAD, seed=0).to_dict()
    assert list(data) == [
        "episodes",
        "unfinished",
        "mean_score",
        "score_error",
        "mean_return",
        "mean_length",
        "outcomes",
    ]
    assert all(type(value) in (int, float, dict) for value in data.values())


def test_it_plays_greedily() -> None:
    chain = Chain(num_envs=3, num_states=5)
    result = evaluate(chain, right, HEAD, seed=0)
    assert (result.mean_score, result.mean_length) == (1.0, 4.0)
    left = evaluate(chain, lambda obs: -right(obs), HEAD, seed=0)
    assert (left.mean_score, left.mean_length) == (
        0.0,
        20.0,
    )  # walks against the wall until the clock ends it
    assert evaluate(Crossing("terminated"), right, HEAD, seed=0).mean_length == 1.0


def test_it_never_takes_an_illegal_action() -> None:
    """The illegal action of each context has the largest Q; the environment raises if it is taken."""
    env = MaskedBandit(num_envs=8, time_limit=5)
    result = evaluate(env, lambda obs: 10 * (~env.legal[obs.argmax(1)]).float(), HEAD, seed=0)
    assert result.mean_length == 5.0
    assert result.outcomes["steps"] == 5.0


def test_a_game_without_a_legal_action_is_refused() -> None:
    env = Timetable([5, 70])
    env.mask = torch.tensor([[True, True], [False, False]])
    with pytest.raises(EnvError, match="1 of 2 evaluation games had none"):
        evaluate(env, lambda obs: torch.zeros(2, 2), HEAD, seed=0)


def test_a_mask_means_nothing_after_the_end() -> None:
    class Emptied(Timetable):
        def step(self, action: Tensor) -> Step:
            return super().step(action)._replace(mask=~self.over[:, None].expand(-1, 2))

    assert evaluate(Emptied([1, 3]), lambda obs: torch.zeros(2, 2), HEAD, seed=0).episodes == 2


def test_the_same_seed_gives_the_same_result_on_a_used_environment() -> None:
    env = MaskedBandit(num_envs=8, time_limit=7)
    first, other = evaluate(env, zeros, HEAD, seed=3), evaluate(env, zeros, HEAD, seed=4)
    before = torch.get_rng_state()
    assert evaluate(env, zeros, HEAD, seed=3) == first
    assert evaluate(MaskedBandit(num_envs=8, time_limit=7), zeros, HEAD, seed=3) == first
    assert first != other
    assert torch.equal(before, torch.get_rng_state())


def zeros(obs: Tensor) -> Tensor:
    return torch.zeros(len(obs), 3)


def test_no_graph_is_recorded() -> None:
    def online(obs: Tensor) -> Tensor:
        assert not torch.is_grad_enabled()
        return right(obs)

    evaluate(Chain(), online, HEAD, seed=0)


def test_games_cut_off_by_the_limit_are_counted_apart() -> None:
    result = evaluate(Timetable([1, 3, 50]), right, HEAD, seed=0, step_limit=10)
    assert (result.episodes, result.unfinished) == (2, 1)
    assert result.mean_length == 2.0
    assert result.mean_score == 20.0


def test_when_no_game_ends_there_is_no_score() -> None:
    result = evaluate(Timetable([50, 60]), right, HEAD, seed=0, step_limit=10)
    assert (result.episodes, result.unfinished) == (0, 2)
    assert math.isnan(result.mean_score)
    data = result.to_json()
    assert data["mean_score"] is None
    assert data["outcomes"] == {"won": None}
