"""`td_loss`, heads and bootstraps on tables of Q, against numbers worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

from flashdqn.core.ops import masked_argmax
from flashdqn.core.types import Batch, Transition
from flashdqn.learn.bootstraps import BOOTSTRAPS, Bootstrap, double_target, greedy_target
from flashdqn.learn.heads import ScalarHead
from flashdqn.learn.loss import td_loss

ONLINE = torch.tensor([[1.0, 2.0, 0.0], [3.0, 5.0, 4.0], [0.5, -1.0, 9.0]])  # Q(s, a)
TARGET = torch.tensor([[0.0, 0.0, 0.0], [10.0, 2.0, 6.0], [-2.0, 1.0, 8.0]])  # Q⁻(s, a)


def lookup(table: Tensor) -> Callable[[Tensor], Tensor]:
    """A network whose observations are the numbers of its rows."""
    return lambda obs: table[obs]


def make_batch(
    obs: list[int],
    action: list[int],
    reward: list[float],
    discount: list[float],
    next_obs: list[int],
    mask: list[list[bool]] | None = None,
    weight: list[float] | None = None,
) -> Batch:
    transition = Transition(
        torch.tensor(obs),
        torch.tensor(action),
        torch.tensor(reward),
        torch.tensor(discount),
        torch.tensor(next_obs),
        None if mask is None else torch.tensor(mask),
    )
    weights = torch.ones(len(obs)) if weight is None else torch.tensor(weight)
    return Batch(transition, weights, torch.zeros(len(obs), dtype=torch.int64))


#: (0, action 1) → state 1 with reward 1, discount ½; (2, action 0) → state 2 with reward −1, discount ¼
TWO = ([0, 2], [1, 0], [1.0, -1.0], [0.5, 0.25], [1, 2])


def goals(bootstrap: Bootstrap, batch: Batch) -> list[float]:
    return bootstrap(lookup(ONLINE), lookup(TARGET), batch.transition, ScalarHead(1.0)).tolist()


def test_greedy_takes_the_largest_value_of_the_target() -> None:
    assert goals(greedy_target, make_batch(*TWO)) == [1 + 0.5 * 10, -1 + 0.25 * 8]


def test_double_lets_online_choose_and_target_judge() -> None:
    """Online likes action 1 in state 1, which the target thinks worth 2; action 2 in state 2, worth 8."""
    assert goals(double_target, make_batch(*TWO)) == [1 + 0.5 * 2, -1 + 0.25 * 8]


def test_the_largest_q_does_not_count_where_it_is_illegal() -> None:
    mask = [[False, True, True], [True, True, False]]
    batch = make_batch(*TWO, mask=mask)
    assert goals(greedy_target, batch) == [1 + 0.5 * 6, -1 + 0.25 * 1]
    # online: among 5 and 4 action 1; among 0.5 and −1 action 0
    assert goals(double_target, batch) == [1 + 0.5 * 2, -1 + 0.25 * -2]


@pytest.mark.parametrize("name", BOOTSTRAPS)
def test_a_terminated_row_without_legal_actions_has_its_reward_as_target(name: str) -> None:
    mask = [[False, False, False], [False, True, False]]
    batch = make_batch([0, 2], [1, 0], [7.0, -1.0], [0.0, 0.25], [1, 2], mask)
    assert goals(BOOTSTRAPS[name], batch) == [7.0, -1 + 0.25 * 1]
    loss = td_loss(lookup(ONLINE), lookup(TARGET), batch, ScalarHead(1.0), BOOTSTRAPS[name])
    assert math.isfinite(loss.loss)


def test_masked_argmax_prefers_the_least_bad_legal_action() -> None:
    q = torch.tensor([[-5.0, -7.0, 0.0], [-5.0, -7.0, 0.0]])
    assert masked_argmax(q, None).tolist() == [2, 2]
    assert masked_argmax(q, torch.tensor([[True, True, False], [False, True, False]])).tolist() == [0, 1]


# ---- the whole loss; the goals are 6 and 1 with greedy, Q(s, a) is 2 and ½: errors −4 and −½


@pytest.mark.parametrize(
    ("huber", "losses"),
    [
        (0.0, [0.5 * 16, 0.5 * 0.25]),
        (1.0, [1 * (4 - 0.5), 0.5 * 0.25]),
        (2.0, [2 * (4 - 1.0), 0.5 * 0.25]),
        (0.25, [0.25 * (4 - 0.125), 0.25 * (0.5 - 0.125)]),
        (100.0, [0.5 * 16, 0.5 * 0.25]),
    ],
)
def test_huber_and_squared_loss(huber: float, losses: list[float]) -> None:
    result = td_loss(lookup(ONLINE), lookup(TARGET), make_batch(*TWO), ScalarHead(huber), greedy_target)
    assert float(result.loss) == pytest.approx(sum(losses) / 2)
    assert result.priority.tolist() == [4.0, 0.5]  # |error|, whatever the loss
    assert float(result.q) == (2.0 + 0.5) / 2


def test_weights_scale_each_sample_and_not_its_priority() -> None:
    batch = make_batch(*TWO, weight=[0.0, 3.0])
    result = td_loss(lookup(ONLINE), lookup(TARGET), batch, ScalarHead(0.0), greedy_target)
    assert float(result.loss) == pytest.approx(3 * 0.125 / 2)  # a mean over the batch, not over the weights
    assert result.priority.tolist() == [4.0, 0.5]


@pytest.mark.parametrize("huber", [0.0, 1.0])
def test_the_gradient_by_hand(huber: float) -> None:
    """d loss / d Q(s, a) is weight · error / B, clipped to ±δ by Huber; every other Q gets none."""
    table = ONLINE.clone().requires_grad_()
    result = td_loss(
        lookup(table), lookup(TARGET), make_batch(*TWO, weight=[1.0, 0.5]), ScalarHead(huber), greedy_target
    )
    result.loss.backward()  # type: ignore[no-untyped-call]
    expected = torch.zeros(3, 3)
    expected[0, 1] = (-4.0 if huber == 0 else -huber) / 2
    expected[2, 0] = 0.5 * -0.5 / 2
    torch.testing.assert_close(table.grad, expected)


@pytest.mark.parametrize("name", BOOTSTRAPS)
def test_no_gradient_reaches_the_target(name: str) -> None:
    online, target = ONLINE.clone().requires_grad_(), TARGET.clone().requires_grad_()
    result = td_loss(lookup(online), lookup(target), make_batch(*TWO), ScalarHead(1.0), BOOTSTRAPS[name])
    result.loss.backward()  # type: ignore[no-untyped-call]
    assert target.grad is None
    assert online.grad is not None
    assert online.grad[1].count_nonzero() == 0  # nor through the choice that double makes in state 1
    assert not result.priority.requires_grad
    assert not result.q.requires_grad


def test_the_scalar_head_is_the_network() -> None:
    head = ScalarHead(1.0)
    assert head.size == 1
    assert head.q(ONLINE) is ONLINE


# ---- many agents at once


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def random_batch(seed: int, size: int = 6) -> Batch:
    g = torch.Generator().manual_seed(seed)
    transition = Transition(
        torch.randn(size, 4, generator=g),
        torch.randint(3, (size,), generator=g),
        torch.randn(size, generator=g) * 3,
        torch.rand(size, generator=g),
        torch.randn(size, 4, generator=g),
        torch.rand((size, 3), generator=g) < 0.7,
        torch.rand((size, 3), generator=g) < 0.7,
    )
    return Batch(transition, torch.rand(size, generator=g), torch.arange(size))


@pytest.mark.parametrize("huber", [0.0, 1.0])
@pytest.mark.parametrize("name", BOOTSTRAPS)
def test_td_loss_maps_over_a_stack_of_agents(name: str, huber: float) -> None:
    with torch.random.fork_rng(devices=[]):
        onlines, targets = [network(i) for i in range(5)], [network(10 + i) for i in range(5)]
    batches = [random_batch(i) for i in range(5)]
    skeleton, head = onlines[0], ScalarHead(huber)

    def loss(online: dict[str, Tensor], target: dict[str, Tensor], batch: Batch) -> tuple[Tensor, Tensor]:
        result = td_loss(
            lambda obs: functional_call(skeleton, online, (obs,)),
            lambda obs: functional_call(skeleton, target, (obs,)),
            batch,
            head,
            BOOTSTRAPS[name],
        )
        return result.loss, result.priority

    stacked = Batch(
        Transition(*(torch.stack(column) for column in zip(*(b.transition for b in batches), strict=True))),
        torch.stack([b.weight for b in batches]),
        torch.stack([b.index for b in batches]),
    )
    online_stack, target_stack = stack_module_state(onlines)[0], stack_module_state(targets)[0]
    axes = Batch(Transition(*(None if x is None else 0 for x in stacked.transition)), 0, 0, None)  # type: ignore[arg-type]
    mapped = vmap(grad(loss, has_aux=True), in_dims=(0, 0, axes))
    gradients, priorities = mapped(online_stack, target_stack, stacked)

    for i, (online, target, batch) in enumerate(zip(onlines, targets, batches, strict=True)):
        alone = td_loss(online, target, batch, head, BOOTSTRAPS[name])
        alone.loss.backward()  # type: ignore[no-untyped-call]
        torch.testing.assert_close(priorities[i], alone.priority)
        for key, parameter in online.named_parameters():
            torch.testing.assert_close(gradients[key][i], parameter.grad)
