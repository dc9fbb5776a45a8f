"""Hand-written updates and actions of dueling, noisy, normalized and distributional networks, against autograd in
double precision, for networks and batches that hypothesis chooses."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cpu_update import DTYPES, Case, InDouble, joined
from torch import Tensor, nn

from flashdqn.compute.threads import Team
from flashdqn.config import LearnConfig, NetworkConfig
from flashdqn.core.contract import ObsSpec
from flashdqn.core.ops import choose_epsilon_greedy
from flashdqn.core.types import Batch
from flashdqn.learn.bootstraps import Bootstrap, Munchausen, double_target, given_target, greedy_target
from flashdqn.learn.distributional import CategoricalHead, ImplicitQuantileHead, QuantileHead
from flashdqn.learn.heads import Head, ScalarHead
from flashdqn.learn.learner import Learner
from flashdqn.learn.loss import Margin, TDLoss, td_loss
from flashdqn.networks.build import QNetwork, build_network
from flashdqn.networks.implicit import Fractions
from flashdqn.networks.noisy import NoisyLinear
from flashdqn.training.backends.cpu.networks import explain_unknown
from flashdqn.training.backends.cpu.policy import NativePolicy
from flashdqn.training.backends.cpu.update import NativeUpdates

CPU = torch.device("cpu")
SOFT = Munchausen(0.9, 0.03, -1.0)


@dataclass(frozen=True)
class Variant(Case):
    """A case with any head and any MLP; `shown` rows are demonstrations."""

    kind: str = "scalar"
    size: int = 5
    dueling: bool = False
    noisy: bool = False
    layer_norm: bool = False
    shown: int = 0
    branches: tuple[str, ...] = ()
    attention: int = 0

    @functools.cached_property
    def head(self) -> Head:  # type: ignore[override]
        if self.kind == "categorical":
            return CategoricalHead(self.size + 1, -6.0, 7.0, CPU)
        if self.kind == "quantile":
            return QuantileHead(self.size, self.huber, CPU)
        return ScalarHead(self.huber)

    @property
    def margin(self) -> Margin | None:
        return Margin(0.8, 0.7) if self.shown else None

    def network(self, seed: int, **changes: Any) -> QNetwork:
        """Norms and noise are not those of a new network, where they would be trivial."""
        kinds = {"dueling": self.dueling, "noisy": self.noisy, "layer_norm": self.layer_norm}
        torso = {"branches": self.branches, "attention": self.attention} if self.branches else {}
        kinds = {"torso": "branches" if self.branches else "mlp"} | torso | kinds
        config = NetworkConfig(hidden=self.hidden, **kinds | changes)
        g = torch.Generator().manual_seed(self.seed + seed)
        network = build_network(config, ObsSpec(self.shape, self.dtype), self.actions, g, self.head.size)
        for module in network.modules():
            if isinstance(module, NoisyLinear):
                module.noise_in.normal_(generator=g)
                module.noise_out.normal_(generator=g)
            elif isinstance(module, nn.LayerNorm):
                nn.init.uniform_(module.weight, 0.5, 1.5, generator=g)
                nn.init.uniform_(module.bias, -0.5, 0.5, generator=g)
        return network

    def batch(self, seed: int, rows: int | None = None) -> Batch:
        batch = super().batch(seed, rows)
        g = torch.Generator().manual_seed(2000 + self.seed + seed)
        mask = None
        if self.masked:
            mask = torch.rand(len(batch.weight), self.actions, generator=g) < 0.6
            mask.scatter_(1, batch.transition.action[:, None], True)  # what was taken was legal
        shown = min(self.shown, len(batch.weight) - 1)
        expert = torch.randint(self.actions, (shown,), generator=g) if self.shown else None
        return batch._replace(transition=batch.transition._replace(mask=mask), expert=expert)

    def learner(self) -> Learner:
        config = LearnConfig(grad_clip=0.5, lr=0.01, target_every=0, huber=self.huber)
        noise = {"noise": torch.Generator().manual_seed(5)} if self.noisy else {}
        learner = Learner(config, self.network(1), self.head, CPU, noise, margin=self.margin)
        learner.bootstrap = self.bootstrap
        learner.target.load_state_dict(self.network(2).state_dict())
        return learner


def make_updates(learner: Learner, threads: int = 1) -> NativeUpdates:
    return NativeUpdates(
        learner.online, learner.target, learner.head, learner.bootstrap, learner.adam,
        learner.target_flat.values, learner.tau, Team(threads), learner.noise, learner.margin,
    )  # fmt: skip


def expected(case: Variant, online: QNetwork, target: QNetwork, batch: Batch) -> tuple[TDLoss, list[Tensor]]:
    """`td_loss` and `backward` in float64."""
    head = replace(case).head
    for name in ("support", "tau"):
        if hasattr(head, name):
            setattr(head, name, getattr(head, name).double())
    precise, old = InDouble(online), InDouble(target)
    old.requires_grad_(False)
    transition = batch.transition._replace(
        reward=batch.transition.reward.double(), discount=batch.transition.discount.double()
    )
    batch = batch._replace(transition=transition, weight=batch.weight.double())
    result = td_loss(precise, old, batch, head, case.bootstrap, case.margin)
    result.loss.backward()
    return result, [parameter.grad for parameter in precise.parameters() if parameter.grad is not None]


variants = st.builds(
    Variant,
    shape=st.sampled_from([(1,), (11,), (32,), (2, 3, 5)]),
    hidden=st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple),
    actions=st.integers(1, 6),
    rows=st.sampled_from([2, 7, 16, 33, 64, 100, 256, 270]),
    huber=st.sampled_from([0.0, 1.0]),
    bootstrap=st.sampled_from([double_target, greedy_target, SOFT]),
    dtype=st.sampled_from(DTYPES),
    masked=st.booleans(),
    kind=st.sampled_from(["scalar", "categorical", "quantile"]),
    size=st.integers(1, 20),
    dueling=st.booleans(),
    noisy=st.booleans(),
    layer_norm=st.booleans(),
    shown=st.sampled_from([0, 0, 5, 40]),
    seed=st.integers(0, 2**20),
)


#: Branches, and how many numbers they read.
BRANCHES = {
    ("14:12,7", "6x13:9/11", "6x10:5/3"): 152,
    ("3:4", "2x5:/6"): 13,
    ("4x3:5,6/", "7:8,9"): 19,
    ("20x2:17/30",): 40,
}
branching = st.builds(
    lambda case, branches, attention: replace(
        case, shape=(BRANCHES[branches],), branches=branches, attention=attention, layer_norm=False
    ),
    variants,
    st.sampled_from(sorted(BRANCHES)),
    st.sampled_from([0, 0, 1, 20]),
)


@given(st.one_of(variants, branching))
@settings(max_examples=80, deadline=None)
def test_equals_autograd_and_leaves_nothing_behind(case: Variant) -> None:
    """Two batches in a row: gradients are overwritten, not summed, and nothing of the first is in the second."""
    online, target = case.network(1), case.network(2).requires_grad_(False)
    for parameter in online.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan)  # whatever lies there must not matter
    written = NativeUpdates(online, target, case.head, case.bootstrap, margin=case.margin)
    for seed in (1, 2):
        batch = case.batch(seed)
        result = written.gradient(batch)
        wanted, gradients = expected(case, online, target, batch)
        for name, got, want in zip(TDLoss._fields, result, wanted, strict=True):
            torch.testing.assert_close(got.double(), want.detach(), rtol=2e-4, atol=3e-5, msg=name)
        for parameter, want in zip(online.parameters(), gradients, strict=True):
            assert parameter.grad is not None
            scale = max(1.0, float(want.abs().max()))
            torch.testing.assert_close(parameter.grad.double(), want, rtol=1e-3, atol=5e-5 * scale)


KINDS = {
    "dueling": Variant(dueling=True),
    "noisy": Variant(noisy=True),
    "layer norm": Variant(layer_norm=True),
    "munchausen": Variant(bootstrap=SOFT),
    "returns of rollouts": Variant(bootstrap=given_target, layer_norm=True),
    "demonstrations": Variant(shown=9, masked=True),
    "categorical": Variant(kind="categorical", size=50, bootstrap=greedy_target),
    "quantile": Variant(kind="quantile", size=8),
    "soft quantile": Variant(kind="quantile", size=8, bootstrap=SOFT, masked=True),
    "rainbow": Variant(kind="categorical", size=50, dueling=True, noisy=True, masked=True),
    "branches": Variant(shape=(13,), branches=("3:4,20", "2x5:6/9"), attention=5, masked=True),
    "noisy branches": Variant(shape=(19,), branches=("4x3:5,6/", "7:8,9"), noisy=True, dueling=True),
    "all": Variant(kind="quantile", dueling=True, noisy=True, layer_norm=True, shown=9, dtype=torch.uint8),
}
each_kind = pytest.mark.parametrize("case", KINDS.values(), ids=KINDS)


@each_kind
@pytest.mark.parametrize("hidden", [(8,), (48, 200, 72), (120, 84)], ids=str)
def test_steps_are_those_of_the_learner(case: Variant, hidden: tuple[int, ...]) -> None:
    """A group of steps against autograd, step by step, with the same noise in every step and afterwards."""
    case = replace(case, hidden=hidden)
    plain, fast = case.learner(), case.learner()
    written, batches = make_updates(fast), [case.batch(seed) for seed in range(6)]
    wanted = [plain.step(batch) for batch in batches]
    priority, done, _ = written.steps(join(batches[:4]), 4, fast.sums)
    more, again, _ = written.steps(join(batches[4:]), 2, fast.sums)
    assert (done, again) == (4, 2)
    close = functools.partial(torch.testing.assert_close, rtol=5e-3, atol=5e-4)
    close(torch.cat((priority, more)), torch.cat(wanted))
    close(fast.flat.values, plain.flat.values)
    close(fast.target_flat.values, plain.target_flat.values)
    close(fast.sums, plain.sums)
    assert fast.adam.steps.item() == plain.adam.steps.item() == 6
    for ours, theirs in zip(fast.online.buffers(), plain.online.buffers(), strict=True):
        assert torch.equal(ours, theirs)  # the noise that the policy goes on with


def test_groups_of_other_sizes_may_come_between() -> None:
    """As with `NativePick.again`, whose batches come again: one for each size of a group."""
    case = Variant(noisy=True, dueling=True)
    plain, fast = case.learner(), case.learner()
    written, batches = make_updates(fast), [case.batch(seed) for seed in range(8)]
    groups = {count: join(batches[:count]) for count in (1, 8, 2)}
    for count in (1, 8, 1, 2, 8, 1):
        written.steps(groups[count], count, fast.sums)
        for batch in batches[:count]:
            plain.step(batch)
    torch.testing.assert_close(fast.flat.values, plain.flat.values, rtol=5e-3, atol=5e-4)


def join(batches: list[Batch]) -> Batch:
    """One after the other in one, with the experts' actions."""
    whole = joined(batches)
    return (
        whole if batches[0].expert is None else whole._replace(expert=torch.cat([b.expert for b in batches]))
    )  # type: ignore[misc]


