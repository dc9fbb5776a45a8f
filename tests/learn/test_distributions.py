"""C51, QR-DQN and IQN recover the distribution of a random return, which is known exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_training import ENVS, GAMMA, trained
from stochastic_env import Lottery
from torch import Tensor

from flashdqn.envs import check_env
from flashdqn.learn.distributional import CategoricalHead, QuantileHead
from flashdqn.networks.implicit import ImplicitQuantiles

PRIZES = Lottery(ENVS)


def true_quantiles(state: int, action: int, tau: Tensor) -> Tensor:
    """F⁻¹(τ) of the return."""
    returns = PRIZES.returns(state, action, GAMMA)
    total = torch.cumsum(torch.tensor([p for _, p in returns]), 0)
    index = torch.searchsorted(total, tau).clamp(max=len(returns) - 1)
    return torch.tensor([v for v, _ in returns])[index]


def test_the_lottery_keeps_the_contract() -> None:
    check_env(Lottery(5, num_states=3))
    assert PRIZES.q_star(GAMMA)[1].tolist() == [1.0, 1.0]  # ¼ of 4
    assert PRIZES.returns(0, 0, GAMMA) == [
        (0.0, 0.5625),
        (pytest.approx(2.8), 0.1875),
        (4.0, 0.1875),
        (pytest.approx(6.8), 0.0625),
    ]


def test_c51_recovers_the_distribution_of_the_return(tmp_path: Path) -> None:
    """Atoms in steps of 0.4, on which every return lies: the probabilities themselves are known."""
    support = {"learn__atoms": 31, "learn__v_min": 0.0, "learn__v_max": 12.0}
    parts = trained(PRIZES, tmp_path, "c51", eps=1.0, **support)
    head = parts.learner.head
    assert isinstance(head, CategoricalHead)
    with torch.no_grad():
        output = parts.learner.online(torch.eye(2)).view(2, 2, 31).softmax(2)
    for state, action in ((0, 0), (0, 1), (1, 0), (1, 1)):
        expected = torch.zeros(31)
        for value, probability in PRIZES.returns(state, action, GAMMA):
            expected[round(value / 0.4)] += probability
        difference = output[state, action].cumsum(0) - expected.cumsum(0)
        assert float(difference.abs().max()) < 0.05, (state, action)  # Kolmogorov's distance of the two CDFs


@pytest.mark.parametrize("algo", ["qr-dqn", "iqn"])
def test_quantiles_recover_the_distribution_of_the_return(tmp_path: Path, algo: str) -> None:
    """With κ = 0: Huber's square would turn quantiles into expectiles wherever returns lie closer than κ."""
    parts = trained(
        PRIZES, tmp_path, algo, eps=1.0, learn__huber=0.0, learn__iqn_learn=16, learn__iqn_target=16
    )
    network, tau = parts.learner.online, (torch.arange(32) + 0.5) / 32
    with torch.no_grad():
        if isinstance(parts.learner.head, QuantileHead):
            quantiles = network(torch.eye(2)).view(2, 2, 32)
        else:
            assert isinstance(network.output, ImplicitQuantiles)
            features = network.features(torch.eye(2))  # type: ignore[operator]
            quantiles = network.output.quantiles(features, tau.expand(2, -1)).transpose(1, 2)
    for state, action in ((0, 0), (0, 1), (1, 0), (1, 1)):
        distance = (quantiles[state, action] - true_quantiles(state, action, tau)).abs().mean()
        spread = (true_quantiles(state, action, tau) - PRIZES.q_star(GAMMA)[state, action]).abs().mean()
        assert float(distance) < 0.12 * float(spread), (state, action)  # Wasserstein's distance
