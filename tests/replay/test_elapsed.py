"""Steps that take different amounts of time: γ counts time, in every way that transitions are read."""

from __future__ import annotations

import random

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_twin import GOES_ON, TERMINATED, VECTOR, Tape
from test_ring import ACTIONS, CPU, all_starts, histories

from flashdqn.learn.pqn import lambda_returns
from flashdqn.replay.n_step import gather_transitions
from flashdqn.replay.ring import Ring, ring_bytes
from flashdqn.replay.samplers import TRIES, UniformSampler
from flashdqn.replay.samplers_cpu import NativePick


def play_with_clock(
    ends: list[list[int]], rows: int, n: int, seed: int
) -> tuple[Ring, list[list[float]], Tape]:
    """A ring of steps with random times, and those times by step and environment."""
    tape, dice = Tape(ends, VECTOR, ACTIONS, seed), random.Random(seed)
    ring = Ring(max(rows, n) * tape.num_envs, tape.num_envs, tape.spec, ACTIONS, CPU, timed=True)
    ring.start(tape.first)
    times = []
    for action, step in tape.steps:
        elapsed = [dice.choice([0, 0, 0, 1, 1, 3, 255]) for _ in range(tape.num_envs)]
        ring.append(action, step._replace(elapsed=torch.tensor(elapsed, dtype=torch.uint8)))
        times.append(elapsed)
    return ring, times, tape


def add_up(
    tape: Tape, times: list[list[float]], start: int, env: int, n: int, gamma: float
) -> tuple[float, float]:
    """Reward and discount of the transition that starts there, step by step."""
    reward, passed, taken = 0.0, 0.0, 0
    for t in range(start, start + n):
        step = tape.steps[t][1]
        reward += gamma**passed * float(step.reward[env])
        passed += times[t][env]
        taken += 1
        if step.terminated[env]:
            return reward, 0.0
        if step.truncated[env]:
            break
    assert taken <= n
    return reward, gamma**passed


@settings(max_examples=60, deadline=None)
@given(histories(), st.integers(1, 9), st.integers(1, 5), st.floats(0.5, 1, width=32), st.integers(0, 2**32))
def test_gamma_counts_time(ends: list[list[int]], rows: int, n: int, gamma: float, seed: int) -> None:
    ring, times, tape = play_with_clock(ends, rows, n, seed)
    index = all_starts(ring, n)
    got = gather_transitions(ring, index, n, gamma)
    newest = len(tape.steps)  # the time whose observation lies at the head
    for place, reward, discount in zip(
        index.tolist(), got.reward.tolist(), got.discount.tolist(), strict=True
    ):
        row, env = divmod(place, ring.num_envs)
        start = newest - (int(ring.head) - row) % ring.rows
        expected = add_up(tape, times, start, env, n, gamma)
        torch.testing.assert_close((reward, discount), expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(histories(), st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**32))
def test_the_compiled_pick_reads_the_same(ends: list[list[int]], rows: int, n: int, seed: int) -> None:
    ring, _, _ = play_with_clock(ends, rows, n, seed)
    if int(ring.filled) < n:
        return
    sampler = UniformSampler(ring, n, 0.9, torch.Generator().manual_seed(0))
    bits = torch.empty((TRIES, 12), dtype=torch.int64).random_(generator=torch.Generator().manual_seed(1))
    one, other = NativePick(sampler)(bits), sampler.pick(bits)
    assert torch.equal(one.index, other.index)
    torch.testing.assert_close(one.transition.reward, other.transition.reward)
    torch.testing.assert_close(one.transition.discount, other.transition.discount)


def test_a_trace_counts_time() -> None:
    reward, value = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([[8.0], [16.0], [32.0]])
    never, end = torch.zeros(3, 1, dtype=torch.bool), torch.tensor([[False], [False], [True]])
    gamma = 0.5 ** torch.tensor([[0.0], [2.0], [1.0]])
    returns = lambda_returns(reward, end, never, value, gamma, 0.5)
    last = 4.0
    middle = 2.0 + 0.25 * (0.5 * last + 0.5 * 16.0)
    first = 1.0 + 1.0 * (0.5 * middle + 0.5 * 8.0)
    assert returns.flatten().tolist() == [first, middle, last]


def test_time_is_saved_and_counted_as_memory() -> None:
    ring, _, tape = play_with_clock([[GOES_ON, TERMINATED]] * 7, 5, 1, 0)
    again = Ring(10, 2, tape.spec, ACTIONS, CPU, timed=True)
    again.load_state_dict(ring.state_dict())
    assert ring.elapsed is not None
    assert again.elapsed is not None
    used = ring.used_rows()
    assert torch.equal(again.elapsed[:used], ring.elapsed[:used])
    plain = ring_bytes(10, 2, tape.spec, ACTIONS, False)
    assert ring_bytes(10, 2, tape.spec, ACTIONS, False, timed=True) == plain + ring.elapsed.numel()