@each_kind
@pytest.mark.parametrize("rows", [24, 300])
def test_the_number_of_threads_changes_no_bit(case: Variant, rows: int) -> None:
    case = replace(case, hidden=(40, 24), rows=rows)
    found = []
    for threads in (1, 2, 3):
        learner = case.learner()
        written = make_updates(learner, threads)
        errors = [
            written.steps(join([case.batch(k) for k in range(3)]), 3, learner.sums)[0] for _ in range(3)
        ]
        found.append([learner.flat.values, learner.target_flat.values, learner.sums, *errors])
    for others in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found[0], others, strict=True))


@each_kind
@pytest.mark.parametrize("threads", [1, 2])
def test_stops_before_a_step_whose_loss_is_not_finite(case: Variant, threads: int) -> None:
    case = replace(case, weighted=False)
    batches = [case.batch(seed) for seed in range(4)]
    batches[2].transition.reward[5] = torch.nan
    learner, other = case.learner(), case.learner()
    _, done, loss = make_updates(learner, threads).steps(join(batches), 4, learner.sums)
    assert done == 2
    assert loss != loss
    make_updates(other).steps(join(batches[:2]), 2, other.sums)
    assert torch.equal(learner.flat.values, other.flat.values)
    assert torch.equal(learner.sums, other.sums)


