"""The network that gives a value for every cell: shapes, sizes, heads, what it refuses, and what it costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from flashdqn.config import NetworkConfig
from flashdqn.config.presets import base_config
from flashdqn.core.contract import ObsSpec
from flashdqn.core.errors import ConfigError
from flashdqn.networks import build_network, make_target
from flashdqn.networks.build import QNetwork
from flashdqn.networks.cells import SpatialAttention
from flashdqn.networks.implicit import Fractions

SMALL = NetworkConfig(torso="cells", channels=(8, 12), attention=2, hidden=(16,))


def build(config: NetworkConfig, size: int = 9, per_action: int = 1) -> QNetwork:
    spec = ObsSpec((14, size, size), torch.float32)
    generator = torch.Generator().manual_seed(0)
    return build_network(config, spec, size * size, generator, per_action)


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("per_action", [1, 5])
def test_every_cell_gets_its_numbers(dueling: bool, noisy: bool, per_action: int) -> None:
    network = build(replace(SMALL, dueling=dueling, noisy=noisy, layer_norm=noisy), per_action=per_action)
    output = network(torch.randn(3, 14, 9, 9))
    assert output.shape == (3, 81 * per_action)
    output.sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_weights_fit_grids_of_any_size() -> None:
    one, other = build(SMALL, 9), build(SMALL, 14)
    other.load_state_dict(one.state_dict())
    planes = torch.randn(1, 14, 14, 14)
    assert other(planes).shape == (1, 196)


def test_numbers_of_a_cell_lie_together_and_in_the_order_of_the_cells() -> None:
    """A change in one cell is felt around it; blocks start as if they were not there, so no farther than the
    stem."""
    network = build(replace(SMALL, channels=(8,), attention=0), size=20, per_action=3)
    planes = torch.randn((1, 14, 20, 20), generator=torch.Generator().manual_seed(1))
    changed = planes.clone()
    changed[0, :, 2, 3] += 1.0
    felt = (network(planes) != network(changed)).view(20, 20, 3).any(-1).nonzero()
    assert felt.tolist() == [[row, column] for row in (1, 2, 3) for column in (2, 3, 4)]


def test_attention_tells_far_cells_and_starts_silent() -> None:
    attention = SpatialAttention(6, heads=2)
    attention.start_as_skip()
    planes = torch.randn(2, 6, 7, 5)
    assert torch.equal(attention(planes), planes)
    torch.nn.init.normal_(attention.tell.weight)
    far = planes.clone()
    far[:, :, 6, 4] += 3.0
    assert (attention(planes)[:, :, 0, 0] != attention(far)[:, :, 0, 0]).any()
    # By hand: the softmax of the scores weighs the cells, head by head.
    flat = planes.flatten(2).transpose(1, 2)
    weights = torch.softmax(attention.score(flat), 1)
    context = torch.stack([(weights[:, :, h : h + 1] * flat).sum(1) for h in range(2)], 1).flatten(1)
    expected = planes + attention.tell(context)[:, :, None, None]
    torch.testing.assert_close(attention(planes), expected)


def test_dueling_values_have_the_value_as_their_mean() -> None:
    network = build(replace(SMALL, dueling=True))
    planes = torch.randn(2, 14, 9, 9)
    features = network.features(planes)
    value = network.output.value(features.mean(1))  # type: ignore[operator, union-attr]
    torch.testing.assert_close(network(planes).mean(1, keepdim=True), value)


def test_the_target_shares_the_decoder() -> None:
    network = build(SMALL)
    network.decoder = FakeDecoder()
    assert make_target(network).decoder is network.decoder  # type: ignore[union-attr]
    assert not any("decoder" in name for name in network.state_dict())


class FakeDecoder:
    shape = (14, 9, 9)

    def __call__(self, obs: torch.Tensor) -> torch.Tensor:
        return obs.float()

    def legal(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.ones(len(obs), 81, dtype=torch.bool)

    def __deepcopy__(self, memo: object) -> FakeDecoder:
        return self


def test_what_has_no_cells_is_refused() -> None:
    spec, generator = ObsSpec((14, 9, 9), torch.float32), torch.Generator()
    with pytest.raises(ConfigError, match="one value for each of 9 x 9 cells, and the task has 4 actions"):
        build_network(SMALL, spec, 4, generator)
    with pytest.raises(ConfigError, match="channels, height, width"):
        build_network(SMALL, ObsSpec((20,), torch.float32), 20, generator)
    with pytest.raises(ConfigError, match=r"does not go with learn.head iqn"):
        build_network(SMALL, spec, 81, generator, fractions=Fractions(8, 8, 8))


def test_the_planning_network_takes_a_third_of_a_gflop() -> None:
    config = base_config("fuelbreaks").network
    network = build(config, size=10)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.zeros(1, 14, 10, 10))
    assert 0.28e9 < 25 * counter.get_total_flops() < 0.33e9, "50x50 cells are 25 times 10x10"


def test_it_computes_in_bfloat16_but_answers_in_float32() -> None:
    network = build(replace(SMALL, dueling=True))
    planes = torch.randn(2, 14, 9, 9)
    with torch.autocast("cpu", torch.bfloat16):
        output = network(planes)
    assert output.dtype == torch.float32
    torch.testing.assert_close(output, network(planes), rtol=0.1, atol=0.05)
