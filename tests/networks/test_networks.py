"""Networks: shapes, bytes, and weights that come from one generator alone."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from flashdqn.config import NetworkConfig
from flashdqn.core.contract import ObsSpec
from flashdqn.core.errors import ConfigError
from flashdqn.networks import QNetwork, build_network
from flashdqn.networks.torsos import CNN, MLP, ResNet

VECTOR = ObsSpec((7,), torch.float32)
PLANES = ObsSpec((3, 5, 4), torch.uint8)
GRID = ObsSpec((5, 4), torch.float32)


def make(config: NetworkConfig, spec: ObsSpec, outputs: int = 4, seed: int = 0) -> QNetwork:
    return build_network(config, spec, outputs, torch.Generator().manual_seed(seed))


def some_obs(spec: ObsSpec, size: int = 6) -> torch.Tensor:
    g = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (size, *spec.shape), generator=g).to(spec.dtype)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize(
    ("torso", "spec", "kind"),
    [
        ("auto", VECTOR, MLP),
        ("auto", GRID, MLP),
        ("auto", PLANES, CNN),
        ("mlp", PLANES, MLP),
        ("cnn", PLANES, CNN),
        ("resnet", PLANES, ResNet),
    ],
)
def test_from_observations_to_one_number_per_output(
    torso: str, spec: ObsSpec, kind: type[nn.Module], layer_norm: bool
) -> None:
    config = NetworkConfig(torso=torso, hidden=(16, 8), channels=(4, 6), layer_norm=layer_norm)  # type: ignore[arg-type]
    network = make(config, spec, outputs=9)
    assert isinstance(network.torso, kind)
    output = network(some_obs(spec))
    assert output.shape == (6, 9)
    assert output.dtype == torch.float32
    assert torch.isfinite(output).all()
    norms = [module for module in network.modules() if isinstance(module, nn.LayerNorm)]
    assert [norm.normalized_shape for norm in norms] == ([(16,), (8,)] if layer_norm else [])


def test_the_widths_are_those_asked_for() -> None:
    network = make(NetworkConfig(hidden=(16, 8, 12), channels=(4, 6)), PLANES, outputs=3)
    linears = [m for m in network.modules() if isinstance(m, nn.Linear)]
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    widths = [convolutions[0].in_channels, *(c.out_channels for c in convolutions)]
    assert widths == [3, 4, 6]
    assert [(m.in_features, m.out_features) for m in linears] == [
        *pairwise([6 * 5 * 4, 16, 8, 12]),
        (12, 3),
    ]


def test_a_row_does_not_depend_on_its_batch() -> None:
    network = make(NetworkConfig(hidden=(16,), layer_norm=True), VECTOR)
    obs = torch.randn(6, 7, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(network(obs)[2:3], network(obs[2:3]))


@pytest.mark.parametrize("spec", [VECTOR, GRID])
@pytest.mark.parametrize("torso", ["cnn", "resnet"])
def test_convolutions_refuse_what_is_no_stack_of_planes(torso: str, spec: ObsSpec) -> None:
    with pytest.raises(ConfigError) as caught:
        make(NetworkConfig(torso=torso), spec)  # type: ignore[arg-type]
    message = str(caught.value)
    assert f"'{torso}'" in message
    assert str(list(spec.shape)) in message  # what came
    assert "--network.torso mlp" in message  # what to do


@pytest.mark.parametrize("torso", ["mlp", "cnn", "resnet"])
def test_bytes_are_read_as_0_to_1(torso: str) -> None:
    network = make(NetworkConfig(torso=torso, hidden=(16,), channels=(4,)), PLANES)  # type: ignore[arg-type]
    obs = some_obs(PLANES)
    assert int(obs.max()) > 200
    torch.testing.assert_close(network(obs), network(obs.float() / 255))


def test_floats_are_read_as_they_are() -> None:
    network = make(NetworkConfig(hidden=(5,)), VECTOR)
    obs = torch.full((1, 7), 300.0)
    first = network.torso.layers[0]
    expected = torch.relu(obs @ first.weight.T + first.bias) @ network.output.weight.T + network.output.bias
    torch.testing.assert_close(network(obs), expected)


@pytest.mark.parametrize(("spec", "torso"), [(VECTOR, "mlp"), (PLANES, "cnn"), (PLANES, "resnet")])
def test_weights_follow_from_the_generator_alone(spec: ObsSpec, torso: str) -> None:
    config = NetworkConfig(torso=torso, hidden=(16, 8), channels=(4, 6), layer_norm=True)  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        one = make(config, spec, seed=3).state_dict()
        torch.manual_seed(2)
        before = torch.get_rng_state()
        again, other = make(config, spec, seed=3).state_dict(), make(config, spec, seed=4).state_dict()
        assert torch.equal(before, torch.get_rng_state())  # torch's global generator was left alone
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not any(torch.equal(one[n], other[n]) for n in one if one[n].unique().numel() > 1)


def test_initial_weights_fill_their_bounds() -> None:
    """U(−1/√fan_in, 1/√fan_in), for weights and biases alike; a normalization starts as the identity."""
    network = make(NetworkConfig(hidden=(256, 256), channels=(16, 32), layer_norm=True), PLANES, outputs=64)
    seen = 0
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            fan_in = module.weight.numel() // module.weight.shape[0]
            bound = 1 / math.sqrt(fan_in)
            for tensor in (module.weight.detach(), module.bias.detach()):
                assert float(tensor.abs().max()) <= bound * (1 + 1e-6)
                assert float(tensor.max()) > 0.7 * bound
                assert float(tensor.min()) < -0.7 * bound
            assert float(module.weight.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.1)
            seen += 1
        elif isinstance(module, nn.LayerNorm):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()
    assert seen == 5
