"""ε and learning rate over time, and the coins that ε is thrown with."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from toy_envs import MaskedBandit

from flashdqn.config import Config, ExploreConfig, LearnConfig, NetworkConfig, ReplayConfig
from flashdqn.core.ops import choose_epsilon_greedy, masked_argmax
from flashdqn.replay.ring import Kind
from flashdqn.training.assemble import assemble_parts
from flashdqn.training.schedules import Schedules, exploration_rate, learning_rate, spread_exploration_rates


class Betas:
    """Stands in for a sampler: keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[float] = []

    def set_beta(self, beta: float) -> None:
        self.told.append(beta)


def schedules(config: Config, num_envs: int = 3) -> tuple[Schedules, Tensor, Tensor, Betas]:
    eps, lr, betas = torch.full((num_envs,), -1.0), torch.tensor(-1.0), Betas()
    return Schedules(config, eps, lr, betas), eps, lr, betas  # type: ignore[arg-type]


def eps_at(config: ExploreConfig, transitions: int, num_envs: int = 3) -> Tensor:
    writer, eps, *_ = schedules(Config(explore=config), num_envs)
    writer.write(transitions)
    return eps


def test_what_changes_is_written_and_nothing_else_is() -> None:
    config = Config(
        explore=ExploreConfig("linear", start=1.0, end=0.0, over=100),
        learn=LearnConfig(lr=0.5, lr_end=0.0, lr_over=200),
        replay=ReplayConfig(beta=0.5, beta_over=50),
    )
    writer, eps, lr, betas = schedules(config)
    for transitions, expected in ((0, (1.0, 0.5)), (50, (0.5, 0.375)), (50, (0.5, 0.375)), (300, (0.0, 0.0))):
        writer.write(transitions)
        assert (eps.tolist(), float(lr)) == ([expected[0]] * 3, expected[1])
    assert betas.told == [0.5, 1.0]  # it had risen already when 300 came
    versions = eps._version, lr._version
    writer.write(400)
    assert (eps._version, lr._version) == versions  # not even touched


def test_linear_by_hand() -> None:
    config = ExploreConfig("linear", start=1.0, end=0.2, over=1000)
    for transitions, expected in ((0, 1.0), (250, 0.8), (500, 0.6), (1000, 0.2), (10**9, 0.2)):
        torch.testing.assert_close(eps_at(config, transitions), torch.full((3,), expected))


def test_exponential_by_hand() -> None:
    """From 1 to 1/16 in four halvings."""
    config = ExploreConfig("exponential", start=1.0, end=0.0625, over=1000)
    for transitions, expected in (
        (0, 1.0),
        (250, 0.5),
        (500, 0.25),
        (750, 0.125),
        (1000, 0.0625),
        (10**9, 0.0625),
    ):
        torch.testing.assert_close(eps_at(config, transitions), torch.full((3,), expected))


def test_spread_by_hand() -> None:
    """Each environment keeps its own, in equal factors, whatever the time."""
    config = ExploreConfig("spread", start=0.8, end=0.1, over=1000)
    writer, eps, *_ = schedules(Config(explore=config), num_envs=4)
    for transitions in (0, 1, 500, 10**9):
        writer.write(transitions)
        torch.testing.assert_close(eps, torch.tensor([0.8, 0.4, 0.2, 0.1]))


def test_spread_over_one_environment_takes_the_largest() -> None:
    assert spread_exploration_rates(0.8, 0.1, 1).tolist() == [pytest.approx(0.8)]


@st.composite
def falling(draw: st.DrawFn) -> ExploreConfig:
    schedule = draw(st.sampled_from(["linear", "exponential"]))
    low = 0.0 if schedule == "linear" else 1e-6
    end = draw(st.floats(low, 1))
    return ExploreConfig(schedule, draw(st.floats(end, 1)), end, draw(st.integers(1, 10**7)))  # type: ignore[arg-type]


@given(config=falling(), one=st.integers(0, 2 * 10**7), other=st.integers(0, 2 * 10**7))
def test_eps_falls_from_start_to_end_and_never_rises(config: ExploreConfig, one: int, other: int) -> None:
    assert exploration_rate(config, 0) == config.start
    assert exploration_rate(config, config.over) == pytest.approx(config.end, rel=1e-9, abs=1e-12)
    early, late = exploration_rate(config, min(one, other)), exploration_rate(config, max(one, other))
    slack = 1e-12
    assert config.start + slack >= early >= late - slack
    assert late >= config.end - slack


@given(num_envs=st.integers(2, 300), start=st.floats(0.01, 1), share=st.floats(0.001, 1))
def test_spread_goes_down_in_equal_factors(num_envs: int, start: float, share: float) -> None:
    eps = spread_exploration_rates(start, start * share, num_envs).double()
    assert float(eps[0]) == pytest.approx(start, rel=1e-5)
    assert float(eps[-1]) == pytest.approx(start * share, rel=1e-5)
    factors = eps[1:] / eps[:-1]
    torch.testing.assert_close(factors, factors[:1].expand_as(factors), rtol=1e-5, atol=0)


def test_learning_rate_by_hand() -> None:
    constant = LearnConfig(lr=0.25)
    falls = LearnConfig(lr=0.25, lr_end=0.05, lr_over=1000)
    to_nothing = LearnConfig(lr=0.25, lr_end=0.0, lr_over=1000)
    assert [learning_rate(constant, t) for t in (0, 10**9)] == [0.25, 0.25]
    assert [learning_rate(falls, t) for t in (0, 500, 1000, 10**9)] == pytest.approx([0.25, 0.15, 0.05, 0.05])
    assert [learning_rate(to_nothing, t) for t in (0, 900, 1000, 2000)] == pytest.approx([0.25, 0.025, 0, 0])


