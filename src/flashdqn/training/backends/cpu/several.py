"""Several iterations in one call: what `iterations.py` needs, and when it may be used."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from flashdqn.compute.calls import BoundCall
from flashdqn.compute.gemm import LANES
from flashdqn.compute.mersenne import is_same_generator, view_state
from flashdqn.compute.native import compile_for_threads
from flashdqn.config import ExploreConfig, LearnConfig
from flashdqn.core.contract import get_action_buffer
from flashdqn.envs.kernel_env import NativeStep
from flashdqn.replay.samplers import TRIES, UniformSampler, split_batch
from flashdqn.replay.samplers_cpu import NativePick
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.cpu import iterations as kernel
from flashdqn.training.backends.cpu.memory import Memory, even_shares
from flashdqn.training.backends.cpu.mlp import APART
from flashdqn.training.backends.cpu.networks import plain_mlp_layers, plan_layers
from flashdqn.training.backends.cpu.policy import make_plain_table
from flashdqn.training.backends.cpu.record import NativeRecord
from flashdqn.training.backends.cpu.update import GroupWords, NativeUpdates
from flashdqn.training.budget import Limits
from flashdqn.training.ratio import TrainRatio, build_ratio

#: With more boards or more updates, Python's part of an iteration is small beside the rest.
MOST_BOARDS, MOST_UPDATES = 32, 16
#: The most iterations of a call, and its multiplications and additions: about ten milliseconds.
MOST_ITERATIONS, MOST_WORK = 32, 2.5e9
#: A ratio whose fraction has a larger numerator could overflow.
LARGEST_NUMERATOR = 1 << 22

PHASES = ("act", "step", "append", "sample", "update")


class SeveralIterations:
    """Runs iterations of one training; all addresses are bound when it is created."""

    def __init__(
        self, parts: Parts, updates: NativeUpdates, record: NativeRecord, pick: NativePick, largest: int
    ) -> None:
        """`largest`: the updates of a group, as the engine has it."""
        self.parts, self.team, self._updates = parts, updates.team, updates
        self._ratio = find_train_ratio(parts)
        self.most_due = count_most_updates(parts)
        self.most = count_iterations(parts)
        slots = plan_slots(self.most_due, largest)
        sizes = [1 << k for k in range(largest.bit_length())]
        size = parts.config.update_size
        self._batches = [pick.make_columns(count * size) for count in slots]
        self._bits = np.zeros(TRIES * size * largest, dtype=np.int64)
        self._picks = [
            [pick.bind_part(self._bits, columns, count * size) for count in sizes if count <= slot]
            for (columns, _), slot in zip(self._batches, slots, strict=True)
        ]
        self._game = make_game_calls(parts, record)
        self._memory = Memory()
        self._plan = np.zeros((self.most, 1 + len(slots)), dtype=np.int64)
        self._progress = np.zeros(3, dtype=np.int64)
        self._cycles = np.zeros(5, dtype=np.int64)
        self._settings = updates.applied_settings
        self._tables = {threads: _Tables(self, threads, slots, largest) for threads in self.team.sizes}

    def launch(self, limits: Limits) -> int:
        """As many iterations as are safe, and their number; 0 if the host must do the next one itself: something
        may be due after it, a copy into the target, or updates are still due."""
        parts, learner = self.parts, self.parts.learner
        counts = parts.counts
        room = min(self.most, limits.count_safe_iterations(counts, parts.config.envs))
        room = min(room, learner.until_copy // max(1, self.most_due))
        if room < 2 or self._ratio.due(counts.transitions, learner.updates):
            return 0
        threads = self.team.start()
        tables = self._tables[threads]
        generators = [parts.generators[name] for name in ("explore", "replay")]
        states = [generator.get_state() for generator in generators]
        for own, state in zip(tables.states, states, strict=True):
            own[:] = view_state(state)
        tables.counters.fill(0)
        self._progress[:] = int(room), 0, learner.updates
        self._cycles.fill(0)
        self._settings.now()
        start = time.perf_counter()
        tables.call(threads)
        seconds = time.perf_counter() - start
        for own, state, generator in zip(tables.states, states, generators, strict=True):
            view_state(state)[:] = own
            generator.set_state(state)
        done = int(self._progress[kernel.DONE])
        self.team.stop(done)
        self._note_phases(seconds)
        self._count(tables, done)
        return done

    def _note_phases(self, seconds: float) -> None:
        """Divide the time of a call by the cycles that its parts took."""
        total = max(1, int(self._cycles.sum()))
        for name, cycles in zip(PHASES, self._cycles.tolist(), strict=True):
            self.parts.phases.seconds[name] += seconds * cycles / total

    def _count(self, tables: _Tables, iterations: int) -> None:
        """What the host counts; raises an error if a loss was not finite."""
        parts, learner = self.parts, self.parts.learner
        parts.counts.publish()
        parts.sampler.rows_added()
        asked = int(self._progress[kernel.UPDATES]) - learner.updates
        j = iterations - 1
        for g, words in enumerate(tables.words[j][: int(self._plan[j, 0])]):
            wanted, done = int(self._plan[j, 1 + g]), int(words.done[0])
            if done < wanted:
                undone = int(self._plan[j, 1 + g : 1 + int(self._plan[j, 0])].sum()) - done
                self._settings.count(asked - undone)
                learner.counted(asked - undone)
                self._blame(g, done, float(words.results[done, 0]))
        self._settings.count(asked)
        learner.counted(asked)

    def _blame(self, slot: int, done: int, loss: float) -> None:
        size, learner = self.parts.config.update_size, self.parts.learner
        batch = self._batches[slot][1]
        bad = split_batch(batch, len(batch.weight) // size, size)[done]
        learner.watch.look(torch.tensor(loss), bad, learner.adam.steps)


class _Tables:
    """The bound call for a number of threads."""

    def __init__(self, owner: SeveralIterations, threads: int, slots: list[int], largest: int) -> None:
        parts, memory, updates = owner.parts, owner._memory, owner._updates
        collector, learner = parts.collector, parts.learner
        layers = plain_mlp_layers(learner.online)
        boards, inputs, last = parts.config.envs, layers[0].in_features, len(layers) - 2
        padded = LANES // 2 if boards <= LANES // 2 else -(-boards // LANES) * LANES
        width = -(-boards // (2 * LANES)) * 2 * LANES + 16  # not a power of two, as in `update.py`
        table = make_plain_table(memory, plan_layers(learner.online), width)
        own = np.array(
            [[memory.new(inputs, width), memory.new(layers[0].out_features, width)] for _ in range(threads)]
        )
        shared = [-(-layer.out_features // kernel.BLOCK) for layer in layers[1:-1]]
        shares = np.array([even_shares(part, threads) for part in (*shared, 1)])
        self.words: list[list[GroupWords]] = []
        stage = (threads + 1) * APART
        batches = [batch for _, batch in owner._batches]
        spans = [updates.count_counters(b, count, threads) for b, count in zip(batches, slots, strict=True)]
        span = (last + 1) * stage + sum(spans)
        self.counters = np.zeros(owner.most * span // 8, dtype=np.int64)
        groups = np.zeros((owner.most, len(slots), kernel.GROUP_COLUMNS), dtype=np.int64)
        self._calls: list[BoundCall] = []
        for j in range(owner.most):
            at, row = self.counters.ctypes.data + j * span + (last + 1) * stage, []
            for g, (batch, count) in enumerate(zip(batches, slots, strict=True)):
                call, words = updates.bind_group(batch, count, threads, at, learner.sums)
                groups[j, g] = call.address, call.table, words.length, words.settings, words.done_at
                at += spans[g]
                row.append(words)
                self._calls.append(call)
            self.words.append(row)
        picks = np.zeros((len(slots), largest.bit_length(), 2), dtype=np.int64)
        for g, calls in enumerate(owner._picks):
            for k, pick in enumerate(calls):
                picks[g, k] = pick.address, pick.table
        words_of_state = len(view_state(parts.generators["explore"].get_state()))
        self.states = [np.zeros(words_of_state, dtype=np.uint64) for _ in range(2)]
        sizes = np.array([
            self.counters.ctypes.data, span, width, padded, collector.obs.dtype == torch.uint8, TRIES,
            parts.config.update_size, largest,
        ])  # fmt: skip
        legal = torch.ones((boards, parts.env.num_actions), dtype=torch.bool)
        action = get_action_buffer(parts.env)
        assert action is not None
        fraction = owner._ratio.ratio
        arguments = (
            table, own, shares, sizes, collector.obs.view(boards, -1).numpy(),
            (legal if collector.mask is None else collector.mask).numpy(), collector.eps.numpy(),
            collector.luck.numpy(), action.numpy(), learner.lr.view(1).numpy(),
            list_rates(parts.config.explore, parts.config.learn),
            np.array([fraction.numerator, fraction.denominator, owner._ratio.starts]),
            parts.counts.totals.numpy(), *self.states, owner._bits, owner._game[0], picks, groups,
            owner._settings.array, owner._plan, owner._progress, owner._cycles,
        )  # fmt: skip
        self.call = compile_for_threads(kernel.run_iterations, arguments).bind(*arguments)


def make_game_calls(parts: Parts, record: NativeRecord) -> tuple[np.ndarray[Any, Any], list[BoundCall]]:
    """The addresses of the game's step and of recording it; and what must live as long."""
    native, action = find_native_step(parts), get_action_buffer(parts.env)
    assert native is not None
    assert action is not None
    step, recording = native.call, record.bind(action, native.step, parts.env.outcomes)
    return np.array([step.address, step.table, recording.address, recording.table]), [step, recording]


