"""Munchausen's target against a twin by loops, masks in the soft policy, and every head under every bootstrap."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from toy_envs import MaskedBandit

from flashdqn.config import Config, LearnConfig, NetworkConfig, ReplayConfig
from flashdqn.core.contract import ObsSpec
from flashdqn.core.errors import ConfigError
from flashdqn.core.types import Batch, Transition
from flashdqn.learn.bootstraps import Munchausen, soft_policy
from flashdqn.learn.build import build_bootstrap, build_head
from flashdqn.learn.heads import ScalarHead
from flashdqn.learn.loss import td_loss
from flashdqn.networks import build_network, make_target
from flashdqn.networks.noisy import Noise, is_noisy
from flashdqn.networks.roles import set_fraction_generator
from flashdqn.training.assemble import assemble_parts

CPU = torch.device("cpu")
HEADS = ("scalar", "categorical", "quantile", "iqn")
BOOTSTRAPS = ("greedy", "double", "munchausen")
RULE = Munchausen(alpha=0.9, tau=0.03, clip=-1.0)


def lookup(table: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda obs: table[obs]


# ---- the soft policy


def naive_log_policy(q: list[float], legal: list[bool], tau: float) -> list[float | None]:
    """log π of the legal actions, in exact-ish arithmetic; None for the others."""
    best = max(value for value, allowed in zip(q, legal, strict=True) if allowed)
    total = sum(math.exp((v - best) / tau) for v, allowed in zip(q, legal, strict=True) if allowed)
    return [
        (v - best) / tau - math.log(total) if allowed else None for v, allowed in zip(q, legal, strict=True)
    ]


def naive_target(
    q: list[float],
    legal: list[bool],
    action: int,
    reward: float,
    discount: float,
    next_q: list[float],
    next_legal: list[bool],
    rule: Munchausen,
) -> float:
    now = naive_log_policy(q, legal, rule.tau)[action]
    assert now is not None
    bonus = rule.alpha * min(max(rule.tau * now, rule.clip), 0.0)
    value = 0.0
    for v, log in zip(next_q, naive_log_policy(next_q, next_legal, rule.tau), strict=True):
        if log is not None:
            value += math.exp(log) * (v - rule.tau * log)
    return reward + bonus + discount * value


values = st.lists(st.floats(-50, 50), min_size=3, max_size=3)
masks = st.lists(st.booleans(), min_size=3, max_size=3).filter(any)


@settings(max_examples=200, deadline=None)
@given(values, masks, st.integers(0, 2), st.floats(-5, 5), st.floats(0, 1), values, masks, st.floats(0.02, 3))
def test_munchausen_equals_the_loops(
    q: list[float],
    legal: list[bool],
    wish: int,
    reward: float,
    discount: float,
    next_q: list[float],
    next_legal: list[bool],
    tau: float,
) -> None:
    rule = Munchausen(alpha=0.9, tau=tau, clip=-1.0)
    action = wish if legal[wish] else legal.index(True)
    table = torch.tensor([q, next_q])
    transition = Transition(
        torch.tensor([0]),
        torch.tensor([action]),
        torch.tensor([reward]),
        torch.tensor([discount]),
        torch.tensor([1]),
        torch.tensor([next_legal]),
        torch.tensor([legal]),
    )
    ours = rule(lookup(torch.zeros(2, 3)), lookup(table), transition, ScalarHead(1.0))
    expected = naive_target(q, legal, action, reward, discount, next_q, next_legal, rule)
    assert ours.item() == pytest.approx(expected, abs=1e-3)


def test_munchausen_by_hand() -> None:
    """τ = 1, Q⁻(s) = (0, log 3): π = (¼, ¾). α = ½ of log ¼, clipped at −1; then log 4, the soft maximum of s."""
    table = torch.tensor([[0.0, math.log(3)]])
    transition = Transition(
        torch.zeros(2, dtype=torch.int64),
        torch.tensor([0, 1]),
        torch.tensor([10.0, 10.0]),
        torch.tensor([0.5, 0.0]),
        torch.zeros(2, dtype=torch.int64),
    )
    goal = Munchausen(0.5, 1.0, -1.0)(lookup(table), lookup(table), transition, ScalarHead(1.0))
    assert goal.tolist() == pytest.approx([10 - 0.5 * 1 + 0.5 * math.log(4), 10 + 0.5 * math.log(0.75)])


def test_the_online_network_has_no_say_in_munchausen() -> None:
    def never(obs: Tensor) -> Tensor:
        raise AssertionError

    transition = Transition(
        *(torch.zeros(1, dtype=torch.int64),) * 2, *(torch.ones(1),) * 2, torch.zeros(1).long()
    )
    RULE(never, lookup(torch.ones(1, 2)), transition, ScalarHead(1.0))


def test_illegal_actions_have_no_probability_and_no_say() -> None:
    q = torch.tensor([[1.0, 500.0, 1.0], [3.0, 2.0, 1.0], [-400.0, 0.0, 7.0]])
    mask = torch.tensor([[True, False, True], [True, True, True], [True, False, False]])
    policy, scaled = soft_policy(q, mask, 0.5)
    assert policy[0].tolist() == pytest.approx([0.5, 0.0, 0.5])
    assert policy[2].tolist() == [1.0, 0.0, 0.0]
    assert policy.sum(1).tolist() == pytest.approx([1, 1, 1])
    assert scaled[0].tolist() == pytest.approx([0.5 * math.log(0.5), 0.0, 0.5 * math.log(0.5)])
    torch.testing.assert_close(scaled[1], 0.5 * torch.log_softmax(q[1] / 0.5, 0))


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("bootstrap", BOOTSTRAPS)
def test_what_is_illegal_can_be_worth_anything(head: str, bootstrap: str) -> None:
    """The goal does not change when an illegal action's output does."""
    config = LearnConfig(head=head, bootstrap=bootstrap, atoms=5, v_min=-9, v_max=9, quantiles=4)  # type: ignore[arg-type]
    made, rule = build_head(config, CPU), build_bootstrap(config)
    g = torch.Generator().manual_seed(0)
    shape = (2, 6, 4) if head == "iqn" else (2, 3 * made.size)
    output = torch.randn(shape, generator=g)
    changed = output.clone()
    if head == "iqn":
        changed[..., 1] = 1e4  # action 1 of 3; the last column is τ
    else:
        changed.view(2, 3, -1)[:, 1, -1] += 1e4
    legal = torch.tensor([[True, False, True]])
    transition = Transition(
        torch.tensor([0]),
        torch.tensor([2]),
        torch.ones(1),
        torch.full((1,), 0.9),
        torch.tensor([1]),
        legal,
        legal,
    )
    goals = [rule(lookup(x), lookup(x), transition, made) for x in (output, changed)]
    torch.testing.assert_close(goals[0], goals[1])


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("bootstrap", BOOTSTRAPS)
def test_a_terminated_row_without_legal_actions_is_finite(head: str, bootstrap: str) -> None:
    config = LearnConfig(head=head, bootstrap=bootstrap, atoms=5, v_min=-9, v_max=9, quantiles=4)  # type: ignore[arg-type]
    made, rule = build_head(config, CPU), build_bootstrap(config)
    output = torch.zeros((2, 6, 4) if head == "iqn" else (2, 3 * made.size))
    none = torch.zeros(1, 3, dtype=torch.bool)
    transition = Transition(
        torch.tensor([0]), torch.tensor([2]), torch.full((1,), 7.0), torch.zeros(1), torch.tensor([1]), none
    )
    goal = rule(lookup(output), lookup(output), transition, made)
    assert torch.isfinite(goal).all()
    mean = float(goal @ made.support) if head == "categorical" else float(goal.mean())  # type: ignore[attr-defined]
    bonus = 0.9 * 0.03 * math.log(1 / 3) if bootstrap == "munchausen" else 0.0
    assert mean == pytest.approx(7.0 + bonus, abs=1e-5)


