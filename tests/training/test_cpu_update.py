"""The gradient by hand against autograd in double precision, for networks and batches that hypothesis chooses."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from flashdqn.compute.threads import Team
from flashdqn.config import LearnConfig, NetworkConfig
from flashdqn.core.contract import ObsSpec
from flashdqn.core.types import Batch, Transition
from flashdqn.learn.bootstraps import Bootstrap, Munchausen, double_target, greedy_target
from flashdqn.learn.heads import ScalarHead
from flashdqn.learn.learner import Learner
from flashdqn.learn.loss import Margin, TDLoss, td_loss
from flashdqn.networks.build import QNetwork, build_network
from flashdqn.training.backends.cpu.update import NativeUpdates

DTYPES = (torch.uint8, torch.float32, torch.float64, torch.int64, torch.bool)


@dataclass(frozen=True)
class Case:
    """A network, a loss and the kind of batches that it is given."""

    shape: tuple[int, ...] = (11,)
    hidden: tuple[int, ...] = (16, 8)
    actions: int = 3
    rows: int = 16
    huber: float = 1.0
    bootstrap: Bootstrap = double_target
    dtype: torch.dtype = torch.float32
    masked: bool = False
    weighted: bool = True
    seed: int = 0

    @functools.cached_property
    def head(self) -> ScalarHead:
        return ScalarHead(self.huber)

    def network(self, seed: int, **changes: Any) -> QNetwork:
        config = NetworkConfig(torso="mlp", hidden=self.hidden or (1,), **changes)
        generator = torch.Generator().manual_seed(self.seed + seed)
        network = build_network(config, ObsSpec(self.shape, self.dtype), self.actions, generator)
        if not self.hidden:  # a single layer, which the configuration does not offer
            network.torso.layers = nn.Sequential()
            network.output = nn.Linear(torch.Size(self.shape).numel(), self.actions)
            for parameter in network.parameters():
                nn.init.uniform_(parameter, -0.5, 0.5, generator=generator)
        return network

    def batch(self, seed: int, rows: int | None = None) -> Batch:
        g = torch.Generator().manual_seed(1000 + self.seed + seed)
        rows = rows or self.rows

        def observations() -> Tensor:
            if self.dtype == torch.uint8:
                return torch.randint(256, (rows, *self.shape), generator=g, dtype=torch.uint8)
            return (torch.randn(rows, *self.shape, generator=g, dtype=torch.float64) * 2).to(self.dtype)

        mask = torch.rand(rows, self.actions, generator=g) < 0.6 if self.masked else None
        discount = torch.where(torch.rand(rows, generator=g) < 0.2, 0.0, 0.97)
        weight = torch.ones(rows)
        if self.weighted:
            weight = torch.rand(rows, generator=g) * (torch.rand(rows, generator=g) < 0.8)
        transition = Transition(
            observations(),
            torch.randint(self.actions, (rows,), generator=g),
            torch.randn(rows, generator=g) * 3,
            discount,
            observations(),
            mask,
        )
        return Batch(transition, weight, torch.arange(rows))

    def written(self) -> tuple[QNetwork, QNetwork, Callable[[Batch], TDLoss]]:
        """Online, target and the gradients by hand, into views of one tensor as the learner has them."""
        online, target = self.network(1), self.network(2).requires_grad_(False)
        sizes = [parameter.numel() for parameter in online.parameters()]
        flat = torch.full((sum(sizes),), torch.nan)  # whatever lies there must not matter
        for parameter, grad in zip(online.parameters(), flat.split(sizes), strict=True):
            parameter.grad = grad.view(parameter.shape)
        return online, target, NativeUpdates(online, target, self.head, self.bootstrap).gradient


class InDouble(nn.Module):
    """A network's copy that computes in float64 on the very numbers that it would see in float32."""

    def __init__(self, network: QNetwork) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).double().requires_grad_(True)

    def forward(self, obs: Tensor) -> Tensor:
        numbers = obs / 255 if obs.dtype == torch.uint8 else obs.to(torch.float32)
        return self.network.output(self.network.torso(numbers.double()))


