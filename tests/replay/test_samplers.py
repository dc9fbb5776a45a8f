"""The uniform sampler: every transition with the same chance, nothing else ever."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from replay_twin import GOES_ON, TERMINATED, TRUNCATED, VECTOR, ReplayTwin, Tape
from torch import Tensor

from flashdqn.core.types import Transition
from flashdqn.replay.n_step import gather_transitions
from flashdqn.replay.ring import Kind, Ring
from flashdqn.replay.samplers import TRIES, UniformSampler, choose_uniform_slots

CPU = torch.device("cpu")


def filled_ring(
    steps: int, num_envs: int = 3, capacity: int = 60, chance: float = 0.3
) -> tuple[Ring, ReplayTwin]:
    dice = random.Random(steps)
    weights = [1 - chance, chance / 2, chance / 2]
    ends = [dice.choices([GOES_ON, TERMINATED, TRUNCATED], weights, k=num_envs) for _ in range(steps)]
    tape = Tape(ends, VECTOR, 3, seed=steps)
    ring = Ring(capacity, num_envs, VECTOR, 3, CPU, masked=True)
    ring.start(tape.first, tape.first_mask)
    twin = ReplayTwin(tape.first, tape.first_mask)
    for action, step in tape.steps:
        ring.append(action, step)
        twin.append(action, step)
    return ring, twin


def make_sampler(ring: Ring, n_step: int = 1, seed: int = 0) -> UniformSampler:
    return UniformSampler(ring, n_step, 0.9, torch.Generator().manual_seed(seed))


def valid_starts(ring: Ring, twin: ReplayTwin, n: int) -> list[int]:
    found = twin.transitions(ring.rows - 1, n, 0.9)
    return sorted(time % ring.rows * ring.num_envs + env for time, env in found)


def chi_square(counts: list[int]) -> tuple[float, float]:
    """The statistic against equal chances, and what it exceeds once in a million (Wilson–Hilferty)."""
    expected, degrees = sum(counts) / len(counts), len(counts) - 1
    statistic = sum((count - expected) ** 2 / expected for count in counts)
    part = 2 / (9 * degrees)
    return statistic, degrees * (1 - part + 4.753 * math.sqrt(part)) ** 3


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("steps", [9, 20, 21, 57], ids=["growing", "full", "at the wrap", "wrapped"])
def test_every_transition_has_the_same_chance(steps: int, n: int) -> None:
    ring, twin = filled_ring(steps)
    starts = valid_starts(ring, twin, n)
    batch = make_sampler(ring, n).sample(400 * len(starts))
    drawn = batch.index[batch.weight == 1]
    counts = drawn.bincount(minlength=ring.rows * ring.num_envs)
    assert counts.nonzero()[:, 0].tolist() == starts  # all of them, and nothing else
    statistic, bound = chi_square(counts[starts].tolist())
    assert statistic < bound


def test_the_first_valid_draw_wins_and_weight_0_means_there_was_none() -> None:
    """Worked by hand: one environment, rows 0 … 3 are STEP, TERMINATED, RESET, STEP, and the head is row 4."""
    tape = Tape([[GOES_ON], [TERMINATED], [GOES_ON], [GOES_ON]], VECTOR, 3, seed=0)
    ring = Ring(9, 1, VECTOR, 3, CPU)
    ring.start(tape.first)
    for action, step in tape.steps:
        ring.append(action, step)
    # A draw counts back from the newest: 0 is row 3, 1 is row 2 (RESET), 2 is row 1, 3 is row 0.
    bits = torch.tensor([[0, 1, 1, 1, 2 + 4], [1, 2, 1, 1, 1], [1, 0, 3, 1, 1], [1, 0, 0, 1, 1]])
    index, weight = choose_uniform_slots(ring, 1, bits)
    assert index[:3].tolist() == [3, 1, 0]
    assert index[4] == 1
    assert weight.tolist() == [1, 1, 1, 0, 1]


def test_weight_0_is_as_rare_as_the_comment_says() -> None:
    """Episodes of length 1: every other row is a reset, and 2^−TRIES of the samples stay without."""
    tape = Tape([[TERMINATED]] * 64, VECTOR, 3, seed=0)
    ring = Ring(64, 1, VECTOR, 3, CPU)
    ring.start(tape.first)
    for action, step in tape.steps:
        ring.append(action, step)
    size = 40_000
    batch = make_sampler(ring).sample(size)
    share = 0.5**TRIES
    spread = math.sqrt(share * (1 - share) / size)
    assert abs(float((batch.weight == 0).float().mean()) - share) < 5 * spread
    assert torch.equal(batch.weight == 1, ring.kind.view(-1)[batch.index] != Kind.RESET)
    assert set(batch.weight.unique().tolist()) == {0.0, 1.0}


def test_a_sample_is_what_gather_gives_for_its_index() -> None:
    ring, _ = filled_ring(33)
    transition, weight, index, _ = make_sampler(ring, n_step=3).sample(50)
    assert_same(transition, gather_transitions(ring, index, 3, 0.9))
    assert weight.shape == index.shape == (50,)
    assert weight.dtype == torch.float32
    assert index.dtype == torch.int64


@pytest.mark.parametrize("masked", [True, False])
def test_batches_are_one_sample_cut_up(masked: bool) -> None:
    ring, _ = filled_ring(33)
    if not masked:
        ring.mask = None
    whole = make_sampler(ring, seed=7).sample(5 * 8)
    parts = make_sampler(ring, seed=7).batches(5, 8)
    assert [len(part.weight) for part in parts] == [8] * 5
    for part in parts:
        assert (part.transition.next_mask is None) == (not masked)
    joined = Transition(*(join(column) for column in zip(*(part.transition for part in parts), strict=True)))
    assert_same(joined, whole.transition)
    assert torch.equal(torch.cat([part.weight for part in parts]), whole.weight)
    assert torch.equal(torch.cat([part.index for part in parts]), whole.index)


def test_the_generator_decides_everything() -> None:
    ring, _ = filled_ring(33)
    torch.manual_seed(1)
    one = make_sampler(ring, seed=3)
    first, second = one.sample(64), one.sample(64)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    again = make_sampler(ring, seed=3).sample(64)
    other = make_sampler(ring, seed=4).sample(64)
    assert torch.equal(first.index, again.index)
    assert not torch.equal(first.index, second.index)
    assert not torch.equal(first.index, other.index)
    assert torch.equal(before, torch.get_rng_state())


def test_updates_change_nothing() -> None:
    ring, _ = filled_ring(33)
    told, untold = make_sampler(ring, seed=3), make_sampler(ring, seed=3)
    first = told.sample(16)
    untold.sample(16)
    told.update(first.index, torch.full((16,), 1e6))
    assert torch.equal(told.sample(64).index, untold.sample(64).index)


# ---- beyond 2^24 slots, where a float32 would skip


def huge_ring(rows: int, num_envs: int, head: int) -> Any:
    """As much of a ring as `choose_uniform_slots` looks at, in a few bytes: one kind for all."""
    kind = torch.full((1, 1), Kind.STEP, dtype=torch.uint8).expand(rows, num_envs)
    filled = torch.tensor(rows - 1)
    sizes = {"rows": rows, "num_envs": num_envs, "head": torch.tensor([head])}
    return SimpleNamespace(**sizes, filled=filled, readable=filled, kind=kind)


@pytest.mark.parametrize(("rows", "num_envs"), [(2**25 + 1, 1), (2**21 + 1, 64), (1001, 2**22), (2**33, 5)])
@pytest.mark.parametrize("head_share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n", [1, 3])
def test_every_slot_of_a_huge_ring_is_in_reach(rows: int, num_envs: int, head_share: float, n: int) -> None:
    head = round((rows - 1) * head_share)
    ring = huge_ring(rows, num_envs, head)
    candidates = (rows - n) * num_envs
    middles = (0, 2**24, 2**25 - 2000, candidates // 2, candidates - 1000)
    draws = torch.cat([torch.arange(m, m + 1000) for m in middles])
    index, weight = choose_uniform_slots(ring, n, draws[None])
    assert weight.min() == 1
    assert index.unique().numel() == draws.unique().numel()  # neighbors stay apart: nothing was rounded

    row, env = index // num_envs, index % num_envs
    age = (head - row) % rows  # 1: the newest complete row
    assert int(age.min()) >= n
    assert int(age.max()) <= rows - 1
    assert torch.equal((age - n) * num_envs + env, draws)


def test_random_bits_of_a_huge_ring_fall_on_both_halves_and_on_odd_slots() -> None:
    ring = huge_ring(2**30, 1, head=5)
    bits = torch.empty((TRIES, 4096), dtype=torch.int64).random_(generator=torch.Generator().manual_seed(0))
    index, _ = choose_uniform_slots(ring, 1, bits)
    assert 0.45 < float((index % 2).float().mean()) < 0.55
    assert 0.45 < float((index > 2**29).float().mean()) < 0.55
    assert index.unique().numel() > 4090


def join(columns: tuple[Tensor | None, ...]) -> Tensor | None:
    return None if columns[0] is None else torch.cat(columns)  # type: ignore[arg-type]


def assert_same(one: Transition, other: Transition) -> None:
    for name, first, second in zip(Transition._fields, one, other, strict=True):
        assert (first is None and second is None) or torch.equal(first, second), name
