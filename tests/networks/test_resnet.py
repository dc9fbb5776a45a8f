"""The residual torso: its layout, how it starts, how it composes, and that nothing in it looks at a value."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value
from torch.nn import functional as F

from flashdqn.config import LearnConfig, NetworkConfig
from flashdqn.core.contract import ObsSpec
from flashdqn.learn.build import build_head
from flashdqn.networks import QNetwork, build_network, make_target
from flashdqn.networks.noisy import Noise
from flashdqn.networks.torsos import BoardNorm, ResidualBlock, ResNet

PLANES = ObsSpec((3, 5, 4), torch.uint8)
ACTIONS = 4


def make(size: int = 1, seed: int = 0, fractions: Any = None, **settings: Any) -> QNetwork:
    settings = {"hidden": (8,), "channels": (4, 4), "layer_norm": True} | settings
    config = NetworkConfig(torso="resnet", **settings)
    return build_network(config, PLANES, ACTIONS, torch.Generator().manual_seed(seed), size, fractions)


def some_obs(rows: int = 6) -> Tensor:
    g = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (rows, *PLANES.shape), generator=g, dtype=torch.uint8)


def stirred(network: QNetwork) -> QNetwork:
    """With every parameter off its start, so that blocks and normalizations do something."""
    g = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=g), alpha=0.1)
    return network


# what it computes


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("channels", [(4,), (4, 4, 4), (4, 6, 6, 3)])
def test_it_computes_what_it_says(channels: tuple[int, ...], layer_norm: bool) -> None:
    """Against the formula on plain planes, with PyTorch's own GroupNorm."""
    network = stirred(make(channels=channels, layer_norm=layer_norm))
    torso, obs = network.torso, some_obs()
    assert isinstance(torso, ResNet)

    def norm(module: nn.Module, planes: Tensor) -> Tensor:
        if not layer_norm:
            return planes
        assert isinstance(module, BoardNorm)
        return F.group_norm(planes, 1, module.weight, module.bias)

    planes = torso.stem(obs / 255)
    for block in torso.blocks:
        assert isinstance(block, ResidualBlock)
        inner = block.convolution1(torch.relu(norm(block.norm1, planes)))
        inner = block.convolution2(torch.relu(norm(block.norm2, inner)))
        planes = block.skip(planes) + inner
    planes = torch.relu(norm(torso.norm, planes))
    expected = torso.mlp(planes.movedim(1, 3).contiguous())
    torch.testing.assert_close(torso(obs / 255), expected)


def test_a_block_for_each_width() -> None:
    torso = make(channels=(4, 6, 6), hidden=(16, 8)).torso
    assert isinstance(torso, ResNet)
    assert (torso.stem.in_channels, torso.stem.out_channels) == (3, 4)
    blocks = [block for block in torso.blocks if isinstance(block, ResidualBlock)]
    widths = [(b.convolution1.in_channels, b.convolution2.out_channels) for b in blocks]
    assert widths == [(4, 4), (4, 6), (6, 6)]
    assert [isinstance(b.skip, nn.Identity) for b in blocks] == [True, False, True]
    first = torso.mlp.layers[0]
    assert isinstance(first, nn.Linear)
    assert first.in_features == 6 * 5 * 4