# ---- the coins


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def thrown(q: Tensor, mask: Tensor | None, eps: Tensor, g: torch.Generator) -> Tensor:
    return choose_epsilon_greedy(q, mask, eps, torch.rand((2, len(q)), generator=g))


def test_every_environment_throws_its_own_coin() -> None:
    """With ε = ½ the environments explore half of the time each, and independently of one another."""
    throws, num_envs, num_actions = 4000, 16, 1000
    q = torch.zeros(num_envs, num_actions)
    q[:, 0] = 1.0  # greedy is action 0; a random action is 0 once in a thousand
    eps, g = torch.full((num_envs,), 0.5), generator()
    explored = torch.stack([thrown(q, None, eps, g) != 0 for _ in range(throws)]).double()
    rate = 0.5 * (1 - 1 / num_actions)
    assert float((explored.mean(0) - rate).abs().max()) < 5 * 0.5 / math.sqrt(throws)
    correlation = torch.corrcoef(explored.T) - torch.eye(num_envs)
    assert float(correlation.abs().max()) < 5 / math.sqrt(throws)
    later = torch.corrcoef(torch.stack((explored[:-1].flatten(), explored[1:].flatten())))[0, 1]
    assert abs(float(later)) < 5 / math.sqrt(throws * num_envs)  # nor on what it did a step before


def test_each_environment_explores_at_its_own_rate() -> None:
    eps = torch.tensor([0.0, 0.1, 0.5, 1.0])
    q = torch.zeros(4, 1000)
    q[:, 7] = 1.0
    g = generator(1)
    explored = torch.stack([thrown(q, None, eps, g) != 7 for _ in range(4000)]).float().mean(0)
    assert explored[0] == 0  # never means never
    assert float((explored - eps * 0.999).abs().max()) < 5 * 0.5 / math.sqrt(4000)


@pytest.mark.parametrize("masked", [False, True])
def test_random_actions_are_legal_and_uniform(masked: bool) -> None:
    num_envs, num_actions = 20_000, 5
    legal = torch.tensor([True, False, True, True, False]) if masked else torch.ones(5, dtype=torch.bool)
    q = torch.zeros(num_envs, num_actions)
    q[:, 1] = 9.0  # the best of all, and illegal if there are masks
    mask = legal.expand(num_envs, num_actions) if masked else None
    action = thrown(q, mask, torch.ones(num_envs), generator(2))
    assert action.dtype == torch.int64
    counts = action.bincount(minlength=num_actions)
    assert (counts[~legal] == 0).all()
    expected = num_envs / int(legal.sum())
    assert float((counts[legal] - expected).abs().max()) < 5 * math.sqrt(expected)


def test_masks_differ_by_environment_and_bind_greedy_actions_too() -> None:
    mask = torch.rand(2000, 6, generator=generator(3)) < 0.4
    mask[:, 0] |= ~mask.any(1)  # every state has an action
    q = torch.randn(2000, 6, generator=generator(4)) - 5
    for eps in (0.0, 0.5, 1.0):
        action = thrown(q, mask, torch.full((2000,), eps), generator(5))
        assert mask.gather(1, action[:, None]).all()
    greedy = thrown(q, mask, torch.zeros(2000), generator(6))
    for action, legal, values in zip(greedy.tolist(), mask.tolist(), q.tolist(), strict=True):
        assert values[action] == max(value for value, is_legal in zip(values, legal, strict=True) if is_legal)


def test_the_generator_decides_everything() -> None:
    q, eps = torch.zeros(50, 4), torch.full((50,), 0.5)
    before = torch.get_rng_state()
    assert torch.equal(thrown(q, None, eps, generator(1)), thrown(q, None, eps, generator(1)))
    assert not torch.equal(thrown(q, None, eps, generator(1)), thrown(q, None, eps, generator(2)))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("eps", [0.0, 0.5])
def test_the_collector_answers_the_observation_of_the_moment(eps: float) -> None:
    """Every row of the ring whose action was not random holds what the network chose for that row's own obs."""
    env = MaskedBandit(num_envs=64, time_limit=4)
    network = NetworkConfig(hidden=(16,))
    config = Config(envs=64, network=network, replay=ReplayConfig(capacity=64 * 20))
    parts = assemble_parts(config, env)
    parts.collector.start(seed=0)
    parts.collector.eps.fill_(eps)
    contexts, masks = [parts.collector.obs.clone()], [parts.collector.mask.clone()]
    for _ in range(20):
        parts.collector.collect()
        contexts.append(parts.collector.obs.clone())
        masks.append(parts.collector.mask.clone())
    ring = parts.ring
    assert torch.equal(ring.obs, torch.stack(contexts))
    assert torch.equal(ring.mask, torch.stack(masks))
    with torch.no_grad():
        q = parts.learner.online(ring.obs.flatten(0, 1))
    chosen = masked_argmax(q, ring.mask.flatten(0, 1)).view(ring.rows, -1)
    steps = ring.kind[:20] != Kind.RESET
    same = (ring.action == chosen)[:20][steps].double().mean()
    # two legal actions in each context: half of the random ones are the chosen one as well
    assert float(same) == pytest.approx(1 - eps / 2, abs=5 * 0.5 / math.sqrt(20 * 64) if eps else 0)