def expected(case: Case, online: QNetwork, target: QNetwork, batch: Batch) -> tuple[TDLoss, list[Tensor]]:
    """`td_loss` and `backward` in float64."""
    precise = InDouble(online)
    transition = batch.transition._replace(
        reward=batch.transition.reward.double(), discount=batch.transition.discount.double()
    )
    batch = Batch(transition, batch.weight.double(), batch.index)
    result = td_loss(precise, InDouble(target), batch, case.head, case.bootstrap)
    result.loss.backward()
    return result, [parameter.grad for parameter in precise.parameters() if parameter.grad is not None]


def check(case: Case, online: QNetwork, target: QNetwork, batch: Batch, result: TDLoss) -> None:
    """Result and gradients are right up to the rounding of float32."""
    wanted, gradients = expected(case, online, target, batch)
    for name, got, want in zip(TDLoss._fields, result, wanted, strict=True):
        assert got.dtype == torch.float32
        assert not got.requires_grad
        torch.testing.assert_close(got.double(), want.detach(), rtol=1e-4, atol=1e-5, msg=name)
    for parameter, want in zip(online.parameters(), gradients, strict=True):
        assert parameter.grad is not None
        # Sums over the batch cancel: their error is of its terms' size.
        scale = max(1.0, float(want.abs().max()))
        torch.testing.assert_close(parameter.grad.double(), want, rtol=1e-4, atol=2e-5 * scale)


cases = st.builds(
    Case,
    shape=st.sampled_from([(1,), (2,), (11,), (31,), (32,), (3, 4, 5)]),
    hidden=st.lists(st.integers(1, 40), max_size=4).map(tuple),
    actions=st.integers(1, 7),
    rows=st.integers(1, 70),
    huber=st.sampled_from([0.0, 1.0, 10.0]),
    bootstrap=st.sampled_from([double_target, greedy_target]),
    dtype=st.sampled_from(DTYPES),
    masked=st.booleans(),
    weighted=st.booleans(),
    seed=st.integers(0, 2**20),
)


@given(cases)
@settings(max_examples=150, deadline=None)
def test_equals_autograd_and_leaves_nothing_behind(case: Case) -> None:
    """Two batches in a row: gradients are overwritten, not summed, and nothing of the first is in the second."""
    online, target, written = case.written()
    for seed in (1, 2):
        batch = case.batch(seed)
        check(case, online, target, batch, written(batch))


@given(cases, st.lists(st.integers(1, 40), min_size=2, max_size=5))
@settings(max_examples=25, deadline=None)
def test_takes_batches_of_other_sizes(case: Case, sizes: list[int]) -> None:
    online, target, written = case.written()
    for seed, rows in enumerate([*sizes, case.rows]):
        batch = case.batch(seed, rows)
        check(case, online, target, batch, written(batch))


def test_follows_weights_that_are_written_in_place() -> None:
    """As an optimizer, a target update and a checkpoint do."""
    case = Case()
    online, target, written = case.written()
    written(case.batch(0))
    online.load_state_dict(case.network(3).state_dict())
    target.load_state_dict(case.network(4).state_dict())
    check(case, online, target, case.batch(1), written(case.batch(1)))


def test_what_it_returned_stays_as_it_was() -> None:
    case = Case()
    _, _, written = case.written()
    kept = written(case.batch(1))
    copies = [tensor.clone() for tensor in kept]
    written(case.batch(2))
    assert all(torch.equal(tensor, same) for tensor, same in zip(kept, copies, strict=True))
    kept.loss.mul_(2)  # and it may be written to


def test_changes_no_batch_and_no_weight() -> None:
    case = Case(masked=True)
    online, target, written = case.written()
    batch = case.batch(1)
    tensors = [*online.parameters(), *target.parameters(), *batch.transition[:-1], batch.weight]
    before = [tensor.clone() for tensor in tensors]
    written(batch)
    assert all(torch.equal(tensor, same) for tensor, same in zip(tensors, before, strict=True))


