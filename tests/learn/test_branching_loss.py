"""Learning with actions in branches, against a twin that loops over samples and branches."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from flashdqn.core.branching import ActionBranches
from flashdqn.core.errors import ConfigError
from flashdqn.core.types import Batch, Transition
from flashdqn.learn.bootstraps import Bootstrap, Munchausen, double_target, greedy_target
from flashdqn.learn.branching import BranchingBootstrap, BranchingHead, best_value
from flashdqn.learn.distributional import CategoricalHead, ImplicitQuantileHead, QuantileHead
from flashdqn.learn.heads import Head, ScalarHead
from flashdqn.learn.loss import td_loss
from flashdqn.networks.implicit import Fractions
from flashdqn.networks.outputs import BranchingDueling

ROWS, CPU = 5, torch.device("cpu")
MUNCHAUSEN = Munchausen(0.9, 0.5, -1.0)
BOOTSTRAPS: dict[str, Any] = {"greedy": greedy_target, "double": double_target, "munchausen": MUNCHAUSEN}


def draw_batch(sizes: tuple[int, ...], seed: int, masked: bool) -> tuple[Tensor, Tensor, Tensor, Batch]:
    """The online network's values of both observations, the target's of both, and a batch. Observations are numbers
    of rows in these tables."""
    generator = torch.Generator().manual_seed(seed)
    online, target = (torch.randn((2 * ROWS, sum(sizes)), generator=generator) for _ in range(2))
    reward, discount, weight = (torch.rand(ROWS, generator=generator) for _ in range(3))
    discount[0] = 0.0
    action = torch.randint(math.prod(sizes), (ROWS,), generator=generator)
    mask = torch.rand((2 * ROWS, sum(sizes)), generator=generator) < 0.5
    choices = ActionBranches(sizes).to_choices(action)
    mask[:ROWS].scatter_(1, ActionBranches(sizes).to_entries(choices), True)  # what was done was legal
    mask[:, torch.tensor([sum(sizes[:k]) for k in range(len(sizes))])] = True
    obs, next_obs = torch.arange(ROWS), torch.arange(ROWS, 2 * ROWS)
    masks = (mask[ROWS:], mask[:ROWS]) if masked else (None, None)
    transition = Transition(obs, action, reward, discount, next_obs, *masks)
    return online, target, mask, Batch(transition, weight, obs)


def twin_loss(name: str, sizes: tuple[int, ...], seed: int, masked: bool) -> tuple[float, list[float]]:
    """Loss and priorities, number by number."""
    online, target, mask, (step, weight, _, _) = draw_batch(sizes, seed, masked)
    begins = [sum(sizes[:k]) for k in range(len(sizes))]
    total, priorities = 0.0, []

    def soft(row: int, begin: int, size: int) -> dict[int, float]:
        """τ log π of the legal choices."""
        legal = [begin + k for k in range(size) if not masked or mask[row, begin + k]]
        top = max(float(target[row, k]) for k in legal)
        tau = MUNCHAUSEN.tau
        norm = sum(math.exp((float(target[row, k]) - top) / tau) for k in legal)
        return {k: float(target[row, k]) - top - tau * math.log(norm) for k in legal}

    for row in range(ROWS):
        rest, choices = int(step.action[row]), []
        for size in reversed(sizes):
            rest, one = divmod(rest, size)
            choices.insert(0, one)
        goals = []
        for begin, size, choice in zip(begins, sizes, choices, strict=True):
            after = ROWS + row
            legal = [begin + k for k in range(size) if not masked or mask[after, begin + k]]
            reward, discount = float(step.reward[row]), float(step.discount[row])
            if name == "munchausen":
                bonus = max(MUNCHAUSEN.clip, min(0.0, soft(row, begin, size)[begin + choice]))
                logs = soft(after, begin, size)
                value = sum(
                    math.exp(log / MUNCHAUSEN.tau) * (float(target[after, k]) - log)
                    for k, log in logs.items()
                )
                goals.append(reward + MUNCHAUSEN.alpha * bonus + discount * value)
                continue
            judge = online if name == "double" else target
            best = max(legal, key=lambda k: float(judge[after, k]))
            goals.append(reward + discount * float(target[after, best]))
        goal = sum(goals) / len(goals)
        errors = [float(online[row, begin + c]) - goal for begin, c in zip(begins, choices, strict=True)]
        losses = [0.5 * e * e if abs(e) < 1 else abs(e) - 0.5 for e in errors]
        total += float(weight[row]) * sum(losses) / len(losses)
        priorities.append(sum(map(abs, errors)) / len(errors))
    return total / ROWS, priorities


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(sorted(BOOTSTRAPS)),
    st.lists(st.integers(1, 4), min_size=2, max_size=4).map(tuple),
    st.integers(0, 1000),
    st.booleans(),
)
def test_the_loss_is_the_twins(name: str, sizes: tuple[int, ...], seed: int, masked: bool) -> None:
    online, target, _, batch = draw_batch(sizes, seed, masked)
    head = BranchingHead(ScalarHead(1.0), ActionBranches(sizes))
    bootstrap = BranchingBootstrap(BOOTSTRAPS[name])
    found = td_loss(lambda obs: online[obs], lambda obs: target[obs], batch, head, bootstrap)
    loss, priorities = twin_loss(name, sizes, seed, masked)
    torch.testing.assert_close(float(found.loss), loss, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.priority.tolist(), priorities, rtol=1e-4, atol=1e-5)


HEADS: dict[str, Head] = {
    "scalar": ScalarHead(1.0),
    "categorical": CategoricalHead(7, -3.0, 3.0, CPU),
    "quantile": QuantileHead(5, 1.0, CPU),
}


@pytest.mark.parametrize("bootstrap", BOOTSTRAPS.values(), ids=list(BOOTSTRAPS))
@pytest.mark.parametrize("inner", HEADS.values(), ids=list(HEADS))
def test_one_branch_is_a_plain_action(inner: Head, bootstrap: Bootstrap) -> None:
    generator = torch.Generator().manual_seed(3)
    online, target = (torch.randn((2 * ROWS, 4 * inner.size), generator=generator) for _ in range(2))
    batch = draw_batch((4,), 3, masked=True)[-1]
    nets = (lambda obs: online[obs]), (lambda obs: target[obs])
    plain = td_loss(*nets, batch, inner, bootstrap)
    head = BranchingHead(inner, ActionBranches((4,)))
    branched = td_loss(*nets, batch, head, BranchingBootstrap(bootstrap))
    for one, other in zip(plain, branched, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("inner", HEADS.values(), ids=list(HEADS))
def test_every_branch_learns_the_same_mean(inner: Head) -> None:
    """A distribution's target is the mixture, and so its mean is the mean of the branches' means."""
    sizes = (3, 2)
    output = torch.randn((2 * ROWS, 5 * inner.size), generator=torch.Generator().manual_seed(1))
    batch = draw_batch(sizes, 5, masked=False)[-1]
    step = batch.transition._replace(reward=torch.zeros(ROWS), discount=torch.ones(ROWS))
    head = BranchingHead(inner, ActionBranches(sizes))
    goal = BranchingBootstrap(greedy_target)(lambda obs: output[obs], lambda obs: output[obs], step, head)
    q = inner.q(output)[ROWS:]
    expected = (q[:, :3].amax(1) + q[:, 3:].amax(1)) / 2
    found = {
        "ScalarHead": lambda: goal,
        "CategoricalHead": lambda: goal @ inner.support,  # type: ignore[attr-defined]
        "QuantileHead": lambda: goal.mean(1),
    }[type(inner).__name__]()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(best_value(q, None, head.branches), expected)


def test_implicit_quantiles_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"--learn\.head scalar, categorical or quantile"):
        BranchingHead(ImplicitQuantileHead(Fractions(2, 2, 2), 1.0), ActionBranches((2, 3)))


def test_dueling_branches_share_the_value() -> None:
    """V + A_d − mean A_d: the mean of every branch is the value itself, for each of `size` numbers."""
    layer = BranchingDueling(6, (8,), (3, 2), 4, False, torch.nn.Linear)
    features = torch.randn(7, 6)
    out = layer(features).view(7, 5, 4)
    value = layer.value(features)
    torch.testing.assert_close(out[:, :3].mean(1), value)
    torch.testing.assert_close(out[:, 3:].mean(1), value)
