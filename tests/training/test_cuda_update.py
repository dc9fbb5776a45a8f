"""The fused update against `td_loss`, autograd and PyTorch's own optimizers; the fused policy against plain torch.

Runs on CUDA, or on the CPU in Triton's interpreter: TRITON_INTERPRET=1 pytest tests/training/test_cuda_update.py
(`test_cuda_interpreted.py` does that). The interpreter is slow, so it gets fewer and smaller cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from flashdqn.config import LearnConfig, NetworkConfig
from flashdqn.core.contract import ObsSpec
from flashdqn.core.ops import masked_argmax
from flashdqn.core.types import Batch, Transition
from flashdqn.learn.bootstraps import BOOTSTRAPS, given_target
from flashdqn.learn.flat import Flat
from flashdqn.learn.heads import ScalarHead
from flashdqn.learn.loss import td_loss
from flashdqn.networks.build import QNetwork, build_network
from flashdqn.networks.roles import make_target
from flashdqn.training.backends.cuda.network import flat_view, fused_available, is_interpreted, mlp_sizes
from flashdqn.training.backends.cuda.plans import (
    PolicyPlan,
    UpdatePlan,
    choose_policy_plan,
    choose_update_plan,
)
from flashdqn.training.backends.cuda.policy import FusedPolicy
from flashdqn.training.backends.cuda.update import FusedUpdate

needs_kernels = pytest.mark.skipif(
    not fused_available(), reason="needs CUDA and Triton, or Triton with TRITON_INTERPRET=1"
)
needs_cuda = pytest.mark.skipif(is_interpreted() or not fused_available(), reason="needs CUDA and Triton")
DEVICE = torch.device("cuda" if torch.cuda.is_available() and not is_interpreted() else "cpu")
ROWS, UPDATES = (40, 2) if is_interpreted() else (100, 4)
BASE = LearnConfig(lr=0.01, grad_clip=0.5, huber=1.0, target_every=0, target_tau=0.1, bootstrap="double")


def choose_cases(small: list[Any], more: list[Any]) -> list[Any]:
    """The small ones, and on a GPU also the others."""
    return small if is_interpreted() else small + more


def flat_parameters(network: nn.Module) -> Tensor:
    flat = Flat(network)
    return flat.without_tail(flat.values)


def make_network(
    inputs: int = 11, hidden: tuple[int, ...] = (32, 64), actions: int = 3, **options: Any
) -> QNetwork:
    spec = ObsSpec((inputs,), torch.float32)
    generator = torch.Generator().manual_seed(1)
    network = build_network(NetworkConfig(torso="mlp", hidden=hidden, **options), spec, actions, generator)
    return network.to(DEVICE)


def make_batch(size: int, seed: int, inputs: int = 11, actions: int = 3, **changes: Any) -> Batch:
    g = torch.Generator().manual_seed(seed)
    obs, next_obs = torch.randn(2, size, inputs, generator=g)
    if changes.get("bytes"):
        obs, next_obs = torch.randint(256, (2, size, inputs), generator=g, dtype=torch.uint8)
    mask = None
    if changes.get("masked"):
        mask = torch.rand(size, actions, generator=g) < 0.5
        mask[: size // 2, 0] = True  # some rows below have no legal action at all
    weight = torch.rand(size, generator=g)
    weight[torch.rand(size, generator=g) < 0.3] = 0.0
    transition = Transition(
        obs,
        torch.randint(actions, (size,), generator=g),
        torch.randn(size, generator=g) * 2,
        torch.where(torch.rand(size, generator=g) < 0.2, 0.0, 0.9),
        next_obs,
        mask,
    )
    moved = [None if tensor is None else tensor.to(DEVICE) for tensor in transition]
    return Batch(Transition(*moved), weight.to(DEVICE), torch.arange(size, device=DEVICE))


class Fused:
    """All that a learner would hold."""

    def __init__(
        self,
        config: LearnConfig,
        network: QNetwork,
        batch_size: int,
        plan: UpdatePlan,
        exchange: Callable[[Tensor], None] | None = None,
    ) -> None:
        target = make_target(network)
        assert isinstance(target, QNetwork)
        self.online, self.target = network, target
        self.flat, self.target_flat = flat_parameters(network), flat_parameters(target)
        self.exp_avg, self.exp_avg_sq = torch.zeros_like(self.flat), torch.zeros_like(self.flat)
        self.step, self.lr = torch.zeros((), device=DEVICE), torch.tensor(config.lr, device=DEVICE)
        self.sums = torch.zeros(3, device=DEVICE)
        self.first_bad = torch.full((), -1, dtype=torch.int64, device=DEVICE)
        self.update = FusedUpdate(
            network, target, flat=self.flat, target_flat=self.target_flat, exp_avg=self.exp_avg,
            exp_avg_sq=self.exp_avg_sq, step=self.step, lr=self.lr, sums=self.sums, first_bad=self.first_bad,
            head=ScalarHead(config.huber), bootstrap=BOOTSTRAPS[config.bootstrap], config=config,
            batch_size=batch_size, plan=plan, exchange=exchange,
        )  # fmt: skip

    def state(self) -> list[Tensor]:
        return [self.flat, self.target_flat, self.exp_avg, self.exp_avg_sq, self.step, self.sums]


class Reference:
    """The same by autograd, in float64."""

    def __init__(self, config: LearnConfig, network: QNetwork) -> None:
        self.config, self.online, self.target = config, network.double(), make_target(network).double()
        kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
        self.optimizer = kind(
            network.parameters(), lr=config.lr, eps=config.adam_eps, weight_decay=config.weight_decay
        )
        self.sums = torch.zeros(3, device=DEVICE, dtype=torch.float64)

    def update(self, batch: Batch) -> Tensor:
        config = self.config
        batch = Batch(Transition(*map(_wide, batch.transition)), batch.weight.double(), batch.index)
        result = td_loss(
            _as_double(self.online),
            _as_double(self.target),
            batch,
            ScalarHead(config.huber),
            BOOTSTRAPS[config.bootstrap],
        )
        self.optimizer.zero_grad()
        result.loss.backward()
        norm = nn.utils.clip_grad_norm_(self.online.parameters(), config.grad_clip or float("inf"))
        self.optimizer.step()
        if config.target_every == 0:
            with torch.no_grad():
                for slow, fast in zip(self.target.parameters(), self.online.parameters(), strict=True):
                    slow.lerp_(fast, config.target_tau)
        self.sums += torch.stack((result.loss.detach(), result.q, norm))
        return result.priority

    def state(self) -> list[Tensor]:
        moments = [self.optimizer.state[parameter] for parameter in self.online.parameters()]
        step = moments[0]["step"].to(DEVICE)
        return [
            _join(self.online.parameters()),
            _join(self.target.parameters()),
            _join(moment["exp_avg"] for moment in moments),
            _join(moment["exp_avg_sq"] for moment in moments),
            step,
            self.sums,
        ]


def _wide(tensor: Tensor | None) -> Tensor | None:
    return tensor.double() if tensor is not None and tensor.is_floating_point() else tensor


def _as_double(network: QNetwork) -> Any:
    """QNetwork itself would turn its input into float32."""
    return lambda obs: network.output(
        network.torso((obs / 255.0 if obs.dtype == torch.uint8 else obs).double())
    )


def _join(tensors: Any) -> Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def distance(found: Tensor, expected: Tensor) -> float:
    assert torch.isfinite(found).all()
    return float((found.double() - expected).norm() / expected.norm().clamp_min(1e-12))


def compare(config: LearnConfig, batch_size: int, updates: int = UPDATES, **options: Any) -> None:
    """Several updates one after another, in full precision: parameters, moments, target, sums and priorities."""
    shape = {key: options[key] for key in ("inputs", "actions") if key in options}
    network = {key: options[key] for key in ("hidden",) if key in options} | shape
    plan = options.get("plan") or choose_update_plan(mlp_sizes(make_network(**network)), batch_size)  # type: ignore[arg-type]
    fused = Fused(config, make_network(**network), batch_size, replace(plan, precision="ieee"))
    reference = Reference(config, make_network(**network))
    looks = {key: options[key] for key in ("bytes", "masked") if key in options}
    for i in range(updates):
        batch = make_batch(batch_size, i, **shape, **looks)
        fused.update.priority.fill_(float("nan"))
        assert distance(fused.update(batch), reference.update(batch)) < 1e-5
    for name, found, expected in zip(
        ("online", "target", "exp_avg", "exp_avg_sq", "step", "sums"),
        fused.state(),
        reference.state(),
        strict=True,
    ):
        assert distance(found, expected) < 1e-4, name
    assert int(fused.first_bad) == -1


@needs_kernels
@pytest.mark.parametrize("batch_size", choose_cases([1, 16, 70], [48, 64, 100, 300]))
@pytest.mark.parametrize("bootstrap", ["double", "greedy"])
def test_equals_autograd_at_every_batch_size(batch_size: int, bootstrap: Any) -> None:
    compare(replace(BASE, bootstrap=bootstrap), batch_size)


CUTS = {
    "wide": UpdatePlan(rows=64, columns=64, depth=16, block1=(32, 16, 32), block2=(16, 16, 16), block3=(32, 64)),
    "chunks": UpdatePlan(rows=16, columns=16, chunks=3, block1=(16, 32, 16), block2=(32, 64, 32), block3=(16, 16)),
    "joint": UpdatePlan(joint=True, rows=32, columns=64, depth=16),
    "joint chunks": UpdatePlan(joint=True, rows=16, depth=32, chunks=4, block1=(16, 16, 16), block2=(16, 16, 16),
                         block3=(16, 16)),
}  # fmt: skip


@needs_kernels
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("masked", [False, True])
def test_equals_autograd_however_it_is_cut(cut: str, masked: bool) -> None:
    compare(BASE, ROWS, plan=CUTS[cut], masked=masked)


@needs_kernels
@pytest.mark.parametrize("measured", choose_cases([64, 65, 2048], [16, 256, 16384]))
@pytest.mark.parametrize("rows", choose_cases([80], [16, 130]))
def test_equals_autograd_by_the_plan_of_every_batch_size(measured: int, rows: int) -> None:
    """On a few rows, because the interpreter is slow: in the last block of some, the first of others."""
    hidden = (64, 128)
    plan = choose_update_plan(mlp_sizes(make_network(hidden=hidden)), measured)  # type: ignore[arg-type]
    compare(BASE, rows, updates=UPDATES // 2, hidden=hidden, plan=plan, masked=True)


@needs_kernels
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        {"huber": 0.0},
        {"huber": 0.3},
        {"grad_clip": 0.0},
        {"grad_clip": 1000.0},
        {"optimizer": "adamw", "weight_decay": 0.1},
        {"target_every": 5},
        {"adam_eps": 0.1},
    ],
    ids=str,
)
def test_settings(change: dict[str, Any], joint: bool) -> None:
    compare(replace(BASE, **change), min(48, ROWS // 2), plan=UpdatePlan(joint=joint, rows=32))


@needs_kernels
@pytest.mark.parametrize("plan", [None, CUTS["joint chunks"]], ids=["split", "joint"])
def test_bytes_and_masks(plan: UpdatePlan | None) -> None:
    compare(BASE, min(64, ROWS), plan=plan, masked=True, bytes=True)


@needs_kernels
@pytest.mark.parametrize(
    ("inputs", "actions", "hidden"), [(1, 1, (32, 32)), (40, 17, (64, 32)), (16, 32, (128, 32))]
)
@pytest.mark.parametrize("joint", [False, True])
def test_shapes(inputs: int, actions: int, hidden: tuple[int, ...], joint: bool) -> None:
    plan = UpdatePlan(joint=joint, rows=16)
    compare(BASE, 40, inputs=inputs, actions=actions, hidden=hidden, masked=True, plan=plan)


@needs_kernels
@pytest.mark.parametrize("joint", [False, True])
def test_a_bad_loss_is_marked_once(joint: bool) -> None:
    fused = Fused(BASE, make_network(), 16, UpdatePlan(joint=joint, rows=16))
    fused.step.fill_(7.0)
    fused.update(make_batch(16, 0))
    assert int(fused.first_bad) == -1
    bad = make_batch(16, 1)
    bad.transition.reward[3] = float("nan")
    bad.weight[3] = 1.0
    for _ in range(2):
        fused.update(bad)
    assert int(fused.first_bad) == 8
    assert float(fused.step) == 10


@needs_kernels
@pytest.mark.parametrize("cut", choose_cases(["joint chunks"], ["wide", "chunks", "joint"]))
def test_the_same_inputs_give_the_same_bits(cut: str) -> None:
    first, second = (Fused(BASE, make_network(), ROWS, CUTS[cut]) for _ in range(2))
    for i in range(UPDATES):
        priorities = [fused.update(make_batch(ROWS, i)) for fused in (first, second)]
        assert torch.equal(*priorities)
    for one, other in zip(first.state(), second.state(), strict=True):
        assert torch.equal(one, other)


@needs_kernels
@pytest.mark.parametrize("grad_clip", [0.0, 0.05])
@pytest.mark.parametrize("cut", choose_cases(["wide", "joint chunks"], ["chunks", "joint"]))
def test_an_exchange_sees_the_gradient_before_it_is_clipped(cut: str, grad_clip: float) -> None:
    """Halving the gradient is the same as halving the loss; what is clipped has the new norm."""
    config, seen = replace(BASE, grad_clip=grad_clip), []

    def halve(gradient: Tensor) -> None:
        assert gradient.shape == (mlp_sizes(make_network()).parameters,)  # type: ignore[union-attr]
        seen.append(gradient.norm())
        gradient.mul_(0.5)

    halved = Fused(config, make_network(), ROWS, CUTS[cut], exchange=halve)
    expected = Fused(config, make_network(), ROWS, CUTS[cut])
    for i in range(2):
        batch = make_batch(ROWS, i)
        priority = halved.update(batch)
        assert torch.equal(expected.update(batch._replace(weight=batch.weight * 0.5)), priority)
    for found, wanted in zip(halved.state()[:5], expected.state()[:5], strict=True):
        assert distance(found, wanted.double()) < 1e-6
    # loss and Q are those of the whole batch, the norm is that of what was exchanged
    factors = torch.tensor([2.0, 1.0, 1.0], device=DEVICE)
    assert distance(halved.sums, (expected.sums * factors).double()) < 1e-6
    assert distance(halved.sums[2], 0.5 * sum(seen).double()) < 1e-6
    assert len(seen) == 2


@needs_kernels
def test_the_network_sees_its_new_weights() -> None:
    fused = Fused(BASE, make_network(), 16, UpdatePlan())
    obs = make_batch(16, 0).transition.obs
    before = fused.online(obs)
    fused.update(make_batch(16, 0))
    assert not torch.equal(fused.online(obs), before)
    assert flat_view(fused.online).data_ptr() == fused.flat.data_ptr()


@needs_cuda
@pytest.mark.parametrize("precision", ["tf32", "tf32x3", "ieee"])
@pytest.mark.parametrize(
    ("batch_size", "hidden"), [(64, (256, 256)), (300, (128, 128)), (16384, (256, 256)), (5000, (512, 512))]
)
def test_precision_at_real_sizes(precision: str, batch_size: int, hidden: tuple[int, ...]) -> None:
    network, reference = make_network(hidden=hidden), Reference(BASE, make_network(hidden=hidden))
    plan = choose_update_plan(mlp_sizes(network), batch_size)  # type: ignore[arg-type]
    fused = Fused(BASE, network, batch_size, replace(plan, precision=precision))
    batch = make_batch(batch_size, 0)
    # A row whose two best actions are nearly equal may bootstrap from the other one: a few rows of thousands, which
    # the gradient feels more than rounding.
    limit = {"tf32": 2e-2, "tf32x3": 1e-3, "ieee": 1e-4}[precision]
    assert distance(fused.update(batch), reference.update(batch)) < limit
    assert distance(fused.exp_avg, reference.state()[2]) < limit
    assert distance(fused.sums, reference.sums) < limit


@needs_cuda
@pytest.mark.parametrize(
    ("batch_size", "pdl"), [(64, False), (64, True), (300, True), (4096, False), (4096, True)]
)
def test_a_graph_equals_calls(batch_size: int, pdl: bool) -> None:
    plan = replace(choose_update_plan(mlp_sizes(make_network(hidden=(256, 256))), batch_size), pdl=pdl)  # type: ignore[arg-type]
    calls, graphed = (Fused(BASE, make_network(hidden=(256, 256)), batch_size, plan) for _ in range(2))
    batches = [make_batch(batch_size, i) for i in range(8)]
    start = [tensor.clone() for tensor in graphed.state()]
    for batch in batches:  # also compiles
        graphed.update(batch)
    for tensor, value in zip(graphed.state(), start, strict=True):
        tensor.copy_(value)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        priorities = [graphed.update(batch).clone() for batch in batches]
    for _ in range(2):
        graph.replay()
        for batch, priority in zip(batches, priorities, strict=True):
            assert torch.equal(calls.update(batch), priority)
    for one, other in zip(calls.state(), graphed.state(), strict=True):
        assert torch.equal(one, other)


def test_what_fits() -> None:
    head, double = ScalarHead(1.0), BOOTSTRAPS["double"]

    def fits(network: nn.Module, config: LearnConfig = BASE) -> bool:
        return FusedUpdate.fits(network, head, double, config, 64)

    assert fits(make_network())
    assert fits(make_network(inputs=256, hidden=(512, 512), actions=32))
    assert not fits(nn.Linear(3, 3))
    assert not fits(make_network(hidden=(32,)))
    assert not fits(make_network(hidden=(32, 32, 32)))
    assert not fits(make_network(hidden=(48, 64)))
    assert not fits(make_network(inputs=257))
    assert not fits(make_network(actions=33))
    for option in ("layer_norm", "dueling", "noisy"):
        assert not fits(make_network(**{option: True}))
    assert not fits(make_network(), replace(BASE, optimizer="radam"))
    assert not FusedUpdate.fits(make_network(), head, given_target, BASE, 64)


def plain_actions(q: Tensor, mask: Tensor | None, eps: Tensor, coin: Tensor, luck: Tensor) -> Tensor:
    legal = torch.ones_like(q, dtype=torch.bool) if mask is None else mask
    actions = masked_argmax(q, mask).tolist()
    for i, row in enumerate(legal.tolist()):
        if coin[i] < eps[i]:
            choices = [action for action, allowed in enumerate(row) if allowed]
            k = min(int(luck[i] * len(choices)), len(choices) - 1)
            actions[i] = choices[k] if choices else 0
    return torch.tensor(actions, device=q.device)


@needs_kernels
@pytest.mark.parametrize(("num_envs", "actions"), [(1, 3), (40, 3), (100, 17), (64, 1)])
@pytest.mark.parametrize("looks", ["plain", "masked", "bytes"])
def test_policy(num_envs: int, actions: int, looks: str) -> None:
    network = make_network(actions=actions)
    flat_parameters(network)
    policy = FusedPolicy(
        network, num_envs, PolicyPlan(rows=32, columns=16, depth=16, warps=4, stages=2, precision="ieee")
    )
    for seed in range(3):
        batch = make_batch(num_envs, seed, actions=actions, **{looks: True})
        eps, coin, luck = torch.rand(3, num_envs, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
        luck[0] = 1.0  # torch.rand never gives it; the last action all the same
        obs, mask = batch.transition.obs, batch.transition.next_mask
        expected = plain_actions(network(obs), mask, eps, coin, luck)
        assert torch.equal(policy(obs, mask, eps, coin, luck), expected)


@needs_kernels
def test_policy_takes_the_lowest_of_equals() -> None:
    network = make_network()
    flat_parameters(network).zero_()
    policy = FusedPolicy(network, 2, PolicyPlan(16, 32, 32, 4, 2))
    zero = torch.zeros(2, device=DEVICE)
    mask = torch.tensor([[True, True, True], [False, True, True]], device=DEVICE)
    assert policy(torch.ones(2, 11, device=DEVICE), mask, zero, zero, zero).tolist() == [0, 1]


@needs_cuda
@pytest.mark.parametrize("num_envs", [256, 4096, 65536])
def test_policy_at_real_sizes(num_envs: int) -> None:
    network = make_network(hidden=(256, 256))
    flat_parameters(network)
    plan = replace(choose_policy_plan(mlp_sizes(network), num_envs), precision="ieee")  # type: ignore[arg-type]
    policy = FusedPolicy(network, num_envs, plan)
    obs, zero = torch.randn(num_envs, 11, device=DEVICE), torch.zeros(num_envs, device=DEVICE)
    same = policy(obs, None, zero, zero, zero) == network(obs).argmax(1)
    assert same.float().mean() > 0.999  # near ties may fall either way