def test_takes_strided_batches() -> None:
    """A sampler may hand out views."""
    case = Case(masked=True)
    online, target, written = case.written()
    batch = case.batch(1, 2 * case.rows)
    half = Batch(
        Transition(*[t if t is None else t[::2] for t in batch.transition]), *(t[::2] for t in batch[1:3])
    )
    check(case, online, target, half, written(half))


@pytest.mark.parametrize("bootstrap", [double_target, greedy_target])
def test_ties_and_rows_without_a_legal_action_choose_as_torch_does(bootstrap: Bootstrap) -> None:
    """The first of the best actions, and action 0 where none is legal: the values differ in the target alone."""
    case = Case(bootstrap=bootstrap, masked=True)
    online, target, written = case.written()
    with torch.no_grad():
        online.output.weight.zero_()
        online.output.bias.fill_(0.5)
    batch = case.batch(1)
    batch.transition.next_mask[::3] = False  # type: ignore[index]
    check(case, online, target, batch, written(batch))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("huber", [0.0, 1.0])
def test_a_reward_that_is_not_finite_shows_in_the_loss(bad: float, huber: float) -> None:
    case = Case(huber=huber, weighted=False)
    online, target, written = case.written()
    batch = case.batch(1)
    batch.transition.reward[3] = bad
    wanted = td_loss(online, target, batch, case.head, case.bootstrap)
    torch.testing.assert_close(written(batch).loss, wanted.loss.detach(), equal_nan=True)


def test_makes_gradients_where_there_are_none() -> None:
    case = Case()
    online, target = case.network(1), case.network(2)
    written = NativeUpdates(online, target, case.head, case.bootstrap).gradient
    check(case, online, target, case.batch(1), written(case.batch(1)))


def test_plain_networks_have_kernels_of_their_own() -> None:
    """They compile faster; all other networks share `variants.py`."""
    case = Case()

    def plain(bootstrap: Bootstrap = double_target, margin: Margin | None = None, **changes: Any) -> bool:
        network = case.network(1, **changes)
        return NativeUpdates(
            network, case.network(2, **changes), case.head, bootstrap, margin=margin
        ).is_plain

    assert plain()
    assert plain(greedy_target)
    assert not plain(Munchausen(0.9, 0.03, -1.0))
    assert not plain(margin=Margin(0.8, 1.0))
    for change in ({"layer_norm": True}, {"dueling": True}, {"noisy": True}):
        assert not plain(**change)


# ---- whole steps


def joined(batches: list[Batch]) -> Batch:
    """One after the other in one."""
    columns = zip(*(batch.transition for batch in batches), strict=True)
    transition = Transition(*(None if column[0] is None else torch.cat(column) for column in columns))
    return Batch(transition, *(torch.cat([batch[k] for batch in batches]) for k in (1, 2)))  # type: ignore[misc]


def learner_of(case: Case, **changes: Any) -> Learner:
    config = LearnConfig(**{"grad_clip": 0.5, "huber": case.huber, "lr": 0.01, "target_every": 0} | changes)
    learner = Learner(config, case.network(1), case.head, torch.device("cpu"))
    learner.target.load_state_dict(case.network(2).state_dict())
    return learner


def written_for(learner: Learner, threads: int = 1) -> NativeUpdates:
    return NativeUpdates(
        learner.online, learner.target, learner.head, learner.bootstrap, learner.adam,
        learner.target_flat.values, learner.tau, Team(threads),
    )  # fmt: skip


KINDS = [
    {},
    {"bootstrap": "greedy"},
    {"target_every": 100},
    {"grad_clip": 0.0},
    {"optimizer": "adamw", "weight_decay": 0.1},
]


