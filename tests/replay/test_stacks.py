"""Rings that keep single frames, against a replay that keeps whole stacks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from replay_twin import GOES_ON, IMAGE, TERMINATED, TRUNCATED, VECTOR, ReplayTwin, StackTape
from test_prioritized import Play
from test_ring import all_starts, assert_same_ring, assert_same_transitions, compare, histories, started_ring
from torch import Tensor

from flashdqn.core.contract import ObsSpec
from flashdqn.core.types import Batch, Step
from flashdqn.replay import UniformSampler
from flashdqn.replay.n_step import gather_transitions
from flashdqn.replay.ring import Ring, ring_bytes, rows_for_capacity
from flashdqn.replay.samplers import TRIES
from flashdqn.replay.samplers_cpu import NativePick

CPU = torch.device("cpu")
ACTIONS = 3
ATARI = ObsSpec((4, 84, 84), torch.uint8, stack=4)


@settings(max_examples=80, deadline=None)
@given(
    ends=histories(),
    rows=st.integers(1, 9),
    n=st.integers(1, 4),
    stack=st.integers(2, 5),
    masked=st.booleans(),
    frame=st.sampled_from([VECTOR, IMAGE]),
)
@example(ends=[[GOES_ON]] * 30, rows=2, n=2, stack=4, masked=False, frame=IMAGE)
@example(ends=[[TERMINATED, TRUNCATED]] * 30, rows=6, n=3, stack=4, masked=True, frame=IMAGE)
def test_stacks_from_frames_are_the_stacks_that_were_seen(
    ends: list[list[int]], rows: int, n: int, stack: int, masked: bool, frame: ObsSpec
) -> None:
    tape = StackTape(ends, frame, ACTIONS, 0, stack)
    ring = started_ring(tape, max(rows, n) * tape.num_envs, masked)
    twin = ReplayTwin(tape.first, tape.first_mask)
    assert ring.obs.shape[2:] == frame.shape
    assert torch.equal(ring.newest(), tape.first)
    for action, step in tape.steps:
        ring.append(action, step)
        twin.append(action, step)
        compare(ring, twin, n, 0.9)
        assert torch.equal(ring.newest(), step.obs)
        assert int(ring.readable) <= max(rows, n)


@settings(max_examples=40, deadline=None)
@given(ends=histories(), rows=st.integers(1, 8), stack=st.integers(2, 4), data=st.data())
def test_a_ring_of_frames_goes_on_equal_from_any_moment(
    ends: list[list[int]], rows: int, stack: int, data: st.DataObject
) -> None:
    tape = StackTape(ends, VECTOR, ACTIONS, 1, stack)
    moment = data.draw(st.integers(0, len(tape.steps)), label="saved after")
    ring = started_ring(tape, rows * tape.num_envs, True)
    for action, step in tape.steps[:moment]:
        ring.append(action, step)
    saved = {name: tensor.clone() for name, tensor in ring.state_dict().items()}
    resumed = started_ring(tape, rows * tape.num_envs, True)
    other = StackTape([[TERMINATED] * tape.num_envs] * (ring.rows + 2), VECTOR, ACTIONS, 2, stack)
    for action, step in other.steps:
        resumed.append(action, step)
    resumed.load_state_dict(saved)
    for action, step in tape.steps[moment:]:
        assert torch.equal(ring.newest(), resumed.newest())
        ring.append(action, step)
        resumed.append(action, step)
    assert_same_ring(ring, resumed)


@given(before=st.integers(0, 9), after=st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_no_stack_reaches_over_a_cut(before: int, after: int) -> None:
    """After a resume without saved games the episodes are new ones, though nothing had ended."""
    tape = StackTape([[GOES_ON]] * (before + after), IMAGE, ACTIONS, 3, 4)
    ring = started_ring(tape, 40, False)
    for action, step in tape.steps[:before]:
        ring.append(action, step)
    last = ring.newest()
    ring.cut_off()
    assert torch.equal(ring.newest(), last)  # the truncated episode ends with what was seen
    fresh = StackTape([[GOES_ON]] * after, IMAGE, ACTIONS, 4, 4)
    action, step = fresh.steps[0]
    ring.append(action, step._replace(obs=fresh.first))
    assert torch.equal(ring.newest(), fresh.first)
    for action, step in fresh.steps:
        ring.append(action, step)
        assert torch.equal(ring.newest(), step.obs)


@settings(max_examples=30, deadline=None)
@given(ends=histories(), rows=st.integers(1, 8), n=st.integers(1, 4), stack=st.integers(2, 4))
def test_priorities_are_kept_by_just_those_whose_frames_are(
    ends: list[list[int]], rows: int, n: int, stack: int
) -> None:
    tape = StackTape(ends, VECTOR, ACTIONS, 5, stack)
    play = Play(tape, max(rows, n) * tape.num_envs, n)
    for _ in tape.steps:
        play.step()
        play.check()


@settings(max_examples=30, deadline=None)
@given(
    ends=histories(),
    rows=st.integers(1, 9),
    n=st.integers(1, 4),
    stack=st.integers(2, 4),
    frame=st.sampled_from([VECTOR, IMAGE]),
)
def test_the_compiled_pick_puts_the_same_stacks_together(
    ends: list[list[int]], rows: int, n: int, stack: int, frame: ObsSpec
) -> None:
    tape = StackTape(ends, frame, ACTIONS, 6, stack)
    ring = started_ring(tape, max(rows, n) * tape.num_envs, True)
    sampler = UniformSampler(ring, n, 0.9, torch.Generator().manual_seed(0))
    pick = NativePick(sampler)
    generator = torch.Generator().manual_seed(1)
    for action, step in tape.steps:
        ring.append(action, step)
        if int(ring.filled) < n:
            continue
        bits = torch.empty((TRIES, 12), dtype=torch.int64).random_(generator=generator)
        assert_same_batch(pick(bits), sampler.pick(bits))


def assert_same_batch(one: Batch, other: Batch) -> None:
    assert torch.equal(one.index, other.index)
    assert torch.equal(one.weight, other.weight)
    torch.testing.assert_close(one.transition.reward, other.transition.reward)
    same = {"reward": one.transition.reward}
    assert_same_transitions(one.transition, other.transition._replace(**same))


def test_a_million_frames_take_seven_gigabytes() -> None:
    taken = ring_bytes(1_000_000, 8, ATARI, 6, masked=False)
    frames = 84 * 84 * 1_000_000
    assert frames < taken < 1.002 * frames
    assert rows_for_capacity(1_000_000, 8, 4) == 125_004


@pytest.mark.skipif(not torch.cuda.is_available(), reason="takes 2.3 GB: for a CUDA device")
def test_rings_beyond_two_to_the_31_bytes() -> None:
    """At their far end, and over it."""
    place, envs = torch.device("cuda"), 2
    ring = Ring(320_000, envs, ATARI, 6, place)
    assert ring.obs.numel() > 2**31
    generator = torch.Generator().manual_seed(0)
    no = torch.zeros(envs, dtype=torch.bool, device=place)
    frames = torch.randint(0, 256, (9, envs, 1, 84, 84), generator=generator).to(place, torch.uint8)
    ring.start(frames[0].repeat(1, 4, 1, 1))
    ring.obs[-4] = ring.obs[0]
    ring.head.fill_(ring.rows - 4)
    ring.filled.fill_(ring.rows - 5)
    stacks = [frames[0].repeat(1, 4, 1, 1)]
    for frame in frames[1:]:
        stacks.append(torch.cat((stacks[-1][:, 1:], frame), 1))
        ring.append(no.long(), Step(stacks[-1], no.float(), no, no))
        assert torch.equal(ring.newest(), stacks[-1])
    assert int(ring.head) == 4
    last = (torch.arange(ring.rows - 4, ring.rows + 4) % ring.rows) * envs
    sampled = gather_transitions(ring, last.to(place), 1, 0.9)
    assert torch.equal(sampled.obs, torch.stack([stack[0] for stack in stacks[:-1]]))
    assert torch.equal(sampled.next_obs, torch.stack([stack[0] for stack in stacks[1:]]))


@pytest.mark.parametrize(("capacity", "num_envs"), [(1, 1), (100, 7), (96, 8)])
def test_frame_bytes_are_the_bytes_really_taken(capacity: int, num_envs: int) -> None:
    ring = Ring(capacity, num_envs, ATARI, 6, CPU)
    columns = [x for x in vars(ring).values() if isinstance(x, Tensor) and x.dim() >= 2]
    taken = sum(column.untyped_storage().nbytes() for column in columns)
    assert taken == ring_bytes(capacity, num_envs, ATARI, 6, masked=False)


def test_both_ways_compile_to_one_graph_without_reading_the_device() -> None:
    tape = StackTape([[GOES_ON, TERMINATED]] * 12, IMAGE, ACTIONS, 7, 3)
    ring, plain = started_ring(tape, 14, False), started_ring(tape, 14, False)
    append = torch.compile(ring.append, backend="eager", fullgraph=True, dynamic=False)
    for action, step in tape.steps:
        append(action, step)
        plain.append(action, step)
    assert_same_ring(ring, plain)
    index = all_starts(ring, 2)
    traced = torch.compile(lambda i: gather_transitions(ring, i, 2, 0.9), backend="eager", fullgraph=True)
    assert_same_transitions(traced(index), gather_transitions(ring, index, 2, 0.9))
