"""λ-returns against their other definition: the mixture of all n-step returns, by loops."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from flashdqn.config import PQNConfig
from flashdqn.core.contract import ObsSpec
from flashdqn.core.types import Batch, Step
from flashdqn.learn.heads import ScalarHead
from flashdqn.learn.pqn import RolloutSampler, best_value, lambda_returns
from flashdqn.replay.ring import Kind, Ring

CPU = torch.device("cpu")
NOTHING = 1e30  # stands where nobody may look


class Played(NamedTuple):
    """What happened in some steps of some environments."""

    kind: list[list[Kind]]  # [T][N]
    reward: Tensor  # [T, N]
    value: Tensor  # [T, N]: of the observation that each step led to


def forward_view(played: Played, t: int, env: int, gamma: float, trace: float) -> float:
    """(1 − λ) Σ_{n<L} λ^{n−1} R^(n) + λ^{L−1} R^(L), where L steps are left of the episode or of the rollout."""
    kinds = [row[env] for row in played.kind[t:]]
    steps = next((k + 1 for k, kind in enumerate(kinds) if kind != Kind.STEP), len(kinds))
    total = 0.0
    for n in range(1, steps + 1):
        n_step = sum(gamma**j * float(played.reward[t + j, env]) for j in range(n))
        if kinds[n - 1] != Kind.TERMINATED:
            n_step += gamma**n * float(played.value[t + n - 1, env])
        total += (1 - trace if n < steps else 1.0) * trace ** (n - 1) * n_step
    return total


@st.composite
def plays(draw: st.DrawFn, length: int | None = None) -> Played:
    """Random ends; after each a row that is no transition, full of nonsense."""
    steps = length or draw(st.integers(1, 12))
    num_envs = draw(st.integers(1, 4))
    ends = st.sampled_from([Kind.STEP, Kind.STEP, Kind.STEP, Kind.TERMINATED, Kind.TRUNCATED])
    kind: list[list[Kind]] = []
    for t in range(steps):
        drawn = [draw(ends) for _ in range(num_envs)]
        if t > 0:
            over = [before in (Kind.TERMINATED, Kind.TRUNCATED) for before in kind[-1]]
            drawn = [Kind.RESET if o else k for o, k in zip(over, drawn, strict=True)]
        kind.append(drawn)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    reward, value = torch.randn((2, steps, num_envs), generator=generator) * 3
    no_transition = torch.tensor(kind) == Kind.RESET
    return Played(kind, reward.masked_fill(no_transition, NOTHING), value.masked_fill(no_transition, NOTHING))


rates = st.sampled_from([0.0, 0.3, 0.65, 0.99, 1.0])


@settings(deadline=None)
@given(plays(), rates, rates)
def test_they_are_the_mixture_of_n_step_returns(played: Played, gamma: float, trace: float) -> None:
    kind = torch.tensor(played.kind)
    returns = lambda_returns(
        played.reward, kind == Kind.TERMINATED, kind == Kind.TRUNCATED, played.value, gamma, trace
    )
    assert returns.shape == kind.shape
    for t, row in enumerate(played.kind):
        for env, what in enumerate(row):
            if what != Kind.RESET:
                expected = forward_view(played, t, env, gamma, trace)
                assert float(returns[t, env]) == pytest.approx(expected, abs=1e-4)


def test_hand_worked() -> None:
    """γ = 0.5, λ = 0.5; three environments: one that goes on, one that terminates, one that is cut off."""
    reward = torch.tensor([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [4.0, 0.0, 0.0], [8.0, 8.0, 8.0]])
    value = torch.tensor([[10.0, 10.0, 10.0], [20.0, 20.0, 20.0], [30.0, 30.0, 30.0], [40.0, 40.0, 40.0]])
    terminated, truncated = torch.zeros((2, 4, 3), dtype=torch.bool)
    terminated[1, 1] = truncated[1, 2] = True  # so row 2 is no transition there
    returns = lambda_returns(reward, terminated, truncated, value, gamma=0.5, trace=0.5)
    # 8 + ½·40 = 28; 4 + ½(½·28 + ½·30) = 18.5; 2 + ½(½·18.5 + ½·20) = 11.625; 1 + ½(½·11.625 + ½·10)
    assert returns[:, 0].tolist() == [6.40625, 11.625, 18.5, 28.0]
    # 2, for nothing follows; 1 + ½(½·2 + ½·10) = 4
    assert returns[[0, 1, 3], 1].tolist() == [4.0, 2.0, 28.0]
    # 2 + ½·20 = 12; 1 + ½(½·12 + ½·10) = 6.5
    assert returns[[0, 1, 3], 2].tolist() == [6.5, 12.0, 28.0]


def test_the_best_value_is_that_of_a_legal_action() -> None:
    q = torch.tensor([[1.0, 5.0, 3.0], [1.0, 5.0, 3.0], [-1.0, -5.0, -3.0]])
    mask = torch.tensor([[True, False, True], [True, True, True], [False, True, False]])
    assert best_value(q, mask).tolist() == [3.0, 5.0, -5.0]
    assert best_value(q, None).tolist() == [5.0, 5.0, -1.0]
    assert bool(torch.isfinite(best_value(q, torch.zeros_like(mask))).all())


def scripted(played: Played, rollout: int, config: PQNConfig) -> list[list[Batch]]:
    """The batches of all rollouts, where observation k of environment e is the number 100 k + e; its best legal
    action is worth what `played` says, and the illegal one more."""
    steps, num_envs = played.reward.shape
    ring = Ring(rollout * num_envs, num_envs, ObsSpec((1,), torch.float32), 2, CPU, masked=True)

    def policy(obs: Tensor) -> Tensor:
        k, env = (obs[:, 0] // 100).long(), (obs[:, 0] % 100).long()
        return torch.stack((played.value[k - 1, env], torch.full((len(obs),), 2 * NOTHING)), 1)

    sampler = RolloutSampler(ring, policy, ScalarHead(0.0), config, 0.9, torch.Generator().manual_seed(0))
    envs = torch.arange(num_envs, dtype=torch.float32)[:, None]
    mask = torch.tensor([[True, False]]).expand(num_envs, 2)
    ring.start(envs, mask)
    found = []
    for t in range(steps):
        kind = torch.tensor(played.kind[t])
        ends = kind == Kind.TERMINATED, kind == Kind.TRUNCATED
        ring.append(torch.zeros(num_envs), Step(100.0 * (t + 1) + envs, played.reward[t], *ends, mask))
        sampler.rows_added()
        if count := sampler.remaining:
            sampler.drawing(count)
            found.append(sampler.batches(count, sampler.size))
        assert sampler.remaining == 0
    return found


@settings(deadline=None, max_examples=50)
@given(plays(length=12), st.sampled_from([1, 2, 3, 4, 6]))
def test_every_rollout_of_the_ring_is_valued_and_used_once_per_epoch(played: Played, rollout: int) -> None:
    num_envs = played.reward.shape[1]
    config = PQNConfig(rollout=rollout, epochs=2, minibatches=rollout, trace=0.65)
    rollouts = scripted(played, rollout, config)
    assert len(rollouts) == 12 // rollout
    for number, batches in enumerate(rollouts):
        first = number * rollout
        part = Played(*(column[first : first + rollout] for column in played))  # type: ignore[arg-type]
        assert len(batches) == 2 * rollout
        valid = sum(kind != Kind.RESET for row in part.kind for kind in row)
        for epoch in (batches[:rollout], batches[rollout:]):
            seen = torch.cat([batch.transition.obs[:, 0] for batch in epoch])
            everything = {100.0 * t + env for t in range(first, first + rollout) for env in range(num_envs)}
            assert sorted(seen.tolist()) == sorted(everything)
            for batch in epoch:
                for obs, target, weight in zip(
                    batch.transition.obs[:, 0], batch.transition.reward, batch.weight, strict=True
                ):
                    t, env = int(obs) // 100 - first, int(obs) % 100
                    if part.kind[t][env] == Kind.RESET:
                        assert weight == 0
                    else:
                        assert float(weight) == pytest.approx(rollout * num_envs / valid)
                        assert float(target) == pytest.approx(forward_view(part, t, env, 0.9, 0.65), abs=1e-4)
