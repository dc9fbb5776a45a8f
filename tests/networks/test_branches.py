"""The torso of branches: what a description means, that it composes, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flashdqn.config import NetworkConfig
from flashdqn.config.presets import base_config
from flashdqn.core.contract import ObsSpec
from flashdqn.core.errors import ConfigError
from flashdqn.networks import build_network
from flashdqn.networks.branches import Branches, BranchSpec, parse_branch
from flashdqn.networks.implicit import Fractions
from flashdqn.networks.noisy import NoisyLinear

STATE = ObsSpec((152,), torch.float32)


def make(config: NetworkConfig, spec: ObsSpec = STATE, **options: Any) -> Any:
    return build_network(config, spec, 13, torch.Generator().manual_seed(0), **options)


def test_a_description_means_what_it_says() -> None:
    assert parse_branch("14:128,64") == BranchSpec(0, 14, (), (128, 64))
    assert parse_branch("6x13:64/64") == BranchSpec(6, 13, (64,), (64,))
    assert parse_branch("6x13:64,32/") == BranchSpec(6, 13, (64, 32), ())
    assert parse_branch("6x13:/9") == BranchSpec(6, 13, (), (9,))
    assert parse_branch("5:") == BranchSpec(0, 5, (), ())
    assert parse_branch("6x13:64/64").size == 78


@pytest.mark.parametrize("text", ["", "14", "x3:4", "14:a", "6x13x2:4/4", "-3:4", "14:64:64"])
def test_what_is_no_description_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="A branch is written like"):
        parse_branch(text)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (NetworkConfig(torso="branches"), "needs network.branches"),
        (NetworkConfig(torso="branches", branches=("14:8", "6x13:8/8")), "14 \\+ 78 = 92 numbers"),
        (NetworkConfig(torso="branches", branches=("152:0",)), "width 0"),
        (NetworkConfig(torso="branches", branches=("0x13:4/4",)), "width 0"),
        (NetworkConfig(torso="branches", branches=("152:4/4",)), "leave out the '/'"),
    ],
)
def test_branches_must_take_up_the_observation(config: NetworkConfig, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make(config)
    with pytest.raises(ConfigError, match="attention"):
        NetworkConfig(attention=-1)


def test_the_papers_network_has_its_layers() -> None:
    network = make(base_config("sfc-paper").network)
    assert isinstance(network.torso, Branches)
    sizes = [(m.in_features, m.out_features) for m in network.modules() if isinstance(m, nn.Linear)]
    assert sorted(sizes) == sorted(
        [(14, 128), (128, 64), (13, 64), (6 * 64, 64), (10, 64), (6 * 64, 64)]  # branches
        + [(64, 128)] * 3
        + [(128, 1)]  # attention
        + [(192, 256), (256, 128), (128, 64), (64, 13)]
    )
    assert network(torch.rand(5, 152)).shape == (5, 13)


def test_it_computes_what_the_description_says() -> None:
    config = NetworkConfig(torso="branches", branches=("2:3", "2x2:4/5"), attention=7, hidden=(6,))
    network = build_network(config, ObsSpec((6,), torch.float32), 2, torch.Generator().manual_seed(1))
    torso, obs = network.torso, torch.rand(3, 6)
    first, second = torso.branches
    x1 = torch.relu(first.joined[0](obs[:, :2]))
    rows = [torch.relu(second.by_row[0](obs[:, k : k + 2])) for k in (2, 4)]
    x2 = torch.relu(second.joined[0](torch.cat(rows, 1)))
    keys = [torch.tanh(key(x)) for key, x in zip(torso.attention.keys, (x1, x2), strict=True)]
    weights = torch.softmax(torch.cat([torso.attention.score(key) for key in keys], 1), 1)
    joined = torch.cat((2 * weights[:, :1] * x1, 2 * weights[:, 1:] * x2), 1)
    torch.testing.assert_close(network(obs), network.output(torch.relu(torso.mlp.layers[0](joined))))


@pytest.mark.parametrize("attention", [0, 16])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("head", ["scalar", "atoms", "iqn"])
def test_it_composes_with_everything(attention: int, dueling: bool, noisy: bool, head: str) -> None:
    config = NetworkConfig(
        torso="branches",
        branches=base_config("sfc-paper").network.branches,
        attention=attention,
        hidden=(32, 16),
        dueling=dueling,
        noisy=noisy,
        layer_norm=True,
    )
    options: dict[str, Any] = {"size": 11} if head == "atoms" else {}
    if head == "iqn":
        options = {"fractions": Fractions(4, 4, 8)}
    network = make(config, **options)
    output = network(torch.rand(5, 152))
    assert output.shape == {"scalar": (5, 13), "atoms": (5, 143), "iqn": (5, 5, 14)}[head]
    output.sum().backward()
    assert all(p.grad is not None for p in network.parameters() if p.requires_grad)
    assert any(isinstance(m, NoisyLinear) for m in network.torso.modules()) == noisy
