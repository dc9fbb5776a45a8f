"""The optimizer on one flat tensor against PyTorch's own, which works parameter by parameter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from flashdqn.config import LearnConfig
from flashdqn.learn.adam import BETA2, RHO_INF, Adam, bias_correction, rectify_scale
from flashdqn.learn.flat import Flat

CONFIGS = {
    "adam": LearnConfig(lr=0.01),
    "adam, large eps": LearnConfig(lr=0.01, adam_eps=0.1),
    "adamw": LearnConfig(lr=0.01, optimizer="adamw"),
    "adamw, decay": LearnConfig(lr=0.01, optimizer="adamw", weight_decay=0.1, adam_eps=1e-3),
    "radam": LearnConfig(lr=0.01, optimizer="radam"),
    "radam, large eps": LearnConfig(lr=0.01, optimizer="radam", adam_eps=0.1),
}
THEIRS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "radam": torch.optim.RAdam}
STEPS = 50
configs = pytest.mark.parametrize("config", CONFIGS.values(), ids=list(CONFIGS))
ways = pytest.mark.parametrize("formula", [False, True], ids=["step", "formula"])


def make(config: LearnConfig) -> tuple[nn.Module, Adam]:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 7), nn.Linear(7, 2, bias=False))
    return module, Adam(config, Flat(module), torch.tensor(config.lr))


def gradients(adam: Adam, count: int) -> list[Tensor]:
    """Of very different sizes, and zero for a while in some places."""
    generator = torch.Generator().manual_seed(5)
    drawn = []
    for _ in range(count):
        pieces = {
            name: torch.randn(piece.shape, generator=generator)
            * 10 ** (4 * torch.rand(piece.shape, generator=generator) - 3)
            * (torch.rand(piece.shape, generator=generator) < 0.8)
            for name, piece in adam.flat.split(adam.flat.values).items()
        }
        drawn.append(adam.flat.join(pieces))
    return drawn


def rate(step: int) -> float:
    """A learning rate that falls, and jumps."""
    return 0.01 * (1 - step / 60) * (3 if step % 7 == 0 else 1)


def advance(adam: Adam, gradient: Tensor, formula: bool, step: int) -> None:
    adam.lr.fill_(rate(step))
    adam.flat.gradient.copy_(gradient)
    if formula:
        adam.step_by_formula(gradient)
    else:
        adam.step()


@configs
@ways
def test_equals_pytorch_over_many_steps(config: LearnConfig, formula: bool) -> None:
    module, adam = make(config)
    theirs = [parameter.detach().double().requires_grad_() for parameter in module.parameters()]
    optimizer = THEIRS[config.optimizer](  # in float64, as the truth
        theirs, lr=config.lr, eps=config.adam_eps, weight_decay=config.weight_decay
    )
    for step, gradient in enumerate(gradients(adam, STEPS)):
        advance(adam, gradient, formula, step)
        optimizer.param_groups[0]["lr"] = rate(step)
        for parameter, piece in zip(theirs, adam.flat.split(gradient).values(), strict=True):
            parameter.grad = piece.double()
        optimizer.step()
        for ours, expected in zip(module.parameters(), theirs, strict=True):  # RAdam: from the first step on,
            torch.testing.assert_close(ours.double(), expected.detach(), rtol=1e-5, atol=2e-6)  # ρ_6 > 5
    assert float(adam.steps) == STEPS
    moments = adam.flat.split(adam.first), adam.flat.split(adam.second)
    for parameter, first, second in zip(theirs, *(m.values() for m in moments), strict=True):
        state: Any = optimizer.state[parameter]
        torch.testing.assert_close(first.double(), state["exp_avg"], rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(second.double(), state["exp_avg_sq"], rtol=1e-5, atol=1e-7)


def test_corrections_keep_their_digits_in_float32() -> None:
    """1 − 0.999^t is small at first, and ρ_t the small difference of large numbers."""
    for step in (1, 2, 5, 6, 7, 50, 1000, 100_000):
        exact = 1 - BETA2**step
        assert float(bias_correction(BETA2, torch.tensor(float(step)))) == pytest.approx(exact, rel=1e-6)
        rho = RHO_INF - 2 * step * (1 - exact) / exact
        square = (rho - 4) * (rho - 2) * RHO_INF / ((RHO_INF - 4) * (RHO_INF - 2) * rho)
        expected = square**0.5 if rho > 5 else 1.0
        found = rectify_scale(torch.tensor(float(step)), torch.ones(1))
        assert float(found) == pytest.approx(expected, rel=2e-4)


@configs
@ways
def test_resumed_equals_uninterrupted_bit_by_bit(config: LearnConfig, formula: bool) -> None:
    (_, through), (_, first), (_, second) = (make(config) for _ in range(3))
    steps = list(enumerate(gradients(through, 20)))
    for step, gradient in steps:
        advance(through, gradient, formula, step)
    for step, gradient in steps[:9]:
        advance(first, gradient, formula, step)
    places = [tensor.data_ptr() for tensor in second.state_dict().values()]
    second.load_state_dict({name: tensor.clone() for name, tensor in first.state_dict().items()})
    second.flat.values.copy_(first.flat.values)
    assert [tensor.data_ptr() for tensor in second.state_dict().values()] == places
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name])
    for step, gradient in steps[9:]:
        advance(second, gradient, formula, step)
    assert torch.equal(second.flat.values, through.flat.values)
    for name, tensor in through.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name])


@configs
def test_both_ways_agree_and_a_checkpoint_of_one_serves_the_other(config: LearnConfig) -> None:
    (_, one), (_, other) = make(config), make(config)
    for step, gradient in enumerate(gradients(one, 20)):
        advance(one, gradient, step % 2 == 0, step)
        advance(other, gradient, step % 2 == 1, step)
    torch.testing.assert_close(one.flat.values, other.flat.values, rtol=1e-5, atol=1e-6)


def test_a_learning_rate_of_zero_moves_nothing() -> None:
    for config in CONFIGS.values():
        _, adam = make(replace(config))
        before = adam.flat.values.clone()
        adam.lr.zero_()
        adam.flat.gradient.fill_(1.0)
        adam.step()
        assert torch.equal(adam.flat.values, before)
