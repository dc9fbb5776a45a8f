"""The fast count of a network's arithmetic is PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import tiny_config
from flashdqn.config.network import NetworkConfig
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.contract import ObsSpec
from flashdqn.envs import build_env
from flashdqn.learn.learner import build_learner
from flashdqn.networks import flops
from flashdqn.networks.build import build_network
from flashdqn.networks.flops import count_any_flops, count_flops, count_known_flops


@given(st.lists(st.integers(1, 70), min_size=1, max_size=4), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=30, deadline=None)
def test_mlps_are_counted_as_pytorch_does(hidden: list[int], norm: bool, dueling: bool, noisy: bool) -> None:
    kinds = {"network__layer_norm": norm, "network__dueling": dueling, "network__noisy": noisy}
    config = tiny_config(network__hidden=tuple(hidden), **kinds)
    env = build_env(config.env, 2, torch.device("cpu"))
    network = build_learner(config, env, torch.device("cpu")).online
    assert count_flops(network, env.obs_spec) == count_any_flops(network, env.obs_spec) > 0


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        ("snake-grid", {"network.channels": (16, 24)}),
        ("snake-grid", {"network.torso": "cnn", "network.channels": (8, 8), "network.noisy": True}),
        ("snake-grid", {"learn.head": "iqn", "network.channels": (8,)}),
        ("fuelbreaks-small", {"env.landscapes": 2, "env.held_out": 1}),
        ("fuelbreaks-small", {"env.landscapes": 2, "env.held_out": 1, "network.dueling": False}),
        ("sfc", {}),
        ("sfc-paper", {}),
    ],
)
def test_our_networks_are_counted_as_pytorch_does(preset: str, changes: dict[str, Any]) -> None:
    config = apply_settings(base_config(preset), changes)
    env = build_env(config.env, 2, torch.device("cpu"))
    network = build_learner(config, env, torch.device("cpu")).online
    assert count_known_flops(network, env.obs_spec) == count_any_flops(network, env.obs_spec) > 0
    assert count_flops(network, env.obs_spec) == count_known_flops(network, env.obs_spec)


@pytest.mark.parametrize("torso", ["nature", "impala"])
def test_torsos_for_screens_are_counted_as_pytorch_does(torso: Any) -> None:
    spec = ObsSpec((4, 84, 84), torch.uint8)
    network = build_network(NetworkConfig(torso=torso, dueling=True), spec, 6, torch.Generator(), 1, None)
    assert count_flops(network, spec) == count_any_flops(network, spec) > 0


def test_other_networks_are_counted_by_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(flops, "count_any_flops", lambda *given: asked.append(given) or 7)
    assert count_flops(torch.nn.Linear(3, 2), ObsSpec((3,), torch.float32)) == 7
    assert asked


def test_fused_layers_are_counted_too() -> None:
    """They do not call the layers that they stand for."""
    config = apply_settings(base_config("snake-grid"), {"network.channels": (8, 8)})
    env = build_env(config.env, 2, torch.device("cpu"))
    network = build_learner(config, env, torch.device("cpu")).online
    plain = count_flops(network, env.obs_spec)
    fused = [module for module in network.modules() if hasattr(module, "fused_on")]
    for module in fused:
        module.fused_on = "cpu"
    assert fused
    assert count_flops(network, env.obs_spec) == plain
    assert all(module.fused_on == "cpu" for module in fused)
