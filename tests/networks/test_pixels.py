"""Torsos for screens: the papers' shapes and parameter counts, and weights that come from one generator alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flashdqn.config import NetworkConfig
from flashdqn.core.contract import ObsSpec
from flashdqn.core.errors import ConfigError
from flashdqn.networks import QNetwork, build_network
from flashdqn.networks.implicit import Fractions
from flashdqn.networks.pixels import Impala, Nature
from flashdqn.networks.torsos import CNN

ATARI = ObsSpec((4, 84, 84), torch.uint8, stack=4)
SMALL = ObsSpec((2, 40, 37), torch.uint8)


def make(spec: ObsSpec = ATARI, actions: int = 6, size: int = 1, seed: int = 0, **settings: Any) -> QNetwork:
    fractions = settings.pop("fractions", None)
    config = NetworkConfig(**({"hidden": (512,)} | settings))
    return build_network(config, spec, actions, torch.Generator().manual_seed(seed), size, fractions)


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def screens(spec: ObsSpec, size: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (size, *spec.shape), generator=generator).to(torch.uint8)


@pytest.mark.parametrize("torso", ["auto", "nature"])
def test_nature_has_the_parameters_of_the_paper(torso: str) -> None:
    network = make(torso=torso, actions=6)
    assert isinstance(network.torso, Nature)
    convolutions = (4 * 32 * 64 + 32) + (32 * 64 * 16 + 64) + (64 * 64 * 9 + 64)
    assert parameters(network.torso) == convolutions + 7 * 7 * 64 * 512 + 512 == 1_684_128
    assert parameters(network) == 1_684_128 + 512 * 6 + 6


def test_impala_has_the_parameters_of_the_paper() -> None:
    """Three stages of 16, 32 and 32 channels, fifteen convolutions, and 11x11x32 numbers into 256 units."""
    network = make(torso="impala", hidden=(256,))
    assert isinstance(network.torso, Impala)
    expected, before = 0, 4
    for channels in (16, 32, 32):
        expected += 9 * before * channels + channels + 4 * (9 * channels * channels + channels)
        before = channels
    assert sum(isinstance(module, nn.Conv2d) for module in network.modules()) == 15
    assert parameters(network.torso) == expected + 11 * 11 * 32 * 256 + 256 == 1_089_232


def test_the_width_multiplies_the_channels() -> None:
    network = make(SMALL, torso="impala", hidden=(8,), width=2)
    widths = [stage.convolution.out_channels for stage in network.torso.stages]  # type: ignore[union-attr]
    assert widths == [32, 64, 64]
    assert network(screens(SMALL)).shape == (3, 6)
    with pytest.raises(ConfigError, match=r"network.width must be at least 1"):
        NetworkConfig(width=0)


def test_nature_computes_what_its_layers_say() -> None:
    """In the plain memory format, layer by layer."""
    network, obs = make(), screens(ATARI)
    weights = [module for module in network.torso.modules() if isinstance(module, nn.Conv2d)]
    planes = obs / 255
    for convolution, stride in zip(weights, (4, 2, 1), strict=True):
        planes = torch.relu(F.conv2d(planes, convolution.weight, convolution.bias, stride))
    assert planes.shape == (3, 64, 7, 7)
    layer = network.torso.mlp.layers[0]  # type: ignore[union-attr]
    features = torch.relu(F.linear(planes.reshape(3, -1), layer.weight, layer.bias))
    torch.testing.assert_close(network.torso(obs / 255), features)


def test_impala_computes_what_its_layers_say() -> None:
    network, obs = make(SMALL, torso="impala", hidden=(8,)), screens(SMALL)
    planes = obs / 255
    for stage in network.torso.stages:  # type: ignore[union-attr]
        first = stage.convolution  # type: ignore[union-attr]
        planes = F.conv2d(planes, first.weight, first.bias, padding=1)  # type: ignore[arg-type]
        planes = F.max_pool2d(planes, 3, stride=2, padding=1)
        for block in stage.blocks:  # type: ignore[union-attr]
            inner = planes
            for layer in (block.convolution1, block.convolution2):
                inner = F.conv2d(torch.relu(inner), layer.weight, layer.bias, padding=1)
            planes = planes + inner
    assert planes.shape == (3, 32, 5, 5)
    torch.testing.assert_close(network.torso.mlp(torch.relu(planes)), network.torso(obs / 255))  # type: ignore[union-attr,operator]


@pytest.mark.parametrize("torso", ["nature", "impala"])
def test_weights_come_from_the_generator_alone(torso: str) -> None:
    before = torch.random.get_rng_state()
    one, other, third = (make(SMALL, torso=torso, hidden=(8,), seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), before)
    for name, weight in one.state_dict().items():
        assert torch.equal(weight, other.state_dict()[name])
        assert not torch.equal(weight, third.state_dict()[name])
        assert weight.abs().max() > 0


@pytest.mark.parametrize("torso", ["nature", "impala"])
@pytest.mark.parametrize("extra", [{}, {"dueling": True}, {"noisy": True}, {"layer_norm": True}])
@pytest.mark.parametrize("head", ["scalar", "categorical", "iqn"])
def test_everything_composes(torso: str, extra: dict[str, Any], head: str) -> None:
    size = 7 if head == "categorical" else 1
    more = extra | ({"fractions": Fractions(4, 5, 6)} if head == "iqn" else {})
    network = make(SMALL, torso=torso, hidden=(16,), size=size, **more)
    output = network(screens(SMALL))
    assert output.shape == ((3, 1 + 4, 6 + 1) if head == "iqn" else (3, 6 * size))
    output.sum().backward()
    silent = [name for name, weight in network.named_parameters() if weight.grad is None]
    assert not silent


def test_small_planes_are_left_to_others() -> None:
    board = ObsSpec((4, 10, 10), torch.uint8)
    assert isinstance(make(board, torso="auto").torso, CNN)
    for torso in ("nature", "impala"):
        with pytest.raises(ConfigError, match=f"'{torso}' is for screens of at least 36x36 pixels.*10x10"):
            make(board, torso=torso)
        with pytest.raises(ConfigError, match=f"'{torso}' needs observations of shape"):
            make(ObsSpec((8,), torch.float32), torso=torso)
    least = ObsSpec((1, 36, 36), torch.uint8)
    assert make(least, torso="nature", hidden=(8,))(screens(least)).shape == (3, 6)
