"""The prioritized sampler against its definition: who may be drawn, how often, and with which weight."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_twin import GOES_ON, TERMINATED, TRUNCATED, VECTOR, ReplayTwin, Tape
from torch import Tensor

import flashdqn
from conftest import tiny_config
from flashdqn import ConfigError, Run
from flashdqn.config import ReplayConfig
from flashdqn.core.types import Batch
from flashdqn.replay.n_step import gather_transitions
from flashdqn.replay.prioritized import PrioritizedSampler, priority_bytes
from flashdqn.replay.ring import Ring, ring_bytes
from flashdqn.runs import checkpoint
from flashdqn.training import memory
from flashdqn.training.schedules import importance_exponent

CPU = torch.device("cpu")
EPS = 1e-3
DRAWS = 20_000


class Play:
    """Ring, sampler and twin side by side; the twin keeps a priority for every (time, environment)."""

    def __init__(self, tape: Tape, capacity: int, n: int, alpha: float = 0.7, device: str = "cpu") -> None:
        where = torch.device(device)
        self.tape, self.n, self.alpha, self.time = tape, n, alpha, 0
        self.ring = Ring(capacity, tape.num_envs, tape.spec, tape.num_actions, where, masked=True)
        self.ring.start(tape.first.to(where), tape.first_mask.to(where))
        self.sampler = PrioritizedSampler(
            self.ring, n, 0.9, torch.Generator(where).manual_seed(0), alpha=alpha, beta=0.4, eps=EPS
        )
        self.twin = ReplayTwin(tape.first, tape.first_mask)
        self.priority: dict[tuple[int, int], float] = {}
        self.largest = 1.0

    def step(self) -> None:
        action, step = self.tape.steps[self.time]
        where = self.ring.device
        moved = type(step)(*(None if x is None else x.to(where) for x in step))
        self.ring.append(action.to(where), moved)
        self.sampler.appended()
        self.twin.append(action, step)
        self.time += 1
        alive = self.twin.transitions(self.ring.rows - self.ring.stack, self.n, 0.9)
        self.priority = {key: self.priority.get(key, self.largest) for key in alive}

    def learn(self, index: Tensor, error: Tensor) -> None:
        """Tell both of errors; `index` may hold rows twice, and rows that are no transition."""
        self.sampler.update(index.to(self.ring.device), error.to(self.ring.device))
        told: dict[tuple[int, int], float] = {}
        slots = self.by_slot()
        for slot, delta in zip(index.tolist(), error.tolist(), strict=True):
            p = (abs(delta) + EPS) ** self.alpha
            self.largest = max(self.largest, p)
            if slot in slots:
                told[slots[slot]] = max(told.get(slots[slot], 0.0), p)
        self.priority |= told

    def by_slot(self) -> dict[int, tuple[int, int]]:
        return {time % self.ring.rows * self.ring.num_envs + env: (time, env) for time, env in self.priority}

    def expected(self) -> Tensor:
        """What the leaves must be, [slots]."""
        weight = torch.zeros(self.ring.rows * self.ring.num_envs, dtype=torch.float64)
        for slot, key in self.by_slot().items():
            weight[slot] = self.priority[key]
        return weight

    def check(self) -> None:
        """Leaves and their sum; zero where and only where there is no transition."""
        levels = self.sampler.tree.levels
        expected, leaves = self.expected(), levels.leaves[: levels.slots].cpu().to(torch.float64)
        assert torch.equal(leaves > 0, expected > 0)
        torch.testing.assert_close(leaves, expected, rtol=1e-5, atol=0)
        torch.testing.assert_close(levels.total.cpu(), expected.sum(), rtol=1e-5, atol=0)


def made_up_tape(steps: int, num_envs: int = 3, chance: float = 0.3, seed: int = 0) -> Tape:
    dice = random.Random(seed)
    weights = [1 - chance, chance / 2, chance / 2]
    ends = [dice.choices([GOES_ON, TERMINATED, TRUNCATED], weights, k=num_envs) for _ in range(steps)]
    return Tape(ends, VECTOR, 3, seed=seed)


def played(steps: int, n: int = 1, capacity: int = 60, alpha: float = 0.7, seed: int = 0) -> Play:
    """A play with errors of all sizes told for everything that was in the ring at some time."""
    play = Play(made_up_tape(steps, seed=seed), capacity, n, alpha)
    generator = torch.Generator().manual_seed(seed)
    slots = play.ring.rows * play.ring.num_envs
    for _ in range(steps):
        play.step()
        index = torch.randint(slots, (slots // 4,), generator=generator)
        play.learn(index, 10 ** (torch.rand(len(index), generator=generator) * 3 - 2))
    return play


# ---- which rows have a priority, and which


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_priorities_are_those_of_the_definition_after_every_append(data: st.DataObject) -> None:
    num_envs, steps = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 30))
    n = data.draw(st.sampled_from([1, 2, 3, 5]))
    capacity = num_envs * data.draw(st.integers(n, n + 8))
    chance = data.draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    play = Play(made_up_tape(steps, num_envs, chance, data.draw(st.integers(0, 99))), capacity, n)
    slots = play.ring.rows * num_envs
    for _ in range(steps):
        play.step()
        play.check()
        size = data.draw(st.integers(0, 8))
        if size:
            index = data.draw(st.lists(st.integers(0, slots - 1), min_size=size, max_size=size))
            exponents = data.draw(st.lists(st.floats(-6, 6), min_size=size, max_size=size))
            play.learn(torch.tensor(index), torch.tensor([10**x for x in exponents], dtype=torch.float32))
            play.check()


@pytest.mark.parametrize("n", [1, 3])
def test_nothing_but_transitions_is_ever_drawn(n: int) -> None:
    """A thousand steps, fifty times round the ring, with errors over many magnitudes."""
    play = Play(made_up_tape(1000, num_envs=4, chance=0.4), 80, n)
    generator = torch.Generator().manual_seed(1)
    for _ in range(n + 2):
        play.step()
    for _ in range(1000 - n - 2):
        play.step()
        for batch in play.sampler.batches(2, 16):
            assert set(batch.index.tolist()) <= play.by_slot().keys()
            assert 0 < float(batch.weight.min()) <= float(batch.weight.max()) <= 1
            play.learn(batch.index, 10 ** (torch.rand(16, generator=generator) * 16 - 8))
    play.check()


def test_a_hand_written_history() -> None:
    """One environment, 2-step windows, three rows and the head: who has a weight after each append."""
    tape = Tape([[GOES_ON], [TERMINATED], [GOES_ON], [GOES_ON], [GOES_ON], [GOES_ON]], VECTOR, 3, seed=0)
    play = Play(tape, 3, n=2)
    have = []
    for _ in range(6):
        play.step()
        have.append(play.sampler.tree.levels.leaves[:4].nonzero()[:, 0].tolist())
    # Row 2 is a reset. The fourth append opens row 0 anew, the fifth row 1.
    assert have == [[], [0], [0, 1], [1], [3], [0, 3]]


def test_an_empty_tree_gives_samples_that_count_for_nothing() -> None:
    play = Play(made_up_tape(3, num_envs=2), 20, n=3)
    play.step()
    batch = play.sampler.sample(8)
    assert batch.weight.tolist() == [0.0] * 8


# ---- updates


def test_the_largest_of_several_errors_for_one_row_counts() -> None:
    play = played(30, alpha=1.0)
    slot = next(iter(play.by_slot()))
    play.sampler.update(torch.tensor([slot] * 3), torch.tensor([2.0, 5.0, 3.0]))
    assert float(play.sampler.tree.levels.leaves[slot]) == pytest.approx(5 + EPS)


def test_new_transitions_enter_at_the_largest_priority_so_far() -> None:
    play = Play(made_up_tape(30, chance=0.0), 60, n=1, alpha=0.5)
    play.step()
    assert play.sampler.tree.levels.leaves[:6].tolist() == [1, 1, 1, 0, 0, 0]
    play.sampler.update(torch.tensor([0, 1, 2]), torch.tensor([16.0, 0.01, 0.0]))
    play.step()
    play.sampler.update(torch.tensor([0]), torch.tensor([0.0]))
    play.step()
    entered = math.sqrt(16 + EPS)
    assert play.sampler.tree.levels.leaves[3:9].tolist() == pytest.approx([entered] * 6)


def test_errors_that_are_not_finite_leave_the_tree_finite() -> None:
    play = played(30)
    index = torch.tensor(list(play.by_slot())[:3])
    play.sampler.update(index, torch.tensor([math.nan, math.inf, -2.0]))
    levels = play.sampler.tree.levels
    assert math.isfinite(float(levels.total))
    assert levels.leaves[index].tolist() == pytest.approx([EPS**0.7, 1e30**0.7, (2 + EPS) ** 0.7])


def test_a_priority_that_needs_a_gradient_is_taken_without() -> None:
    play = played(30)
    slot = torch.tensor(list(play.by_slot())[:1])
    play.sampler.update(slot, torch.ones(1, requires_grad=True) * 2)
    assert not play.sampler.tree.levels.leaves.requires_grad


# ---- chances


def chi_square(counts: Tensor, expected: Tensor) -> tuple[float, float]:
    """The statistic, and what it exceeds once in a million (Wilson–Hilferty)."""
    degrees = len(counts) - 1
    part = 2 / (9 * degrees)
    bound = degrees * (1 - part + 4.753 * math.sqrt(part)) ** 3
    return float(((counts - expected) ** 2 / expected).sum()), bound


@pytest.mark.parametrize("alpha", [0.5, 1.0])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("steps", [9, 21, 57], ids=["growing", "at the wrap", "wrapped"])
def test_frequencies_are_proportional_to_priorities(steps: int, n: int, alpha: float) -> None:
    """Batches of one sample, so that nothing but P(i) decides: no help from the strata."""
    play = played(steps, n, alpha=alpha)
    chance = play.expected() / play.expected().sum()
    batches = play.sampler.batches(DRAWS, 1)
    counts = torch.cat([batch.index for batch in batches]).bincount(minlength=len(chance))
    assert torch.equal(counts[chance == 0], torch.zeros_like(counts[chance == 0]))
    often = chance * DRAWS >= 5  # rarer ones are put together
    rest = torch.tensor([float(counts[~often].sum())]), (chance[~often].sum() * DRAWS)[None]
    seen = torch.cat((counts[often].double(), rest[0]))
    wanted = torch.cat((chance[often] * DRAWS, rest[1] + 1e-9))
    statistic, bound = chi_square(seen, wanted)
    assert statistic < bound


def test_every_batch_is_stratified() -> None:
    """One draw per equal slice: a row is drawn as often as its share of the batch, but for less than two."""
    play = played(57, n=3)
    share = play.expected() / play.expected().sum()
    for batch in [*play.sampler.batches(5, 256), play.sampler.sample(256)]:
        counts = batch.index.bincount(minlength=len(share))
        assert float((counts - 256 * share).abs().max()) < 2


def test_importance_weights_worked_by_hand() -> None:
    """Three transitions with p = 1, 4, 16: N · P = 1/7, 4/7, 16/7. A batch of 64 holds the first, of weight 1."""
    tape = Tape([[GOES_ON]] * 3, VECTOR, 3, seed=0)
    play = Play(tape, 10, n=1, alpha=0.5)
    for _ in range(3):
        play.step()
    play.sampler.eps = 0.0
    play.sampler.update(torch.arange(3), torch.tensor([1.0, 16.0, 256.0]))
    for beta in (0.0, 0.5, 1.0):
        play.sampler.set_beta(beta)
        by_paper = [(3 * p / 21) ** -beta for p in (1, 4, 16)]
        batch = play.sampler.sample(64)
        wanted = [by_paper[i] / max(by_paper) for i in batch.index.tolist()]
        assert batch.weight.tolist() == pytest.approx(wanted)
        assert [1.0, 4.0**-beta, 16.0**-beta] == pytest.approx([w / by_paper[0] for w in by_paper])
        assert batch.weight.dtype == torch.float32


def test_importance_weights_after_a_long_play() -> None:
    play = played(57, n=3)
    chance = play.expected() / play.expected().sum()
    number = int((chance > 0).sum())
    batch = play.sampler.sample(100)
    by_paper = ((number * chance) ** -0.4)[batch.index]
    torch.testing.assert_close(batch.weight.double(), by_paper / by_paper.max(), rtol=1e-4, atol=0)


def test_each_batch_has_its_own_largest_weight() -> None:
    for batch in played(57).sampler.batches(16, 8):
        assert float(batch.weight.max()) == 1


def test_a_weighted_mean_over_samples_is_the_mean_over_transitions() -> None:
    """What β = 1 is for: Σ w f / Σ w over prioritized samples estimates the plain mean of f."""
    play = played(57)
    play.sampler.set_beta(1.0)
    values = torch.rand(len(play.expected()), generator=torch.Generator().manual_seed(3))
    batch = play.sampler.sample(200_000)
    weighted = (batch.weight * values[batch.index]).sum() / batch.weight.sum()
    plain = values[play.expected() > 0].mean()
    assert float(weighted) == pytest.approx(float(plain), abs=2e-3)


def test_beta_rises_to_one() -> None:
    config = ReplayConfig(beta=0.4, beta_over=1000)
    assert [importance_exponent(config, t) for t in (0, 500, 1000, 10**9)] == pytest.approx([0.4, 0.7, 1, 1])


# ---- batches, state


def test_a_sample_is_what_gather_gives_for_its_index() -> None:
    play = played(33, n=3)
    batch = play.sampler.sample(50)
    for one, other in zip(batch.transition, gather_transitions(play.ring, batch.index, 3, 0.9), strict=True):
        assert torch.equal(one, other)


def test_batches_are_drawn_before_any_of_them_is_learned_from() -> None:
    plays = [played(33, seed=5) for _ in range(2)]
    first = plays[0].sampler.batches(4, 16)
    second = []
    for batch in plays[1].sampler.batches(4, 16):
        plays[1].sampler.update(batch.index, torch.full((16,), 100.0))
        second.append(batch)
    for one, other in zip(first, second, strict=True):
        assert_same_batch(one, other)
    drawn = [torch.cat([b.index for b in play.sampler.batches(4, 16)]) for play in plays]
    assert not torch.equal(*drawn)


@pytest.mark.parametrize("moment", [2, 9, 20, 45])
def test_a_saved_sampler_goes_on_bit_by_bit(moment: int) -> None:
    tape = made_up_tape(60)
    one, other = Play(tape, 60, 3), played(50, n=3, seed=9)  # a sampler that was used for something else
    generator = torch.Generator().manual_seed(0)
    for step in range(60):
        if step == moment:
            other.ring.load_state_dict({k: v.clone() for k, v in one.ring.state_dict().items()})
            other.sampler.load_state_dict({k: v.clone() for k, v in one.sampler.state_dict().items()})
            other.sampler.generator.set_state(one.sampler.generator.get_state())
        plays = [one] if step < moment else [one, other]
        error = torch.rand(8, generator=generator) ** 4 * 10
        batches = []
        for play in plays:
            play.ring.append(*tape.steps[step])
            play.sampler.appended()
            batches.append(play.sampler.sample(8))
            play.sampler.update(batches[-1].index, error)
        if len(plays) == 2:
            assert_same_batch(*batches)
            levels = [play.sampler.tree.levels for play in plays]
            for name in ("leaves", "all_sums"):
                assert torch.equal(getattr(levels[0], name), getattr(levels[1], name)), name


def test_a_checkpoint_holds_the_priorities(tiny_run: Callable[..., Run]) -> None:
    run = tiny_run(steps=1500, replay__priority=0.5, replay__n_step=3)
    point = checkpoint.list_checkpoints(run.path / "checkpoints", with_state=True)[-1]
    _, state, _ = checkpoint.load_checkpoint(point, with_state=True)
    assert state["sampler.weight"].numel() == state["ring.kind"].numel()
    assert int((state["sampler.weight"] > 0).sum()) > 1000
    assert len(state["sampler.weight"].unique()) > 100  # priorities were learned


@pytest.mark.parametrize("n", [1, 3])
def test_warming_up_leaves_no_trace(n: int, tiny_run: Callable[..., Run]) -> None:
    settings = {"steps": 800, "replay__priority": 0.5, "replay__n_step": n}
    warm, cold = (tiny_run(**settings, runtime__warmup=flag) for flag in (True, False))
    assert warm.summary["weights"] == cold.summary["weights"]
    uniform = tiny_run(steps=800, replay__n_step=n)
    assert uniform.summary["weights"] != cold.summary["weights"]


@pytest.mark.parametrize(
    ("setting", "value"),
    [("priority", -0.1), ("priority", 1.5), ("beta", 2.0), ("beta_over", 0), ("priority_eps", 0.0)],
)
def test_settings_are_checked(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"replay.{setting}"):
        tiny_config(**{f"replay__{setting}": value})


def test_the_tree_is_counted_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = played(3).sampler.tree.levels
    taken = sum(x.untyped_storage().nbytes() for x in (tree.leaves, tree.all_sums))
    assert priority_bytes(tree.slots, CPU) == taken
    env = flashdqn.make_env("snake", 16, "cpu")
    ring = ring_bytes(5000, 16, env.obs_spec, env.num_actions, masked=False)
    monkeypatch.setattr(memory, "free_bytes", lambda device: (ring + 1000) / 0.9)
    memory.check_ring_fits(ReplayConfig(capacity=5000), env, masked=False)
    with pytest.raises(ConfigError, match=r"--replay\.capacity 4\d\d\d "):
        memory.check_ring_fits(ReplayConfig(capacity=5000, priority=0.5), env, masked=False)


def assert_same_batch(one: Batch, other: Batch) -> None:
    assert torch.equal(one.index, other.index)
    assert torch.equal(one.weight, other.weight)
    for first, second in zip(one.transition, other.transition, strict=True):
        assert torch.equal(first, second)


# ---- CUDA

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@needs_cuda
@pytest.mark.parametrize("n", [1, 3])
def test_cuda_keeps_the_same_priorities(n: int) -> None:
    play = Play(made_up_tape(80), 60, n, device="cuda")
    generator = torch.Generator().manual_seed(0)
    for _ in range(80):
        play.step()
        play.check()
        index = torch.randint(60, (16,), generator=generator)
        play.learn(index, torch.rand(16, generator=generator) * 5)
        if play.time > n:
            batch = play.sampler.sample(64)
            assert set(batch.index.tolist()) <= play.by_slot().keys()
    chance = play.expected() / play.expected().sum()
    drawn = play.sampler.sample(512)
    counts = drawn.index.cpu().bincount(minlength=len(chance))
    assert float((counts - 512 * chance).abs().max()) < 2
    by_paper = ((int((chance > 0).sum()) * chance) ** -0.4)[drawn.index.cpu()]
    torch.testing.assert_close(drawn.weight.cpu().double(), by_paper / by_paper.max(), rtol=1e-3, atol=0)


@needs_cuda
def test_append_sample_and_update_live_in_a_cuda_graph() -> None:
    """Replayed with other errors, another β and an advancing ring, the graph does what eager calls do."""
    tape = made_up_tape(60)
    eager, captured, warm = (Play(tape, 60, 3, device="cuda") for _ in range(3))
    for play in (eager, captured, warm):
        for _ in range(10):
            play.step()
    error = torch.ones(32, device="cuda")
    sampler = captured.sampler

    def work(sampler: PrioritizedSampler) -> Batch:
        sampler.appended()
        batch = sampler.sample(32)
        sampler.update(batch.index, error)
        return batch

    work(warm.sampler)  # what is loaded at first use is loaded before the capture
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(sampler.generator)
    with torch.cuda.graph(graph):
        batch = work(sampler)
    for step in range(10, 60):
        error.fill_(0.1 * step)
        for play in (eager, captured):
            action, moved = tape.steps[step]
            play.ring.append(action.cuda(), type(moved)(*(x.cuda() for x in moved)))
            play.sampler.set_beta(step / 60)
        graph.replay()
        expected = work(eager.sampler)
        assert torch.equal(batch.index, expected.index)
        torch.testing.assert_close(batch.weight, expected.weight)
