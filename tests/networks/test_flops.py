"""The fast count of a network's arithmetic is PyTorch's."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import tiny_config
from flashdqn.core.contract import ObsSpec
from flashdqn.envs import build_env
from flashdqn.learn.learner import build_learner
from flashdqn.networks import flops
from flashdqn.networks.flops import count_any_flops, count_flops


@given(st.lists(st.integers(1, 70), min_size=1, max_size=4), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=30, deadline=None)
def test_mlps_are_counted_as_pytorch_does(hidden: list[int], norm: bool, dueling: bool, noisy: bool) -> None:
    kinds = {"network__layer_norm": norm, "network__dueling": dueling, "network__noisy": noisy}
    config = tiny_config(network__hidden=tuple(hidden), **kinds)
    env = build_env(config.env, 2, torch.device("cpu"))
    network = build_learner(config, env, torch.device("cpu")).online
    assert count_flops(network, env.obs_spec) == count_any_flops(network, env.obs_spec) > 0


def test_other_networks_are_counted_by_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(flops, "count_any_flops", lambda *given: asked.append(given) or 7)
    assert count_flops(torch.nn.Linear(3, 2), ObsSpec((3,), torch.float32)) == 7
    assert asked