def test_planes_stay_channels_last() -> None:
    """Convolutions then need no transposition on CUDA, and flattening copies nothing."""
    network = stirred(make())
    layouts: list[bool] = []

    def note(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        layouts.extend(x.is_contiguous(memory_format=torch.channels_last) for x in (*inputs, output))

    for module in network.modules():
        if isinstance(module, nn.Conv2d | BoardNorm | ResidualBlock):
            module.register_forward_hook(note)
    network.torso.mlp.register_forward_hook(lambda m, x, y: layouts.append(x[0].is_contiguous()))
    network(some_obs())
    assert len(layouts) == 2 * (5 + 5 + 2) + 1
    assert all(layouts)


def test_a_row_does_not_depend_on_its_batch() -> None:
    network, obs = stirred(make()), some_obs()
    torch.testing.assert_close(network(obs)[2:3], network(obs[2:3]))


# how it starts


def test_blocks_start_as_if_they_were_not_there() -> None:
    torso = make(channels=(4, 4, 4), layer_norm=False).torso
    assert isinstance(torso, ResNet)
    planes = torch.randn(2, 4, 5, 4, generator=torch.Generator().manual_seed(3))
    assert torch.equal(torso.blocks(planes), planes)


def test_initial_weights_fill_their_bounds_but_for_the_zeros() -> None:
    network = make(channels=(32, 32, 16), hidden=(64,), dueling=True)
    zeros = [block.convolution2 for block in network.torso.blocks]  # type: ignore[union-attr]
    for module in network.modules():
        if module in zeros:
            assert all((parameter == 0).all() for parameter in module.parameters())
        elif isinstance(module, nn.Linear | nn.Conv2d):
            bound = 1 / math.sqrt(module.weight[0].numel())
            assert 0.7 * bound < float(module.weight.detach().abs().max()) <= bound * (1 + 1e-6)
        elif isinstance(module, BoardNorm):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()


def test_every_parameter_learns() -> None:
    network, obs = make(channels=(4, 4, 6), dueling=True), some_obs(32)
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(3):  # the first moves only the blocks' last convolutions, which start at zero
        optimizer.zero_grad()
        (network(obs) - 1).square().mean().backward()
        optimizer.step()
    stuck = [name for name, parameter in network.named_parameters() if torch.equal(before[name], parameter)]
    assert stuck == []


# how it composes


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("head", ["scalar", "categorical", "quantile", "iqn"])
def test_it_takes_every_head(head: Any, dueling: bool, noisy: bool) -> None:
    settings = LearnConfig(head=head, atoms=5, quantiles=6, iqn_learn=2, iqn_target=3, iqn_choose=4)
    built = build_head(settings, torch.device("cpu"))
    network = make(built.size, fractions=built.fractions, dueling=dueling, noisy=noisy, hidden=(8, 6))
    target = make_target(network)
    if noisy:
        Noise([network, target], torch.Generator().manual_seed(0)).resample()
    for net in (network, target, network.eval()):
        q = built.q(net(some_obs()))
        assert q.shape == (6, ACTIONS)
        assert torch.isfinite(q).all()
    outputs = network.train()(some_obs())
    outputs.square().mean().backward()
    gradients = [parameter.grad for parameter in network.parameters()]
    assert all(gradient is not None and torch.isfinite(gradient).all() for gradient in gradients)


# how it runs


def test_it_runs_in_bfloat16() -> None:
    network, obs = stirred(make(dueling=True)), some_obs(32)
    exact = network(obs)
    with torch.autocast("cpu", torch.bfloat16):
        rough = network(obs)
    assert (rough - exact).abs().max() < 0.05 * exact.abs().max()
    rough.float().square().mean().backward()
    gradients = [parameter.grad for parameter in network.parameters()]
    assert all(g is not None and g.dtype == torch.float32 and g.isfinite().all() for g in gradients)


def test_its_gradient_is_a_function_of_its_parameters() -> None:
    """As compiled updates take it, and as many parameter sets at once would."""
    network, obs = stirred(make(dueling=True)), some_obs()
    parameters = {name: parameter.detach() for name, parameter in network.named_parameters()}

    def loss(values: dict[str, Tensor]) -> Tensor:
        return functional_call(network, values, (obs,)).square().mean()  # type: ignore[no-any-return]

    gradients, value = grad_and_value(loss)(parameters)
    expected = network(obs).square().mean()
    expected.backward()
    torch.testing.assert_close(value, expected.detach())
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad)
    stack = {name: torch.stack((value, value + 0.1)) for name, value in parameters.items()}
    both = torch.vmap(loss)(stack)
    torch.testing.assert_close(both[0], value)
    assert both[1] != both[0]


def test_it_is_one_graph() -> None:
    """Nothing depends on a value: the whole network traces without a break."""
    network, obs = stirred(make(dueling=True)), some_obs()
    torch._dynamo.reset()
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(obs), network(obs))
