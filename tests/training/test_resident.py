"""The resident update against `Learner.step`, for many sizes: on any machine by a C++ compiler, and on CUDA."""

from __future__ import annotations

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

from flashdqn.replay.samplers import split_batch
from flashdqn.training.backends.cuda.resident import ResidentUpdates
from flashdqn.training.backends.cuda.resident_layout import Cut

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs g++")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
CUT = Cut(blocks=3, warps=2, cluster=True, loads=4)


def run_both(case: Case, updates: int, cut: Cut | None, most: int | None = None, **given: Any) -> float:
    """The largest distance between what the kernel and what `Learner.step` leave, over all tensors."""
    device, load = given.get("device", "cpu"), given.get("load", HostKernel)
    most = most or updates
    fast, slow = case.make_parts(device), case.make_parts(device)
    bits, due = draw_bits(case, most, device), torch.tensor([updates], dtype=torch.int32, device=device)
    kernel = ResidentUpdates(fast, most, cut, load)
    kernel.scratch[: kernel.layout.scratch["SC_VALUES"]].mul_(1.0)
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
    print(case, gaps)
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
