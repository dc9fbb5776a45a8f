"""Flat parameters: one tensor behind any module, which notices nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from flashdqn.config import LearnConfig, NetworkConfig
from flashdqn.core.contract import ObsSpec
from flashdqn.learn.adam import Adam
from flashdqn.learn.flat import ALIGNMENT, Flat
from flashdqn.networks import build_network
from flashdqn.runs import checkpoint

COUNTERS = {"transitions": 7, "episodes": 1, "updates": 3}


def built(shape: tuple[int, ...], **options: object) -> nn.Module:
    config = NetworkConfig(hidden=(24, 17), channels=(5, 7), **options)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(0)
    return build_network(config, ObsSpec(shape, torch.float32), 3, generator)


def with_frozen() -> nn.Module:
    module = nn.Sequential(nn.Linear(11, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    module[0].weight.requires_grad_(False)
    return module.eval()


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (lambda: built((11,)), (11,)),
    "layer norm": (lambda: built((11,), layer_norm=True), (11,)),
    "cnn": (lambda: built((3, 4, 4), torso="cnn", dueling=True, noisy=True), (3, 4, 4)),
    "resnet": (
        lambda: built((3, 4, 4), torso="resnet", dueling=True, noisy=True, layer_norm=True),
        (3, 4, 4),
    ),
    "frozen": (with_frozen, (11,)),
}
modules = pytest.mark.parametrize("name", MODULES)


def make(name: str) -> tuple[nn.Module, Tensor]:
    build, shape = MODULES[name]
    module = build()
    generator = torch.Generator().manual_seed(1)
    return module, torch.randn(8, *shape, generator=generator)


def addresses(module: nn.Module) -> list[int]:
    return [parameter.data_ptr() for parameter in module.parameters()]


@modules
def test_the_module_computes_what_it_did_and_its_parameters_are_views(name: str) -> None:
    module, obs = make(name)
    before, state = module(obs), copy.deepcopy(module.state_dict())
    flat = Flat(module)
    assert torch.equal(module(obs), before)
    assert all(torch.equal(tensor, state[key]) for key, tensor in module.state_dict().items())
    first, size = flat.values.data_ptr(), 4 * flat.values.numel()
    for parameter in module.parameters():
        offset = parameter.data_ptr() - first
        assert 0 <= offset < size
        assert offset % (4 * ALIGNMENT) == 0
    flat.values.mul_(2)
    assert not torch.equal(module(obs), before)


@modules
def test_gradients_land_in_one_tensor_and_buffers_stay_outside(name: str) -> None:
    module, obs = make(name)
    expected = copy.deepcopy(module)
    expected(obs).square().mean().backward()
    buffers = {key: (buffer.data_ptr(), buffer.clone()) for key, buffer in module.named_buffers()}
    flat = Flat(module)
    module(obs).square().mean().backward()
    views = flat.split(flat.gradient)
    for key, parameter in expected.named_parameters():
        if parameter.grad is None:
            assert not parameter.requires_grad
            assert dict(module.named_parameters())[key].grad is None
            assert not views[key].any()
        else:
            torch.testing.assert_close(views[key], parameter.grad)
    before = flat.gradient.clone()
    module(obs).square().mean().backward()  # a second one is added where the first lies
    torch.testing.assert_close(flat.gradient, 2 * before)
    for key, buffer in module.named_buffers():
        assert buffer.data_ptr() == buffers[key][0]
        assert torch.equal(buffer, buffers[key][1])


@modules
def test_split_and_join_are_inverse(name: str) -> None:
    module, _ = make(name)
    flat = Flat(module)
    assert torch.equal(flat.join(flat.split(flat.values)), flat.values)
    pieces = {key: torch.randn_like(piece) for key, piece in flat.split(flat.values).items()}
    again = flat.split(flat.join(pieces))
    assert again.keys() == pieces.keys() == dict(module.named_parameters()).keys()
    assert all(torch.equal(again[key], piece) for key, piece in pieces.items())


def padding(flat: Flat, tensor: Tensor) -> Tensor:
    used = flat.join({key: torch.ones_like(piece) for key, piece in flat.split(flat.values).items()})
    return tensor[used == 0]


@pytest.mark.parametrize("name", ["mlp", "resnet"])
@pytest.mark.parametrize("formula", [False, True])
def test_padding_stays_zero(name: str, formula: bool) -> None:
    module, obs = make(name)
    flat = Flat(module)
    assert len(padding(flat, flat.values)) > 0
    adam = Adam(LearnConfig(optimizer="adamw", weight_decay=0.1), flat, torch.tensor(0.01))
    for _ in range(5):
        flat.gradient.zero_()
        module(obs).square().mean().backward()
        if formula:
            adam.step_by_formula(flat.gradient)
        else:
            adam.step()
    for tensor in (flat.values, flat.gradient, adam.first, adam.second):
        assert not padding(flat, tensor).any()


def test_a_frozen_parameter_stays_without_weight_decay() -> None:
    module, obs = make("frozen")
    flat = Flat(module)
    before = {name: piece.clone() for name, piece in flat.split(flat.values).items()}
    module(obs).square().mean().backward()
    Adam(LearnConfig(), flat, torch.tensor(0.01)).step()
    moved = {
        name for name, parameter in module.named_parameters() if not torch.equal(parameter, before[name])
    }
    assert moved == before.keys() - {"0.weight"}


@modules
def test_loading_and_leaving_for_the_same_place_keep_the_addresses(name: str) -> None:
    module, obs = make(name)
    other = copy.deepcopy(module)
    flat = Flat(module)
    before = addresses(module)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1)
    module.load_state_dict(other.state_dict())
    module.to("cpu").float().train(module.training)
    assert addresses(module) == before
    assert torch.equal(module(obs), other(obs))
    assert torch.equal(flat.join(dict(other.named_parameters())), flat.values)


def test_another_dtype_leaves_the_flat_tensor_behind() -> None:
    """So `.to()` comes before `Flat`, never after; `holds` can tell."""
    module, _ = make("mlp")
    flat = Flat(module)
    assert flat.holds(module)
    assert not flat.holds(copy.deepcopy(module))
    assert not flat.holds(module.double())


@modules
def test_copies_are_independent_and_files_hold_the_parameters_alone(name: str, tmp_path: Path) -> None:
    module, obs = make(name)
    flat = Flat(module)
    twin = copy.deepcopy(module)
    assert torch.equal(twin(obs), module(obs))
    flat.values.mul_(0.5)
    assert not torch.equal(twin(obs), module(obs))
    weights = {key: tensor.detach() for key, tensor in module.state_dict().items()}
    path = checkpoint.save(tmp_path, weights, {"flat": flat.values}, COUNTERS)
    assert path.joinpath(checkpoint.WEIGHTS).stat().st_size < 4 * flat.values.numel() + 100 * 100
    loaded, state, counters = checkpoint.load_checkpoint(path, with_state=True)
    assert counters == COUNTERS
    assert torch.equal(state["flat"], flat.values)
    twin.load_state_dict(loaded)
    assert torch.equal(twin(obs), module(obs))
