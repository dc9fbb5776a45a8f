"""The heads against naive twins by loops, and against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from flashdqn.learn.distributional import (
    CategoricalHead,
    ImplicitQuantileHead,
    QuantileHead,
    project_distribution,
    project_without_scatter,
    quantile_huber_loss,
)
from flashdqn.learn.heads import Head, ScalarHead
from flashdqn.networks.implicit import Fractions, pack_quantiles

CPU = torch.device("cpu")


def tensor(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float32)


# ---- C51


def naive_projection(
    probability: list[float], reward: float, discount: float, v_min: float, v_max: float
) -> list[float]:
    """Algorithm 1 of Bellemare et al. 2017, atom by atom."""
    atoms = len(probability)
    step = (v_max - v_min) / (atoms - 1)
    projected = [0.0] * atoms
    for j, mass in enumerate(probability):
        shifted = min(max(reward + discount * (v_min + j * step), v_min), v_max)
        place = min((shifted - v_min) / step, atoms - 1)  # rounding may carry it past the last atom
        lower, upper = math.floor(place), math.ceil(place)
        if lower == upper:
            projected[lower] += mass
        else:
            projected[lower] += mass * (upper - place)
            projected[upper] += mass * (place - lower)
    return projected


def run_projection(
    probability: list[float], reward: float, discount: float, v_min: float, v_max: float
) -> Tensor:
    head = CategoricalHead(len(probability), v_min, v_max, CPU)
    return project_distribution(
        tensor(*probability)[None], tensor(reward), tensor(discount), head.support, v_min, head.step
    )[0]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=12).filter(lambda ps: sum(ps) > 0.1),
    st.floats(-30, 30),
    st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1)),
    st.floats(-10, 5),
    st.floats(0.5, 20),
)
def test_projection_equals_the_loops(
    masses: list[float], reward: float, discount: float, v_min: float, width: float
) -> None:
    probability = [mass / sum(masses) for mass in masses]
    ours = run_projection(probability, reward, discount, v_min, v_min + width)
    torch.testing.assert_close(
        ours,
        tensor(*naive_projection(probability, reward, discount, v_min, v_min + width)),
        atol=2e-4,
        rtol=0,
    )
    assert float(ours.sum()) == pytest.approx(1, abs=1e-5)  # no mass is lost
    assert float(ours.min()) >= -1e-7


@settings(max_examples=200, deadline=None)
@given(
    st.integers(2, 60),
    st.integers(1, 5),
    st.floats(-10, 5),
    st.floats(0.5, 200),
    st.integers(0, 2**31),
)
def test_sharing_out_without_scattering_is_the_same_projection(
    atoms: int, rows: int, v_min: float, width: float, seed: int
) -> None:
    """What CUDA does, here on the CPU; rewards reach beyond both ends, and some returns fall on an atom."""
    generator = torch.Generator().manual_seed(seed)
    head = CategoricalHead(atoms, v_min, v_min + width, CPU)
    probability = torch.randn(rows, atoms, generator=generator).mul(4).softmax(1)
    reward = v_min + width * (3 * torch.rand(rows, generator=generator) - 1)
    reward[0] = head.support[-1]
    discount = torch.where(
        torch.rand(rows, generator=generator) < 0.3, 0.0, torch.rand(rows, generator=generator)
    )
    scattered = project_distribution(probability, reward, discount, head.support, v_min, head.step)
    shifted = reward[:, None] + discount[:, None] * head.support
    shared = project_without_scatter(probability, ((shifted - v_min) / head.step).clamp(0, atoms - 1))
    torch.testing.assert_close(shared, scattered, rtol=0, atol=1e-4)
    torch.testing.assert_close(shared.sum(1), torch.ones(rows), rtol=0, atol=1e-5)


@settings(max_examples=50, deadline=None)
@given(st.floats(-3, 3), st.floats(0, 1), st.lists(st.floats(0.01, 1), min_size=21, max_size=21))
def test_inside_the_support_the_projection_keeps_the_mean(
    reward: float, discount: float, masses: list[float]
) -> None:
    """Which is why C51's Q is exact where returns lie between the ends."""
    probability = [mass / sum(masses) for mass in masses]
    support = torch.linspace(-10, 10, 21)
    inside = [p if abs(z) <= 6 else 0.0 for p, z in zip(probability, support.tolist(), strict=True)]
    ours = run_projection(inside, reward, discount, -10, 10)
    mean = sum(p * (reward + discount * z) for p, z in zip(inside, support.tolist(), strict=True))
    assert float(ours @ support) == pytest.approx(mean, abs=1e-4)


