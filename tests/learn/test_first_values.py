"""What a network expects before its first update: nothing, except for categorical heads that ε explores for."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from conftest import tiny_config
from flashdqn.envs import build_env
from flashdqn.learn.learner import build_learner

CPU = torch.device("cpu")


@pytest.mark.parametrize("head", ["scalar", "categorical", "quantile"])
@pytest.mark.parametrize(
    "network",
    [
        {},
        {"network__dueling": True},
        {"network__noisy": True},
        {"network__dueling": True, "network__noisy": True, "network__hidden": (16, 16)},
    ],
    ids=str,
)
def test_the_first_values_are_near_zero(head: str, network: dict[str, Any]) -> None:
    config = tiny_config(learn__head=head, learn__v_min=-20.0, learn__v_max=320.0, **network)
    env = build_env(config.env, 8, CPU)
    learner = build_learner(config, env, CPU)
    obs = env.reset(3)
    if (
        head == "categorical" and not config.network.noisy
    ):  # as in the paper: all atoms are about equally likely
        assert float((learner.head.q(learner.online(obs)).detach() - 150.0).abs().max()) < 60.0
        return
    for role in (learner.online, learner.target):
        assert float(learner.head.q(role(obs)).detach().abs().max()) < 8.0  # the middle of the support is 150
    assert torch.equal(learner.flat.values, learner.target_flat.values)
