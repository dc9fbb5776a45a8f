"""Ring and `gather` against a replay by definition, after every single append."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from replay_twin import (
    GOES_ON,
    IMAGE,
    TERMINATED,
    TRUNCATED,
    VECTOR,
    ReplayTwin,
    Tape,
)
from torch import Tensor

from flashdqn.core.contract import ObsSpec
from flashdqn.core.types import Step, Transition
from flashdqn.replay.n_step import gather_transitions
from flashdqn.replay.ring import Kind, Ring, action_dtype, ring_bytes, rows_for_capacity
from flashdqn.replay.samplers import choose_uniform_slots

CPU = torch.device("cpu")
ACTIONS = 3


@st.composite
def histories(draw: st.DrawFn) -> list[list[int]]:
    """[time][environment] ends, often many, often none, often all at once, long enough to wrap several times."""
    num_envs = draw(st.integers(1, 4))
    steps = draw(st.integers(1, 36))
    style = draw(st.sampled_from(["any", "rare", "always", "never", "together"]))
    ends = {
        "any": st.sampled_from([GOES_ON, TERMINATED, TRUNCATED]),
        "rare": st.sampled_from([GOES_ON] * 8 + [TERMINATED, TRUNCATED]),
        "always": st.sampled_from([TERMINATED, TRUNCATED]),
        "never": st.just(GOES_ON),
        "together": st.sampled_from([GOES_ON, TERMINATED, TRUNCATED]),
    }[style]
    if style == "together":
        return [[end] * num_envs for end in draw(st.lists(ends, min_size=steps, max_size=steps))]
    row = st.lists(ends, min_size=num_envs, max_size=num_envs)
    return draw(st.lists(row, min_size=steps, max_size=steps))


def started_ring(tape: Tape, capacity: int, masked: bool) -> Ring:
    ring = Ring(capacity, tape.num_envs, tape.spec, tape.num_actions, CPU, masked)
    ring.start(tape.first, tape.first_mask if masked else None)
    return ring


def all_starts(ring: Ring, n: int) -> Tensor:
    """Every index that the sampler can give with weight 1, each once."""
    candidates = (int(ring.readable) - (n - 1)) * ring.num_envs
    if candidates <= 0:
        return torch.empty(0, dtype=torch.int64)
    index, weight = choose_uniform_slots(ring, n, torch.arange(candidates)[None])
    assert index.unique().numel() == candidates
    return index[weight == 1]


def compare(ring: Ring, twin: ReplayTwin, n: int, gamma: float) -> None:
    """The ring gives exactly the twin's transitions: none missing, none more, each the same."""
    index = all_starts(ring, n)
    expected = twin.transitions(ring.rows - ring.stack, n, gamma)
    places = {time % ring.rows * ring.num_envs + env: found for (time, env), found in expected.items()}
    assert set(index.tolist()) == set(places)
    if not places:
        return
    rows = [places[i] for i in index.tolist()]
    got = gather_transitions(ring, index, n, gamma)
    assert got.action.dtype == torch.int64
    assert got.reward.dtype == got.discount.dtype == torch.float32
    assert got.obs.dtype == got.next_obs.dtype == ring.obs.dtype
    torch.testing.assert_close(got.obs, torch.stack([row.obs for row in rows]), rtol=0, atol=0)
    torch.testing.assert_close(got.next_obs, torch.stack([row.next_obs for row in rows]), rtol=0, atol=0)
    assert got.action.tolist() == [row.action for row in rows]
    torch.testing.assert_close(got.reward, torch.tensor([row.reward for row in rows]), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(got.discount, torch.tensor([row.discount for row in rows]))
    if ring.mask is None:
        assert got.next_mask is None
    else:
        assert torch.equal(got.next_mask, torch.stack([row.next_mask for row in rows]))


@settings(max_examples=120, deadline=None)
@given(
    ends=histories(),
    rows=st.integers(1, 10),
    ragged=st.integers(0, 3),
    n=st.integers(1, 5),
    gamma=st.floats(0, 1, width=32),
    masked=st.booleans(),
    spec=st.sampled_from([VECTOR, IMAGE]),
    seed=st.integers(0, 2**32),
)
@example(ends=[[TERMINATED]] * 20, rows=4, ragged=0, n=3, gamma=0.9, masked=True, spec=VECTOR, seed=0)
@example(
    ends=[[TRUNCATED, TERMINATED]] * 20, rows=5, ragged=1, n=3, gamma=0.9, masked=False, spec=IMAGE, seed=0
)
@example(ends=[[GOES_ON] * 3] * 20, rows=3, ragged=2, n=3, gamma=1.0, masked=True, spec=VECTOR, seed=0)
def test_the_ring_gives_what_the_definition_says(
    ends: list[list[int]],
    rows: int,
    ragged: int,
    n: int,
    gamma: float,
    masked: bool,
    spec: ObsSpec,
    seed: int,
) -> None:
    tape = Tape(ends, spec, ACTIONS, seed)
    capacity = max(rows, n) * tape.num_envs - min(ragged, tape.num_envs - 1)
    ring = started_ring(tape, capacity, masked)
    twin = ReplayTwin(tape.first, tape.first_mask)
    for action, step in tape.steps:
        ring.append(action, step)
        twin.append(action, step)
        compare(ring, twin, n, gamma)


@settings(max_examples=60, deadline=None)
@given(ends=histories(), rows=st.integers(1, 8), data=st.data(), masked=st.booleans())
def test_a_ring_goes_on_equal_from_any_moment(
    ends: list[list[int]], rows: int, data: st.DataObject, masked: bool
) -> None:
    tape = Tape(ends, VECTOR, ACTIONS, seed=1)
    moment = data.draw(st.integers(0, len(tape.steps)), label="saved after")
    ring = started_ring(tape, rows * tape.num_envs, masked)
    for action, step in tape.steps[:moment]:
        ring.append(action, step)
    saved = {name: tensor.clone() for name, tensor in ring.state_dict().items()}
    assert len(saved["obs"]) == min(moment + 1, ring.rows)  # rows not in use are not saved

    resumed = another_history(ring, tape, rows * tape.num_envs, masked)
    resumed.load_state_dict(saved)
    for action, step in tape.steps[moment:]:
        assert_same_ring(ring, resumed)
        ring.append(action, step)
        resumed.append(action, step)
    assert_same_ring(ring, resumed)


def another_history(ring: Ring, tape: Tape, capacity: int, masked: bool) -> Ring:
    """A ring of the same size that was used for something else: nothing of that may show later."""
    other = Tape([[TERMINATED] * ring.num_envs] * (ring.rows + 2), VECTOR, ACTIONS, seed=2)
    used = started_ring(other, capacity, masked)
    for action, step in other.steps:
        used.append(action, step)
    return used


def assert_same_ring(one: Ring, other: Ring) -> None:
    first, second = one.state_dict(), other.state_dict()
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        if name in ("action", "reward", "kind"):  # the newest row has none of these yet
            rest = torch.arange(len(tensor)) != int(one.head)
            assert torch.equal(tensor[rest], second[name][rest]), name
        else:
            assert torch.equal(tensor, second[name]), name
    for n in (1, 3):
        assert torch.equal(all_starts(one, n), all_starts(other, n))
        if len(index := all_starts(one, n)):
            assert_same_transitions(
                gather_transitions(one, index, n, 0.9), gather_transitions(other, index, n, 0.9)
            )


def assert_same_transitions(one: Transition, other: Transition) -> None:
    for name, first, second in zip(Transition._fields, one, other, strict=True):
        assert (first is None and second is None) or torch.equal(first, second), name


def test_a_started_ring_forgets_what_it_held() -> None:
    old = Tape([[TERMINATED, GOES_ON]] * 11, VECTOR, ACTIONS, seed=3)
    new = Tape([[GOES_ON, TRUNCATED]] * 3, VECTOR, ACTIONS, seed=4)
    ring = started_ring(old, capacity=12, masked=False)
    for action, step in old.steps:
        ring.append(action, step)
    ring.start(new.first)
    twin = ReplayTwin(new.first, new.first_mask)
    assert len(all_starts(ring, 1)) == 0
    for action, step in new.steps:
        ring.append(action, step)
        twin.append(action, step)
        compare(ring, twin, 2, 0.9)


def test_each_observation_lies_in_the_ring_once() -> None:
    tape = Tape([[TERMINATED, GOES_ON, TRUNCATED]] * 17, IMAGE, ACTIONS, seed=5)
    ring = started_ring(tape, capacity=21, masked=False)
    for action, step in tape.steps:
        ring.append(action, step)
    assert ring.obs.shape == (8, 3, *IMAGE.shape)
    assert ring.obs.dtype == torch.uint8
    flat = ring.obs.reshape(-1, 8)
    assert len(flat.unique(dim=0)) == len(flat) == 24
    newest = torch.cat([step.obs for _, step in tape.steps[-8:]]).reshape(-1, 8)
    assert {tuple(row) for row in flat.tolist()} == {tuple(row) for row in newest.tolist()}


def test_kinds_of_a_hand_written_history() -> None:
    """One environment: a step, the end, a reset, the end by the clock, a reset, a step."""
    ends = [[GOES_ON], [TERMINATED], [GOES_ON], [TRUNCATED], [GOES_ON], [GOES_ON]]
    tape = Tape(ends, VECTOR, ACTIONS, seed=6)
    ring = started_ring(tape, capacity=10, masked=False)
    for action, step in tape.steps:
        ring.append(action, step)
    kinds = [Kind.STEP, Kind.TERMINATED, Kind.RESET, Kind.TRUNCATED, Kind.RESET, Kind.STEP]
    assert ring.kind[:6, 0].tolist() == kinds
    assert all_starts(ring, 1).sort().values.tolist() == [0, 1, 3, 5]
    assert all_starts(ring, 3).sort().values.tolist() == [0, 1, 3]  # row 5 waits for two more


def test_terminated_and_truncated_at_once_counts_as_terminated() -> None:
    """`check_env` refuses such an environment; one that was never checked must not leak over the reset."""
    ring = Ring(8, 1, VECTOR, ACTIONS, CPU)
    yes, no = torch.tensor([True]), torch.tensor([False])
    ring.start(torch.zeros(1, 3))
    ring.append(torch.tensor([0]), Step(torch.ones(1, 3), torch.tensor([5.0]), yes, yes))
    ring.append(torch.tensor([0]), Step(torch.ones(1, 3) * 2, torch.tensor([0.0]), no, no))
    ring.append(torch.tensor([0]), Step(torch.ones(1, 3) * 3, torch.tensor([7.0]), no, no))
    got = gather_transitions(ring, torch.tensor([0]), 3, 0.5)
    assert all_starts(ring, 3).tolist() == [0]
    assert got.reward.tolist() == [5.0]
    assert got.discount.tolist() == [0.0]


def test_append_copies_what_the_environment_may_overwrite() -> None:
    tape = Tape([[GOES_ON, GOES_ON]] * 4, VECTOR, ACTIONS, seed=7)
    ring, twin = started_ring(tape, 20, masked=True), ReplayTwin(tape.first, tape.first_mask)
    buffers: list[Any] = [tensor.clone() for tensor in tape.steps[0][1][:5]]
    for action, step in tape.steps:
        for buffer, tensor in zip(buffers, step[:5], strict=True):
            buffer.copy_(tensor)
        ring.append(action, Step(*buffers))
        twin.append(action, step)
    for buffer in buffers:
        buffer.zero_()
    compare(ring, twin, 2, 0.9)


def test_actions_beyond_a_byte_come_back_whole() -> None:
    tape = Tape([[GOES_ON, GOES_ON]] * 30, VECTOR, num_actions=5000, seed=8)
    ring, twin = started_ring(tape, 80, masked=False), ReplayTwin(tape.first, tape.first_mask)
    for action, step in tape.steps:
        ring.append(action, step)
        twin.append(action, step)
    compare(ring, twin, 1, 0.9)
    assert max(int(action.max()) for action, _ in tape.steps) > 256
    assert action_dtype(256) == torch.uint8
    assert action_dtype(257) == torch.int32


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("spec", [VECTOR, IMAGE])
@pytest.mark.parametrize(
    ("capacity", "num_envs", "num_actions"), [(1, 1, 2), (100, 7, 256), (96, 8, 257), (5, 8, 3)]
)
def test_ring_bytes_are_the_bytes_really_taken(
    capacity: int, num_envs: int, num_actions: int, spec: ObsSpec, masked: bool
) -> None:
    ring = Ring(capacity, num_envs, spec, num_actions, CPU, masked)
    tensors = [tensor for tensor in vars(ring).values() if isinstance(tensor, Tensor)]
    columns = [tensor for tensor in tensors if tensor.dim() >= 2]
    taken = sum(tensor.untyped_storage().nbytes() for tensor in columns)
    assert taken == ring_bytes(capacity, num_envs, spec, num_actions, masked)
    rest = sum(tensor.untyped_storage().nbytes() for tensor in tensors) - taken
    assert rest == num_envs + 16  # head, filled and ended: not worth counting


@pytest.mark.parametrize(("capacity", "num_envs", "rows"), [(8, 4, 3), (9, 4, 4), (1, 4, 2), (5, 1, 6)])
def test_a_ring_holds_at_least_its_capacity(capacity: int, num_envs: int, rows: int) -> None:
    assert rows_for_capacity(capacity, num_envs) == rows
    assert (rows - 1) * num_envs >= capacity