def test_one_certain_quantile_gives_munchausen_of_the_scalar_head() -> None:
    """M-QR with one quantile, M-IQN with one fraction and M-DQN are one."""
    g = torch.Generator().manual_seed(3)
    table = torch.randn(2, 3, generator=g)
    transition = Transition(
        torch.tensor([0]), torch.tensor([1]), torch.ones(1), torch.full((1,), 0.9), torch.tensor([1])
    )
    scalar = RULE(lookup(table), lookup(table), transition, ScalarHead(1.0))
    quantile = build_head(LearnConfig(head="quantile", quantiles=1), CPU)
    torch.testing.assert_close(RULE(lookup(table), lookup(table), transition, quantile)[:, 0], scalar)
    packed = torch.cat((table[:, None].expand(-1, 2, -1), torch.full((2, 2, 1), 0.5)), 2)
    implicit = build_head(LearnConfig(head="iqn"), CPU)
    torch.testing.assert_close(RULE(lookup(packed), lookup(packed), transition, implicit)[:, 0], scalar)


@pytest.mark.parametrize("n_step", [1, 3])
def test_the_replay_hands_over_the_masks_of_both_observations(n_step: int) -> None:
    env = MaskedBandit(4)
    config = Config(envs=4, replay=ReplayConfig(capacity=200, n_step=n_step))
    parts = assemble_parts(config, env)
    parts.collector.start(seed=0)
    for _ in range(60):
        parts.collector.collect()
    transition = parts.sampler.sample(64).transition
    assert transition.mask is not None
    assert transition.next_mask is not None
    assert torch.equal(transition.mask, env.legal[transition.obs.argmax(1)])
    assert torch.equal(transition.next_mask, env.legal[transition.next_obs.argmax(1)])
    assert transition.mask.gather(1, transition.action[:, None]).all()