def test_a_reward_without_end_is_the_last_atom() -> None:
    case = Variant(kind="categorical", weighted=False)
    batch, learner = case.batch(1), case.learner()
    batch.transition.reward[:2] = torch.tensor([torch.inf, -torch.inf])
    wanted = td_loss(learner.online, learner.target, batch, case.head, case.bootstrap)
    torch.testing.assert_close(make_updates(learner).gradient(batch).loss, wanted.loss.detach())


def test_equal_rivals_share_the_slope_of_the_margin() -> None:
    """As `amax` does: all values are equal here, so all rivals are."""
    case = Variant(shown=8, actions=4, weighted=False)
    online, target = case.network(1), case.network(2).requires_grad_(False)
    with torch.no_grad():
        online.output.weight.zero_()  # type: ignore[union-attr]
        online.output.bias.fill_(0.25)  # type: ignore[union-attr]
    batch = case.batch(1)
    td_loss(online, target, batch, case.head, case.bootstrap, case.margin).loss.backward()
    wanted = [parameter.grad.clone() for parameter in online.parameters()]  # type: ignore[union-attr]
    NativeUpdates(online, target, case.head, case.bootstrap, margin=case.margin).gradient(batch)
    for parameter, want in zip(online.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, want, rtol=1e-5, atol=1e-6)


