"""The resident update against `Learner.step`, for many sizes: on any machine by a C++ compiler, and on CUDA."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from resident_cases import (
    COMPILER,
    Case,
    HostKernel,
    copy_state,
    distance,
    draw_bits,
    list_state,
    pick_batches,
)

from flashdqn.compute.nvrtc import CompiledCuda, explain_missing_nvrtc
from flashdqn.core.types import Batch, Transition
from flashdqn.replay.samplers import split_batch
from flashdqn.training.backends.cuda.resident import (
    SHARED_BYTES,
    ResidentUpdates,
    choose_cut,
    describe_task,
    explain_misfit,
    read_network,
)
from flashdqn.training.backends.cuda.resident_layout import Cut, ResidentLayout

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs g++")
needs_cuda = pytest.mark.skipif(explain_missing_nvrtc() is not None, reason="needs CUDA and NVRTC")
CUT = Cut(blocks=3, warps=2, cluster=True, loads=4)


def run_both(case: Case, updates: int, cut: Cut | None, most: int | None = None, **given: Any) -> float:
    """The largest distance between what the kernel and what `Learner.step` leave, over all tensors."""
    device, load = given.get("device", "cpu"), given.get("load", HostKernel)
    most = most or updates
    fast, slow = case.make_parts(device), case.make_parts(device)
    bits, due = draw_bits(case, most, device), torch.tensor([updates], dtype=torch.int32, device=device)
    kernel = ResidentUpdates(fast, most, cut, load)
    kernel.priority.fill_(float("nan"))
    kernel.updates(bits, due)
    priorities = []
    for batch in split_batch(pick_batches(slow, case, bits), most, case.batch)[:updates]:
        priorities.append(slow.learner.update(batch))
    found, wanted = list_state(fast), list_state(slow)
    gaps = {name: distance(found[name], wanted[name]) for name in wanted}
    gaps["priority"] = distance(kernel.priority[:updates], torch.stack(priorities))
    assert int(fast.learner.watch.first_bad) == -1
    assert gaps["steps"] == 0
    return max(gaps.values())


SIZES = [
    Case(),
    Case(hidden=(16,)),
    Case(hidden=(120, 84), batch=37),
    Case(hidden=(48, 200, 72), inputs=27, actions=9),
    Case(hidden=(20, 17, 33, 16), actions=1, inputs=1),
    Case(hidden=(30, 50), inputs=70, actions=18, batch=64, masked=True),
]
CHANGES = [
    Case(learn={"bootstrap": "greedy"}),
    Case(learn={"bootstrap": "greedy"}, masked=True, n_step=3),
    Case(masked=True, actions=40),
    Case(bytes=True, n_step=4),
    Case(learn={"huber": 0.0, "grad_clip": 0.0}),
    Case(learn={"huber": 0.3, "grad_clip": 1000.0}),
    Case(learn={"optimizer": "adamw", "weight_decay": 0.1}),
    Case(learn={"target_every": 2}),
    Case(learn={"target_every": 3, "adam_eps": 0.1}, hidden=(16,)),
    Case(envs=300),
]


@needs_compiler
@pytest.mark.parametrize("case", SIZES + CHANGES, ids=str)
def test_equals_autograd(case: Case) -> None:
    assert run_both(case, 3, CUT) < 1e-4


@needs_compiler
@pytest.mark.parametrize(
    "cut",
    [
        Cut(blocks=1, warps=1, cluster=True),
        Cut(blocks=8, warps=3, cluster=False, loads=2),  # more blocks than some layers have units for
        Cut(blocks=2, warps=4, cluster=True, group=8),
        Cut(blocks=4, warps=8, cluster=True, group=16, loads=16),
        Cut(blocks=5, warps=2, cluster=False, fuse=False),
        Cut(blocks=14, warps=2, cluster=False),  # a block owns one tile at most
    ],
    ids=str,
)
def test_equals_autograd_however_it_is_cut(cut: Cut) -> None:
    assert run_both(Case(hidden=(40, 24, 36), inputs=19, batch=33, masked=True, n_step=2), 2, cut) < 1e-4


@needs_compiler
@pytest.mark.parametrize("hidden", [(24,), (24, 40), (24, 40, 17), (17, 40, 16, 20)])
@pytest.mark.parametrize("batch", [16, 37])
def test_equals_autograd_with_a_block_for_every_tile(hidden: tuple[int, ...], batch: int) -> None:
    assert (
        run_both(Case(hidden=hidden, batch=batch, masked=True), 3, Cut(blocks=16, warps=2, cluster=True))
        < 1e-4
    )


@needs_compiler
def test_fewer_updates_than_there_is_room_for() -> None:
    assert run_both(Case(), 2, CUT, most=5) < 1e-4


@needs_compiler
def test_nothing_due_changes_nothing() -> None:
    parts = Case().make_parts()
    before = copy_state(parts)
    kernel = ResidentUpdates(parts, 2, CUT, HostKernel)
    kernel.updates(draw_bits(Case(), 2), torch.zeros(1, dtype=torch.int32))
    assert all(torch.equal(before[name], tensor) for name, tensor in list_state(parts).items())


@needs_compiler
@pytest.mark.parametrize("cut", [Cut(4, 2, True), Cut(14, 2, True)], ids=str)
def test_no_result_depends_on_the_order_of_threads(cut: Cut) -> None:
    """A missing barrier would let a late thread read what an early one has overwritten."""
    case, states = Case(hidden=(40, 24, 36), batch=20), []
    for seed in (0, 1, 2, 3):
        parts = case.make_parts()
        kernel = ResidentUpdates(parts, 3, cut, type("Shuffled", (HostKernel,), {"seed": seed}))
        kernel.updates(draw_bits(case, 3), torch.tensor([3], dtype=torch.int32))
        states.append(list_state(parts) | {"priority": kernel.priority})
    for state in states[1:]:
        assert all(torch.equal(states[0][name], tensor) for name, tensor in state.items())


@needs_compiler
@pytest.mark.parametrize(
    "case", [Case(bytes=True, inputs=32, hidden=(96, 96)), Case(inputs=64, hidden=(96,))], ids=str
)
def test_every_factor_is_rounded_for_the_matrix_units(case: Case) -> None:
    """The stand-in for the matrix instruction stops the process if one is not. Multiples of 32: other sizes also
    multiply some numbers behind the ends of rows, whose results are dropped."""
    rounding = type("Rounding", (HostKernel,), {"tf32": True})
    assert 1e-6 < run_both(case, 2, CUT, load=rounding) < 0.1


def give_batches(case: Case, count: int, apart: bool) -> tuple[Any, Any, list[Batch]]:
    fast, slow = case.make_parts(), case.make_parts()
    large = pick_batches(slow, case, draw_bits(case, count))
    large = large._replace(weight=torch.rand(len(large.weight), generator=torch.Generator().manual_seed(4)))
    batches = split_batch(large, count, case.batch)
    if apart:
        batches = [
            Batch(
                Transition(*(None if x is None else x.clone() for x in b.transition)),
                b.weight.clone(),
                b.index,
            )
            for b in batches
        ]
    return fast, slow, batches


@needs_compiler
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("case", [Case(masked=True), Case(bytes=True, n_step=3)], ids=str)
def test_given_batches(case: Case, apart: bool) -> None:
    fast, slow, batches = give_batches(case, 3, apart)
    found = ResidentUpdates(fast, 4, CUT, HostKernel).learn_from(batches)
    wanted = torch.stack([slow.learner.update(batch) for batch in batches])
    assert found.shape == wanted.shape
    assert distance(found, wanted) < 1e-5
    for name, tensor in list_state(slow).items():
        assert distance(list_state(fast)[name], tensor) < 1e-4, name


@needs_compiler
def test_given_places_in_the_ring() -> None:
    case = Case(masked=True, n_step=3)
    fast, slow, batches = give_batches(case, 2, apart=False)
    index, weight = (torch.cat([getattr(batch, name) for batch in batches]) for name in ("index", "weight"))
    kernel = ResidentUpdates(fast, 2, CUT, HostKernel)
    found = kernel.updates_at(index, weight, torch.tensor([2], dtype=torch.int32))
    assert distance(found, torch.stack([slow.learner.update(batch) for batch in batches])) < 1e-5
    for name, tensor in list_state(slow).items():
        assert distance(list_state(fast)[name], tensor) < 1e-4, name


@needs_compiler
def test_a_bad_loss_is_marked_once() -> None:
    fast, _, batches = give_batches(Case(), 3, apart=False)
    fast.learner.adam.steps.fill_(7.0)
    batches[1].transition.reward[3] = float("nan")
    ResidentUpdates(fast, 3, CUT, HostKernel).learn_from(batches)
    assert int(fast.learner.watch.first_bad) == 8
    assert float(fast.learner.adam.steps) == 10


@pytest.mark.parametrize(
    "hidden", [(16,), (1024,), (1024, 1024), (512, 512, 512), (256,) * 4, (120, 84), (48, 200, 72)]
)
@pytest.mark.parametrize("batch", [16, 64, 128])
def test_promised_sizes_fit(hidden: tuple[int, ...], batch: int) -> None:
    parts = Case(hidden=hidden, batch=batch, inputs=32).make_parts()
    assert explain_misfit(parts) is None
    network, task = read_network(parts), describe_task(parts, 16)
    assert ResidentLayout(network, task, choose_cut(network, task)).shared_bytes <= SHARED_BYTES


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (Case(batch=4096, actions=60), "bytes of shared memory per block"),
        (Case(batch=5000), "batches of at most 4,096"),
        (Case(hidden=(8, 8, 8, 8, 8)), "1 to 4 hidden layers"),
        (Case(hidden=(2000,)), "at most 1024 units"),
        (Case(learn={"optimizer": "radam"}), "Adam or AdamW"),
    ],
    ids=str,
)
def test_what_does_not_fit_says_why(case: Case, reason: str) -> None:
    assert reason in str(explain_misfit(case.make_parts()))


@needs_cuda
@pytest.mark.parametrize("case", SIZES + CHANGES, ids=str)
def test_equals_autograd_on_cuda(case: Case) -> None:
    """Within the rounding of TF32, which may choose another of two actions that are nearly equal."""
    assert run_both(case, 3, None, device="cuda", load=CompiledCuda) < 0.1


@needs_cuda
@needs_compiler
@pytest.mark.parametrize("case", SIZES + CHANGES, ids=str)
def test_equals_the_same_source_on_the_cpu(case: Case) -> None:
    """With factors rounded alike, only the order of sums differs."""
    here, there = case.make_parts(), case.make_parts("cuda")
    cut = choose_cut(read_network(here), describe_task(here, 3))
    rounding, due = (
        type("Rounding", (HostKernel,), {"tf32": True, "strict": False}),
        torch.tensor([3], dtype=torch.int32),
    )
    ResidentUpdates(here, 3, replace(cut, warps=2), rounding).updates(draw_bits(case, 3), due)
    ResidentUpdates(there, 3, cut).updates(draw_bits(case, 3, "cuda"), due.cuda())
    for name, tensor in list_state(here).items():
        assert distance(list_state(there)[name].cpu(), tensor) < 1e-3, name


@needs_cuda
@pytest.mark.parametrize("cut", [Cut(16, 8, True), Cut(20, 4, False)], ids=str)
def test_the_same_bits_every_time_on_cuda(cut: Cut) -> None:
    case, states = Case(hidden=(256, 256), batch=64, masked=True), []
    for _ in range(4):
        parts = case.make_parts("cuda")
        kernel = ResidentUpdates(parts, 8, cut)
        for _ in range(5):
            kernel.updates(draw_bits(case, 8, "cuda"), torch.tensor([8], dtype=torch.int32, device="cuda"))
        states.append(list_state(parts))
    for state in states[1:]:
        assert all(torch.equal(states[0][name], tensor) for name, tensor in state.items())