@pytest.mark.parametrize("change", KINDS, ids=str)
@pytest.mark.parametrize("hidden", [(), (8,), (40, 24), (16, 8, 8), (33, 70)], ids=str)
def test_steps_are_those_of_the_learner(hidden: tuple[int, ...], change: dict[str, Any]) -> None:
    """A group of steps by hand against autograd, step by step: weights, target, moments, sums, priorities."""
    bootstrap = greedy_target if change.get("bootstrap") == "greedy" else double_target
    case = Case(hidden=hidden, bootstrap=bootstrap, masked=True, huber=1.0)
    plain, fast = (learner_of(case, **{"bootstrap": "double"} | change) for _ in range(2))
    written, batches = written_for(fast), [case.batch(seed) for seed in range(6)]
    wanted = [plain.step(batch) for batch in batches]
    priority, done, _ = written.steps(joined(batches[:4]), 4, fast.sums)
    assert done == 4
    more, done, _ = written.steps(joined(batches[4:]), 2, fast.sums)
    assert done == 2
    close = functools.partial(torch.testing.assert_close, rtol=2e-3, atol=2e-4)
    close(torch.cat((priority, more)), torch.cat(wanted))
    close(fast.flat.values, plain.flat.values)
    close(fast.target_flat.values, plain.target_flat.values)
    close(fast.adam.first, plain.adam.first)
    close(fast.adam.second, plain.adam.second)
    close(fast.sums, plain.sums)
    assert fast.adam.steps.item() == plain.adam.steps.item() == 6


@pytest.mark.parametrize("hidden", [(64,), (96, 130), (40, 24, 8)], ids=str)
@pytest.mark.parametrize("rows", [24, 300])
def test_the_number_of_threads_changes_no_bit(hidden: tuple[int, ...], rows: int) -> None:
    case = Case(hidden=hidden, rows=rows)
    found = []
    for threads in (1, 2, 3):
        learner = learner_of(case, bootstrap="double")
        written = written_for(learner, threads)
        errors = [
            written.steps(joined([case.batch(k) for k in range(5)]), 5, learner.sums)[0] for _ in range(4)
        ]
        found.append(
            [learner.flat.values, learner.target_flat.values, learner.adam.second, learner.sums, *errors]
        )
    for others in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found[0], others, strict=True))


@pytest.mark.parametrize("hidden", [(8,), (40, 24)], ids=str)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bad", [torch.nan, 3e38])
def test_stops_before_a_step_whose_loss_is_not_finite(
    hidden: tuple[int, ...], threads: int, bad: float
) -> None:
    """3e38 squared is infinite in the loss's own precision, though not in that of its sum."""
    case = Case(hidden=hidden, weighted=False, huber=0.0)
    batches = [case.batch(seed) for seed in range(4)]
    batches[2].transition.reward[5] = bad
    learner, other = learner_of(case), learner_of(case)
    _, done, loss = written_for(learner, threads).steps(joined(batches), 4, learner.sums)
    assert done == 2
    assert not math.isfinite(loss)
    written_for(other).steps(joined(batches[:2]), 2, other.sums)
    assert torch.equal(learner.flat.values, other.flat.values)
    assert torch.equal(learner.sums, other.sums)
    assert learner.adam.steps.item() == 2


def test_a_batch_may_come_again_with_other_samples() -> None:
    """As `NativePick.again` hands it out."""
    case = Case(hidden=(40, 24))
    one, other = learner_of(case), learner_of(case)
    again, fresh = written_for(one), written_for(other)
    batch = joined([case.batch(0), case.batch(1)])
    for seed in range(5):
        new = joined([case.batch(seed), case.batch(seed + 10)])
        for column, source in zip(batch.transition[:5], new.transition[:5], strict=True):
            column.copy_(source)
        batch.weight.copy_(new.weight)
        errors = again.steps(batch, 2, one.sums)[0]
        assert torch.equal(errors, fresh.steps(new, 2, other.sums)[0])
    assert torch.equal(one.flat.values, other.flat.values)