def test_projection_by_hand() -> None:
    """Atoms 0, 1, 2. All the mass at 1, r = ½, γ = ½: it falls on 1. At 2: on 1½, half to each neighbor."""
    assert run_projection([0, 1, 0], 0.5, 0.5, 0, 2).tolist() == [0, 1, 0]
    assert run_projection([0, 0, 1], 0.5, 0.5, 0, 2).tolist() == [0, 0.5, 0.5]


@pytest.mark.parametrize(("reward", "atom"), [(-10.0, 0), (-1.0, 1), (0.0, 2), (2.0, 4), (99.0, 4)])
def test_without_discount_all_mass_is_at_the_reward_or_the_end_beyond_which_it_lies(
    reward: float, atom: int
) -> None:
    expected = [1.0 if i == atom else 0.0 for i in range(5)]
    assert run_projection([0.2] * 5, reward, 0.0, -2, 2).tolist() == pytest.approx(expected, abs=1e-6)


def test_categorical_by_hand() -> None:
    """Atoms 0, 1, 2; action 0 is even over all, action 1 has odds 1 : 1 : 2."""
    head = CategoricalHead(3, 0.0, 2.0, CPU)
    output = torch.tensor([[5.0, 5.0, 5.0, 0.0, 0.0, math.log(2)]])
    torch.testing.assert_close(head.q(output), tensor(1.0, 0.25 + 2 * 0.5)[None])
    value = head.select(output, torch.tensor([1]))
    assert value.tolist() == output[:, 3:].tolist()
    torch.testing.assert_close(head.mean(value), tensor(1.25))
    target = tensor(0.0, 0.5, 0.5)[None]
    loss, priority = head.compare(value, target)
    cross = -(0.5 * math.log(0.25) + 0.5 * math.log(0.5))
    assert loss.item() == pytest.approx(cross)
    assert priority.item() == pytest.approx(cross - math.log(2))  # the target's entropy is log 2
    assert head.compare(value, value.softmax(1))[1].item() == pytest.approx(0, abs=1e-6)
    mixture = head.expect(output, tensor(0.5, 0.5)[None]).exp()
    torch.testing.assert_close(
        mixture, tensor((1 / 3 + 0.25) / 2, (1 / 3 + 0.25) / 2, (1 / 3 + 0.5) / 2)[None]
    )


# ---- quantiles


@settings(max_examples=100)
@given(atoms=st.integers(2, 101), v_min=st.floats(-200, 50), width=st.floats(1.0, 400))
def test_the_first_expected_return_is_near_zero(atoms: int, v_min: float, width: float) -> None:
    head = CategoricalHead(atoms, v_min, v_min + width, CPU)
    start = head.start_at_zero()
    nearest = min(max(0.0, v_min), v_min + width)  # a support may not contain 0
    likely = head.support[start.argmax()].item()
    assert abs(likely - nearest) <= head.step / 2 + 1e-3
    middle, mean = v_min + width / 2, head.q(start[None])[0, 0].item()
    # Closer than the middle, where it would be if all atoms were equally likely; or within an atom or two.
    assert abs(mean - nearest) <= max(0.1 * abs(middle - nearest), 2 * head.step) + 1e-3


def test_the_first_expected_return_by_hand() -> None:
    head = CategoricalHead(3, -1.0, 1.0, CPU)
    assert head.start_at_zero().tolist() == [-1.0, 0.0, -1.0]
    snake = CategoricalHead(51, -20.0, 320.0, CPU)
    assert 0.0 < snake.q(snake.start_at_zero()[None])[0, 0] < 3.0


def naive_quantile_huber(
    value: list[float], tau: list[float], target: list[float], kappa: float
) -> tuple[float, float]:
    loss, distance = 0.0, 0.0
    for theta, fraction in zip(value, tau, strict=True):
        inner = 0.0
        for goal in target:
            u = goal - theta
            if kappa == 0:
                size = abs(u)
            elif abs(u) <= kappa:
                size = 0.5 * u * u / kappa
            else:
                size = abs(u) - 0.5 * kappa
            inner += abs(fraction - (1 if u < 0 else 0)) * size
            distance += abs(u)
        loss += inner / len(target)
    return loss, distance / (len(value) * len(target))