@given(st.one_of(variants, branching), st.integers(1, 70), st.floats(0, 1), st.integers(1, 2))
@settings(max_examples=60, deadline=None)
def test_actions_are_those_of_the_network(case: Variant, num_envs: int, eps: float, threads: int) -> None:
    case = replace(case, shown=0)
    network, g = case.network(1), torch.Generator().manual_seed(case.seed)
    obs = case.batch(1, num_envs).transition.obs
    mask = None
    if case.masked:
        mask = torch.rand((num_envs, case.actions), generator=g) < 0.5
        mask[:, 0] |= ~mask.any(1)
    rates, luck = torch.full((num_envs,), eps), torch.rand((2, num_envs), generator=g)
    with torch.no_grad():
        q = case.head.q(network(obs))
    wanted = choose_epsilon_greedy(q, mask, rates, luck)
    got = NativePolicy(network, num_envs, Team(threads), case.head)(obs, mask, rates, luck)
    other = (got != wanted).nonzero().flatten()  # rounding may choose among equals
    torch.testing.assert_close(q[other, got[other]], q[other, wanted[other]], rtol=1e-4, atol=1e-5)


def test_the_policy_follows_weights_and_noise_that_are_written_in_place() -> None:
    case = Variant(noisy=True, dueling=True, kind="categorical", actions=5)
    network = case.network(1)
    policy = NativePolicy(network, 40, head=case.head)
    obs, luck = case.batch(1, 40).transition.obs, torch.ones(2, 40)
    for seed in (2, 3, 4):
        network.load_state_dict(case.network(seed).state_dict())
        with torch.no_grad():
            wanted = case.head.q(network(obs)).argmax(1)
        assert torch.equal(policy(obs, None, torch.zeros(40), luck), wanted)


def test_says_which_part_it_does_not_know() -> None:
    case = Variant()

    class OtherHead(ScalarHead):
        pass

    def own_target(*_: Any) -> Tensor:
        raise NotImplementedError

    def explain(
        network: nn.Module, head: Head = case.head, bootstrap: Bootstrap = double_target
    ) -> str | None:
        return explain_unknown(network, head, bootstrap)

    for change in ({}, {"layer_norm": True}, {"dueling": True}, {"noisy": True}):
        assert explain(case.network(1, **change)) is None
        assert explain(case.network(1, **change), bootstrap=SOFT) is None
    assert explain(case.network(1), OtherHead(1.0)) == "your own head"
    assert explain(case.network(1), bootstrap=own_target) == "your own bootstrap"
    implicit = ImplicitQuantileHead(Fractions(4, 4, 4), 1.0)
    assert explain(case.network(1), implicit) == "implicit quantiles"
    categorical = Variant(kind="categorical")
    assert "rollouts" in str(explain(categorical.network(1), categorical.head, given_target))
    assert explain(case.network(1, normalize=True)) == "observations that the network normalizes"
    g = torch.Generator().manual_seed(0)
    planes = build_network(NetworkConfig(torso="cnn"), ObsSpec((2, 5, 5), torch.float32), 3, g)
    assert explain(planes) == "the torso CNN, only MLPs and branches"
    rows = Variant(shape=(13,), branches=("3:4", "2x5:6/9"))
    assert explain(rows.network(1)) is None
    assert explain(rows.network(1, layer_norm=True)) == "layer norm in branches of rows"
    bare = Variant(shape=(13,), branches=("3:", "2x5:6/9"))
    assert explain(bare.network(1)) == "branches without layers"
    assert explain(case.network(1).double()) == "weights that are not float32 on the CPU"
    assert explain(nn.Sequential(nn.Linear(4, 3))) == "a network that is not a QNetwork"
    with pytest.raises(ValueError, match="does not support your own head"):
        NativeUpdates(case.network(1), case.network(2), OtherHead(1.0), double_target)