def find_native_step(parts: Parts) -> NativeStep | None:
    """The game's step for compiled code, if it has one."""
    found = getattr(parts.env, "native_step", None)
    return found if isinstance(found, NativeStep) else None


def list_rates(explore: ExploreConfig, learn: LearnConfig) -> np.ndarray[Any, Any]:
    """How ε and the learning rate change (`kernel.EPS_KIND` …)."""
    kinds = {"spread": kernel.CONSTANT, "linear": kernel.LINEAR, "exponential": kernel.EXPONENTIAL}
    eps = float(kinds[explore.schedule]), explore.start, explore.end, explore.over
    if learn.lr_end is None:  # the host has written it before the first call
        return np.array([*eps, kernel.CONSTANT, learn.lr, learn.lr, 1.0])
    return np.array([*eps, kernel.LINEAR, learn.lr, learn.lr_end, learn.lr_over])


def count_most_updates(parts: Parts) -> int:
    """The most updates that a step of all boards can earn."""
    ratio = find_train_ratio(parts).ratio
    return -(-parts.config.envs * ratio.numerator // ratio.denominator)


def find_train_ratio(parts: Parts) -> TrainRatio:
    """The ratio by transitions."""
    ratio = build_ratio(parts.config)
    assert isinstance(ratio, TrainRatio)  # `fits` refuses rollouts
    return ratio


def count_iterations(parts: Parts) -> int:
    """Iterations of a call, by the work of each: it should take milliseconds."""
    parameters = len(parts.learner.flat.values)
    passes = 6 * parts.config.update_size * count_most_updates(parts) + 2 * parts.config.envs
    return int(max(1, min(MOST_ITERATIONS, MOST_WORK / (parameters * passes))))


def plan_slots(most: int, largest: int) -> list[int]:
    """The largest group at each place, if up to `most` updates are done in groups of powers of two."""
    found: list[int] = []
    for due in range(1, most + 1):
        sizes, left = [], due
        while left:
            sizes.append(min(1 << (left.bit_length() - 1), largest))
            left -= sizes[-1]
        found = [max(pair) for pair in zip_longest_zero(found, sizes)]
    return found


def zip_longest_zero(first: Sequence[int], second: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs; zeros where one is shorter."""
    length = max(len(first), len(second))
    return [((*first, *[0] * length)[k], (*second, *[0] * length)[k]) for k in range(length)]


def fits(parts: Parts, updates: NativeUpdates) -> bool:
    """Whether several iterations of a training can be one call, and may be worth it."""
    collector, config = parts.collector, parts.config
    if type(parts.sampler) is not UniformSampler or parts.exchange is not None or parts.rollouts is not None:
        return False
    known = updates.is_plain and parts.learner.noise is None and parts.ring.legal is None
    simple = collector.normalizer is None and collector.branches is None and parts.ring.stack == 1
    if not (known and simple) or config.envs > MOST_BOARDS or collector.env is not parts.env:
        return False
    small = find_train_ratio(parts).ratio.numerator < LARGEST_NUMERATOR
    return (
        find_native_step(parts) is not None
        and small
        and 0 < count_most_updates(parts) <= MOST_UPDATES
        and count_iterations(parts) > 1
        and is_same_generator()
    )