# ---- pairs


def test_munchausen_with_several_steps_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match=r"every step's reward has its own log-policy term"):
        Config(learn=LearnConfig(bootstrap="munchausen"), replay=ReplayConfig(n_step=3))


@pytest.mark.parametrize(
    ("settings_", "reason"),
    [
        ({"atoms": 1}, "at least 2"),
        ({"v_min": 3.0, "v_max": 3.0}, "v_min < v_max"),
        ({"v_max": math.inf}, "finite"),
        ({"quantiles": 0}, "quantiles"),
        ({"iqn_target": 0}, "iqn_target"),
        ({"munchausen_alpha": 1.0}, "gaps between actions would grow"),
        ({"munchausen_tau": 0.0}, "munchausen_tau"),
        ({"munchausen_clip": 0.5}, "munchausen_clip"),
    ],
)
def test_settings_without_meaning_are_refused(settings_: dict[str, float], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        LearnConfig(**settings_)  # type: ignore[arg-type]


def random_batch(seed: int, size: int = 6) -> Batch:
    g = torch.Generator().manual_seed(seed)
    transition = Transition(
        torch.randn(size, 4, generator=g),
        torch.randint(3, (size,), generator=g),
        torch.randn(size, generator=g) * 3,
        torch.rand(size, generator=g),
        torch.randn(size, 4, generator=g),
        torch.rand((size, 3), generator=g) < 0.7,
        torch.ones((size, 3), dtype=torch.bool),
    )
    return Batch(transition, torch.rand(size, generator=g), torch.arange(size))


def make_pair(config: Config, seed: int) -> tuple[nn.Module, nn.Module]:
    head, g = build_head(config.learn, CPU), torch.Generator().manual_seed(seed)
    spec = ObsSpec((4,), torch.float32)
    online = build_network(config.network, spec, 3, g, head.size, head.fractions)
    target = make_target(build_network(config.network, spec, 3, g, head.size, head.fractions))
    set_fraction_generator(torch.Generator().manual_seed(seed), online, target)
    if is_noisy(online):
        Noise([online], g).resample()
        for one, other in zip(online.buffers(), target.buffers(), strict=True):
            other.copy_(one)  # the same noise in both, so that a stack of agents needs only one set
    return online, target


ALL = list(product(HEADS, BOOTSTRAPS, (False, True), (False, True)))


@pytest.mark.parametrize(("head", "bootstrap", "dueling", "noisy"), ALL)
def test_every_pair_has_a_weighted_loss_with_gradients_for_online_alone(
    head: str, bootstrap: str, dueling: bool, noisy: bool
) -> None:
    config = Config(
        network=NetworkConfig(hidden=(8, 8), dueling=dueling, noisy=noisy),
        learn=LearnConfig(head=head, bootstrap=bootstrap, v_min=-9, v_max=9),  # type: ignore[arg-type]
    )
    made, rule = build_head(config.learn, CPU), build_bootstrap(config.learn)
    batch = random_batch(0)
    results = []
    for factor in (1.0, 3.0):
        online, target = make_pair(config, seed=1)
        result = td_loss(online, target, batch._replace(weight=factor * batch.weight), made, rule)
        result.loss.backward()  # type: ignore[no-untyped-call]
        assert all(p.grad is not None for p in online.parameters())
        assert all(p.grad is None for p in target.parameters())
        assert result.priority.shape == (6,)
        assert not result.priority.requires_grad
        assert float(result.priority.min()) >= 0
        results.append(result)
    torch.testing.assert_close(results[1].loss, 3 * results[0].loss)  # importance weights reach every loss
    torch.testing.assert_close(results[1].priority, results[0].priority)  # and no priority
    nothing = td_loss(*make_pair(config, 1), batch._replace(weight=torch.zeros(6)), made, rule)
    assert nothing.loss.item() == 0


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize(("head", "bootstrap"), list(product(HEADS[:3], BOOTSTRAPS)))
def test_where_nothing_is_drawn_the_loss_maps_over_a_stack_of_agents(
    head: str, bootstrap: str, noisy: bool
) -> None:
    config = Config(
        network=NetworkConfig(hidden=(8,), dueling=True, noisy=noisy),
        learn=LearnConfig(head=head, bootstrap=bootstrap, v_min=-9, v_max=9),  # type: ignore[arg-type]
    )
    made, rule = build_head(config.learn, CPU), build_bootstrap(config.learn)
    pairs = [make_pair(config, seed) for seed in range(3)]
    batches = [random_batch(seed) for seed in range(3)]
    skeleton = pairs[0][0]

    def loss(
        online: dict[str, Tensor], buffers: dict[str, Tensor], target: dict[str, Tensor], batch: Batch
    ) -> Tensor:
        def net(parameters: dict[str, Tensor]) -> Callable[[Tensor], Tensor]:
            return lambda obs: functional_call(skeleton, (parameters, buffers), (obs,))  # type: ignore[no-any-return]

        return td_loss(net(online), net(target), batch, made, rule).loss

    stacked = Batch(
        Transition(*(torch.stack(column) for column in zip(*(b.transition for b in batches), strict=True))),
        torch.stack([b.weight for b in batches]),
        torch.stack([b.index for b in batches]),
    )
    online, buffers = stack_module_state([pair[0] for pair in pairs])
    target = stack_module_state([pair[1] for pair in pairs])[0]
    axes = Batch(Transition(*(0,) * len(Transition._fields)), 0, 0, None)  # type: ignore[arg-type]
    gradients = vmap(grad(loss), in_dims=(0, 0, 0, axes))(online, buffers, target, stacked)
    for i, ((alone, other), batch) in enumerate(zip(pairs, batches, strict=True)):
        td_loss(alone, other, batch, made, rule).loss.backward()  # type: ignore[no-untyped-call]
        for key, parameter in alone.named_parameters():
            torch.testing.assert_close(gradients[key][i], parameter.grad)
