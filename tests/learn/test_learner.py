"""The learner against plain torch written out longhand; stopping and going on; divergence."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from flashdqn.config import LearnConfig
from flashdqn.core.errors import BadNumbersError, DivergedError
from flashdqn.core.types import Batch, Transition
from flashdqn.learn.heads import ScalarHead
from flashdqn.learn.learner import Learner

CPU = torch.device("cpu")
BASE = LearnConfig(lr=0.01, grad_clip=0.1, huber=1.0, target_every=2, bootstrap="double")


def make_network(seed: int = 0) -> nn.Module:
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    g = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.5, generator=g)
    return network


def make_learner(config: LearnConfig, seed: int = 0) -> Learner:
    return Learner(config, make_network(seed), ScalarHead(config.huber), CPU)


def make_batches(count: int, size: int = 16) -> list[Batch]:
    g = torch.Generator().manual_seed(99)
    batches = []
    for _ in range(count):
        transition = Transition(
            torch.randn(size, 4, generator=g),
            torch.randint(3, (size,), generator=g),
            torch.randn(size, generator=g) * 2,
            torch.where(torch.rand(size, generator=g) < 0.2, 0.0, 0.9),
            torch.randn(size, 4, generator=g),
        )
        batches.append(Batch(transition, torch.rand(size, generator=g), torch.arange(size)))
    return batches


class Longhand:
    """The textbook, line by line: no fused kernel, no shared helper."""

    def __init__(self, config: LearnConfig, network: nn.Module) -> None:
        self.config = config
        self.online, self.target = network, copy.deepcopy(network)
        self.first = [torch.zeros_like(p) for p in network.parameters()]
        self.second = [torch.zeros_like(p) for p in network.parameters()]
        self.steps = 0

    def gradients(self, batch: Batch) -> tuple[list[Tensor], Tensor, Tensor]:
        (obs, action, reward, discount, next_obs, *_), weight, *_ = batch
        rows = range(len(action))
        with torch.no_grad():
            judged = self.target(next_obs)
            chosen = (self.online(next_obs) if self.config.bootstrap == "double" else judged).argmax(1)
            value = torch.stack([judged[i, chosen[i]] for i in rows])
            goal = reward + discount * value
        q = self.online(obs)
        taken = torch.stack([q[i, action[i]] for i in rows])
        error = taken - goal
        delta = self.config.huber
        square = 0.5 * error**2
        loss = torch.where(error.abs() <= delta, square, delta * (error.abs() - 0.5 * delta))
        mean = (weight * (loss if delta else square)).sum() / len(action)
        return list(torch.autograd.grad(mean, list(self.online.parameters()))), mean, error.detach().abs()

    def update(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        config = self.config
        grads, loss, priority = self.gradients(batch)
        norm = torch.sqrt(sum((g**2).sum() for g in grads))
        if config.grad_clip and norm > config.grad_clip:
            grads = [g * config.grad_clip / norm for g in grads]
        self.steps += 1
        with torch.no_grad():
            for p, g, m, v in zip(self.online.parameters(), grads, self.first, self.second, strict=True):
                if config.optimizer == "adamw":
                    p -= config.lr * config.weight_decay * p
                m.copy_(0.9 * m + 0.1 * g)
                v.copy_(0.999 * v + 0.001 * g**2)
                unbiased_m, unbiased_v = m / (1 - 0.9**self.steps), v / (1 - 0.999**self.steps)
                p -= config.lr * unbiased_m / (unbiased_v.sqrt() + config.adam_eps)
            for old, new in zip(self.target.parameters(), self.online.parameters(), strict=True):
                if config.target_every == 0:
                    old.copy_((1 - config.target_tau) * old + config.target_tau * new)
                elif self.steps % config.target_every == 0:
                    old.copy_(new)
        return loss.detach(), priority, norm


@pytest.mark.parametrize(
    "config",
    [
        BASE,
        replace(BASE, bootstrap="greedy"),
        replace(BASE, grad_clip=0.0),
        replace(BASE, grad_clip=1000.0),
        replace(BASE, target_every=0, target_tau=0.3),
        replace(BASE, huber=0.0),
        replace(BASE, optimizer="adamw", weight_decay=0.1),
        replace(BASE, optimizer="adamw", weight_decay=0.1, grad_clip=0.0, target_every=0, bootstrap="greedy"),
        replace(BASE, adam_eps=0.01),
    ],
    ids=["base", "greedy", "no-clip", "wide-clip", "soft", "square", "adamw", "adamw-soft", "eps"],
)
def test_updates_equal_the_longhand(config: LearnConfig) -> None:
    learner, longhand = make_learner(config), Longhand(config, make_network())
    loss_sum, norm_sum = 0.0, 0.0
    for batch in make_batches(5):
        priority = learner.update(batch)
        loss, expected_priority, norm = longhand.update(batch)
        loss_sum += float(loss)
        norm_sum += float(norm)
        torch.testing.assert_close(priority, expected_priority, rtol=1e-4, atol=1e-5)
        assert_same_network(learner.online, longhand.online)
        assert_same_network(learner.target, longhand.target)
    sums = learner.read_sums()
    assert sums["loss"] == pytest.approx(loss_sum, rel=1e-4)
    assert sums["grad_norm"] == pytest.approx(norm_sum, rel=1e-4)  # the norm before clipping
    assert learner.updates == 5
    assert learner.read_sums() == {"loss": 0.0, "q": 0.0, "grad_norm": 0.0}


def assert_same_network(one: nn.Module, other: nn.Module) -> None:
    for first, second in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)


def test_clipping_was_really_put_to_the_test() -> None:
    """Every gradient is longer than the one limit used above and shorter than the other."""
    longhand = Longhand(BASE, make_network())
    norms = [float(longhand.update(batch)[2]) for batch in make_batches(5)]
    assert BASE.grad_clip < min(norms)
    assert max(norms) < 1000


def test_a_hard_target_moves_only_on_its_turn() -> None:
    learner = make_learner(replace(BASE, target_every=3))
    before = [p.clone() for p in learner.target.parameters()]
    for count, batch in enumerate(make_batches(7), start=1):
        learner.update(batch)
        online = list(learner.online.parameters())
        for old, target, new in zip(before, learner.target.parameters(), online, strict=True):
            assert torch.equal(target, new if count % 3 == 0 else old)
        before = [p.clone() for p in learner.target.parameters()]


def test_the_target_neither_asks_for_gradients_nor_shares_memory() -> None:
    learner = make_learner(BASE)
    assert not any(p.requires_grad for p in learner.target.parameters())
    for target, online in zip(learner.target.parameters(), learner.online.parameters(), strict=True):
        assert torch.equal(target, online)
        assert target.data_ptr() != online.data_ptr()


# ---- stop and go on


@pytest.mark.parametrize("moment", [0, 1, 4])
@pytest.mark.parametrize("config", [BASE, replace(BASE, optimizer="adamw", weight_decay=0.1, target_every=0)])
@pytest.mark.parametrize("used", [False, True], ids=["into a new learner", "into a used learner"])
def test_going_on_from_a_checkpoint_is_bit_equal(config: LearnConfig, moment: int, used: bool) -> None:
    batches = make_batches(8)
    learner = make_learner(config)
    for batch in batches[:moment]:
        learner.update(batch)
    weights, state = saved(learner.weights()), saved(learner.state_dict())
    resumed = make_learner(config, seed=5)
    if used:
        resumed.update(batches[-1])
    resumed.load_state_dict(weights, state, moment)
    for batch in batches[moment:]:
        assert torch.equal(learner.update(batch), resumed.update(batch))
    after, other = learner.state_dict(), resumed.state_dict()
    assert after.keys() == other.keys()
    for name in after:
        assert torch.equal(after[name], other[name]), name
    for name, tensor in learner.weights().items():
        assert torch.equal(tensor, resumed.weights()[name]), name
    assert learner.updates == resumed.updates == 8
    assert learner.read_sums() == resumed.read_sums()


def saved(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in state.items()}


def test_a_state_that_was_loaded_is_not_changed_by_going_on() -> None:
    batches = make_batches(4)
    learner = make_learner(BASE)
    for batch in batches[:2]:
        learner.update(batch)
    weights, state = saved(learner.weights()), saved(learner.state_dict())
    copies = saved(state)
    resumed = make_learner(BASE, seed=5)
    resumed.load_state_dict(weights, state, 2)
    for batch in batches[2:]:
        resumed.update(batch)
    for name in state:
        assert torch.equal(state[name], copies[name]), name


# ---- the learning rate is a tensor


def test_the_learning_rate_tensor_takes_effect_at_once() -> None:
    learner = make_learner(replace(BASE, grad_clip=0.0))
    batches = make_batches(3)
    learner.lr.fill_(0.0)
    before = saved(learner.weights())
    learner.update(batches[0])
    assert all(torch.equal(before[name], tensor) for name, tensor in learner.weights().items())
    learner.lr.fill_(0.25)
    learner.update(batches[0])
    # the same gradient twice: Adam's unbiased moments are g and g², so each weight moves by lr · sign(g)
    moved = torch.cat([(w - before[name]).abs().flatten() for name, w in learner.weights().items()])
    assert float(moved.max()) == pytest.approx(0.25, rel=1e-3)


def test_a_loaded_learning_rate_is_the_one_the_optimizer_uses() -> None:
    learner = make_learner(BASE)
    learner.lr.fill_(0.125)
    resumed = make_learner(BASE)
    resumed.load_state_dict(saved(learner.weights()), saved(learner.state_dict()), 0)
    assert float(resumed.adam.lr) == 0.125
    resumed.lr.fill_(0.5)
    assert float(resumed.adam.lr) == 0.5


# ---- divergence


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("field", ["obs", "reward", "next_obs"])
def test_a_bad_batch_is_named_and_never_reaches_the_weights(field: str, value: float) -> None:
    learner = make_learner(BASE)
    batches = make_batches(4)
    for batch in batches[:3]:
        learner.update(batch)
    before = saved(learner.weights())
    bad = batches[3].transition._replace(discount=torch.full((16,), 0.9))
    getattr(bad, field)[0] = value
    found = f"{bad.obs[0].numel()} of {bad.obs.numel()}" if "obs" in field else "1 of 16"
    said = f"^The environment gave .* gradient step 3 holds {found} in {field}$"
    with pytest.raises(BadNumbersError, match=said):
        learner.update(batches[3]._replace(transition=bad))
    for name, tensor in learner.weights().items():
        assert torch.equal(tensor, before[name])


def test_byte_observations_can_be_described_too() -> None:
    learner = make_learner(BASE)
    batch = make_batches(1)[0]
    network = learner.online
    learner.online = nn.Sequential(Scale(), network)
    learner.target = nn.Sequential(Scale(), learner.target)
    image = torch.full((16, 4), 200, dtype=torch.uint8)
    bad = batch.transition._replace(obs=image, next_obs=image, discount=torch.full((16,), 0.9))
    with torch.no_grad():
        learner.flat.values.fill_(float("inf"))
    with pytest.raises(DivergedError, match=r"gradient step 0 is not finite .*largest \|obs\| 200") as caught:
        learner.update(batch._replace(transition=bad))
    for name in ("loss", "least reward", "largest reward", "mean discount 0.9"):
        assert name in str(caught.value)
    spoiled = bad._replace(reward=torch.full((16,), float("nan")))
    with pytest.raises(BadNumbersError, match="16 of 16 in reward"):
        learner.update(batch._replace(transition=spoiled))


class Scale(nn.Module):
    def forward(self, obs: Tensor) -> Tensor:
        return obs.float() / 255