numbers = st.lists(st.floats(-5, 5), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(0, 1)), min_size=1, max_size=6),
    numbers,
    st.sampled_from([0.0, 0.3, 1.0, 4.0]),
)
def test_quantile_huber_equals_the_loops(
    pairs: list[tuple[float, float]], target: list[float], kappa: float
) -> None:
    value, tau = [p[0] for p in pairs], [p[1] for p in pairs]
    loss, priority = quantile_huber_loss(
        tensor(*value)[None], tensor(*tau)[None], tensor(*target)[None], kappa
    )
    expected = naive_quantile_huber(value, tau, target, kappa)
    assert (loss.item(), priority.item()) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_quantiles_by_hand() -> None:
    """θ = (0, 2) at τ = ¼ and ¾, one target 1, κ = 1. u = 1 and −1: ¼ · ½ + |¾ − 1| · ½ = ¼."""
    head = QuantileHead(2, 1.0, CPU)
    output = torch.tensor([[0.0, 2.0, 5.0, 7.0]])
    assert head.q(output).tolist() == [[1.0, 6.0]]
    value = head.select(output, torch.tensor([0]))
    assert head.mean(value).tolist() == [1.0]
    loss, priority = head.compare(value, tensor(1.0)[None])
    assert (loss.item(), priority.item()) == (0.25, 1.0)
    assert head.target(value, tensor(10.0), tensor(0.5)).tolist() == [[10.0, 11.0]]
    assert head.expect(output, tensor(0.75, 0.25)[None]).tolist() == [[1.25, 3.25]]


@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_the_gradient_of_a_quantile_pulls_by_its_fraction(kappa: float) -> None:
    """Far above its target a quantile is pulled down with 1 − τ, far below up with τ."""
    value = torch.tensor([[-50.0, 50.0]], requires_grad=True)
    loss, _ = quantile_huber_loss(value, tensor(0.1, 0.8)[None], torch.zeros(1, 3), kappa)
    loss.sum().backward()  # type: ignore[no-untyped-call]
    assert value.grad is not None
    assert value.grad[0].tolist() == pytest.approx([-0.1, 0.2], abs=1e-6)


def test_implicit_quantiles_are_quantiles_at_their_fractions() -> None:
    """The same numbers through both heads; the mean that chooses is the network's own row."""
    implicit, fixed = ImplicitQuantileHead(Fractions(2, 2, 2), 1.0), QuantileHead(2, 1.0, CPU)
    quantiles = torch.tensor([[[0.0, 5.0], [2.0, 7.0]]])  # [B, n, A]
    output = pack_quantiles(torch.tensor([[[9.0, 8.0]]]), quantiles, tensor(0.25, 0.75)[None])
    flat = quantiles.transpose(1, 2).flatten(1)
    assert implicit.q(output).tolist() == [[9.0, 8.0]]
    action, policy = torch.tensor([1]), tensor(0.75, 0.25)[None]
    ours, theirs = implicit.select(output, action), fixed.select(flat, action)
    assert ours[..., 0].tolist() == theirs.tolist()
    assert implicit.mean(ours).tolist() == fixed.mean(theirs).tolist()
    assert implicit.expect(output, policy)[..., 0].tolist() == fixed.expect(flat, policy).tolist()
    goal = implicit.target(ours, tensor(1.0), tensor(0.5))
    assert goal.tolist() == fixed.target(theirs, tensor(1.0), tensor(0.5)).tolist()
    for one, other in zip(implicit.compare(ours, goal), fixed.compare(theirs, goal), strict=True):
        torch.testing.assert_close(one, other)


# ---- what all heads share


HEADS: dict[str, Head] = {
    "scalar": ScalarHead(1.0),
    "categorical": CategoricalHead(7, -3.0, 3.0, CPU),
    "quantile": QuantileHead(5, 1.0, CPU),
}


@pytest.mark.parametrize("name", HEADS)
def test_q_is_the_mean_of_what_is_selected_and_expect_its_average(name: str) -> None:
    head, g = HEADS[name], torch.Generator().manual_seed(0)
    output = torch.randn(6, 3 * head.size, generator=g)
    q = head.q(output)
    for a in range(3):
        action = torch.full((6,), a)
        torch.testing.assert_close(head.mean(head.select(output, action)), q[:, a])
    policy = torch.rand(6, 3, generator=g).softmax(1)
    torch.testing.assert_close(
        head.mean(head.expect(output, policy)), (policy * q).sum(1), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("name", HEADS)
def test_the_loss_falls_to_its_least_where_value_and_target_agree(name: str) -> None:
    """And no gradient is left there."""
    head, g = HEADS[name], torch.Generator().manual_seed(1)
    output = torch.randn(4, 2 * head.size, generator=g)
    value = head.select(output, torch.zeros(4, dtype=torch.int64)).requires_grad_()
    reward, discount = torch.zeros(4), torch.zeros(4) if name == "quantile" else torch.ones(4)
    goal = head.target(value.detach(), reward, discount)
    if name == "quantile":
        value = goal.clone().requires_grad_()  # a certain return: all quantiles are one
    loss, priority = head.compare(value, goal)
    loss.sum().backward()  # type: ignore[no-untyped-call]
    assert value.grad is not None
    torch.testing.assert_close(value.grad, torch.zeros_like(value), atol=1e-5, rtol=0)
    torch.testing.assert_close(priority, torch.zeros(4), atol=1e-5, rtol=0)
