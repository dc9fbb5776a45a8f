"""Gradient steps of an MLP on the CPU, written by hand: no autograd, and one call for a group of updates.

A small update is so short that overhead shows: autograd's nodes, allocations, a pass over memory for every
operation, a few microseconds of Python for each. Here only the arithmetic is left, in `mlp.py` and `variants.py`;
this file gives it its memory. `benchmarks/update.py` compares whole updates with the matrix products that they
need at least.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from flashdqn.compute.calls import BoundCall, find_places, find_type, load_crew
from flashdqn.compute.compile_ahead import KernelJob
from flashdqn.compute.gemm import LANES
from flashdqn.compute.native import compile_for_threads
from flashdqn.compute.threads import Team
from flashdqn.core.types import Batch
from flashdqn.learn.adam import Adam
from flashdqn.learn.adam_cpu import AdamSettings
from flashdqn.learn.bootstraps import Bootstrap, double_target, greedy_target
from flashdqn.learn.heads import Head, ScalarHead
from flashdqn.learn.loss import Margin, TDLoss
from flashdqn.networks.noisy import Noise
from flashdqn.training.backends.cpu import heads as heads_cpu
from flashdqn.training.backends.cpu import mlp as mlp_cpu
from flashdqn.training.backends.cpu.layer_memory import ByLayers, NoiseRows, list_noise
from flashdqn.training.backends.cpu.losses import plan_loss
from flashdqn.training.backends.cpu.memory import ByHalves, BySamples
from flashdqn.training.backends.cpu.networks import explain_unknown, plain_mlp_layers, plan_layers

#: With this many samples or more, they are taken more vectors at a time. That is a little faster, but leaves fewer
#: parts for threads to share.
SMALL, LARGE = 4 * LANES, 16 * LANES


class NativeUpdates:
    """The TD loss of an MLP, its gradient, and Adam's steps along it.

    The memory of the parameters and of their `grad` is bound when this is created; a missing `grad` is created.
    You may write into them (an optimizer, `load_state_dict`), but do not replace them afterwards.
    Actions are not checked: they must be in range, as those of a ring are. The results do not depend on the
    number of threads.
    """

    def __init__(
        self,
        online: nn.Module,
        target: nn.Module,
        head: Head,
        bootstrap: Bootstrap,
        adam: Adam | None = None,
        old: Tensor | None = None,
        tau: float = 0.0,
        team: Team | None = None,
        noise: Noise | None = None,
        margin: Margin | None = None,
    ) -> None:
        """Steps need `adam`; a soft update of the target needs its flat parameters, `old`, and `tau` > 0. Steps of
        noisy layers draw from `noise`; batches with demonstrations need `margin`."""
        for network in (online, target):
            if unknown := explain_unknown(network, head, bootstrap):
                raise ValueError(f"The hand-written update does not support {unknown}.")
        for parameter in online.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.team = team or Team(1)
        self.is_plain = is_plain(online, head, bootstrap, margin)
        self._plans = plan_layers(online), plan_layers(target)
        self._loss, self._double = plan_loss(head, bootstrap, margin), bootstrap is double_target
        self._noise = None
        if self._plans[0].is_noisy:
            plans = self._plans[:1] if target is online else self._plans
            self._noise = NoiseRows(list_noise(*plans), None if noise is None else noise.generator)
        self._zero = torch.zeros(1)
        self._no_sums = torch.zeros(3)
        self._settings = AdamSettings(adam, tau) if adam else None
        self._flat = [] if adam is None else [adam.flat.values, adam.flat.gradient, adam.first, adam.second]
        if adam is not None and old is not None and tau > 0:
            self._flat.append(old)
        self._spaces: dict[tuple[int, torch.dtype], _Workspace] = {}  # one or a few
        if self.team.most > 1:
            load_crew()

    @staticmethod
    def fits(network: nn.Module, head: Head, bootstrap: Bootstrap) -> bool:
        """Whether the loss is one of those written here."""
        return explain_unknown(network, head, bootstrap) is None

    def gradient(self, batch: Batch) -> TDLoss:
        """Like `td_loss` and `backward`: overwrites every `parameter.grad`, returns loss, priority and q.

        Noisy layers keep the noise that they have. The results are new tensors at every call; the caller may keep
        them.
        """
        if self._noise is not None:
            self._noise.take_current()
        priority, results, _ = self._space(batch, 1).run(batch, 1, self, applied=False, sums=self._no_sums)
        loss, q, _ = torch.from_numpy(results[0]).unbind()
        return TDLoss(loss, priority, q)

    def steps(self, batch: Batch, count: int, sums: Tensor) -> tuple[Tensor, int, float]:
        """`count` gradient steps, on batches that lie one after the other in a large one; adds loss, Q and gradient
        norm of each to `sums`.

        Returns the samples' priorities, how many steps were done, and the loss of the last one, or of the one that
        was not done because it was not finite. A sampler may put other samples into the same batch for the next
        call; the priorities are then in the same memory too.
        """
        assert self._settings is not None
        if self._noise is not None:
            self._noise.draw(count)
        priority, results, done = self._space(batch, count).run(batch, count, self, applied=True, sums=sums)
        self._settings.count(done)
        return priority, done, float(results[min(done, count - 1), 0])

    @property
    def applied_settings(self) -> AdamSettings:
        """The settings of steps."""
        assert self._settings is not None
        return self._settings

    def bind_group(
        self, batch: Batch, count: int, threads: int, counters: int, sums: Tensor
    ) -> tuple[BoundCall, GroupWords]:
        """A call for up to `count` steps, with its own settings and counters (at an address); and where in memory
        the caller finds or writes what belongs to a single call."""
        return self._space(batch, count).bind_group(batch, count, threads, counters, self, sums)

    def count_counters(self, batch: Batch, count: int, threads: int) -> int:
        """Bytes of the counters of such a call."""
        return count * self._space(batch, count).memory.stages * (threads + 1) * mlp_cpu.APART

    def _space(self, batch: Batch, count: int) -> _Workspace:
        key = len(batch.weight) // count, batch.transition.obs.dtype
        space = self._spaces.get(key)
        if space is None:
            space = self._spaces[key] = _Workspace(self, *key)
        return space


class _Workspace:
    """What batches of `rows` rows need, and a call that does updates with it."""

    def __init__(self, owner: NativeUpdates, rows: int, dtype: torch.dtype) -> None:
        at_once = choose_at_once(rows, owner.is_plain)
        # Not a power of two: otherwise all features of a sample would compete for the same cache lines.
        width = -(-rows // at_once) * at_once + 16
        length = len(owner._flat[0]) if owner._flat else 0
        self.rows = rows
        self.sizes = np.array([rows, at_once, width, owner._double, dtype == torch.uint8, 1])
        room = rows, width, at_once, length, owner.team.most
        self.memory: BySamples | ByHalves | ByLayers
        self.constants: tuple[Any, ...]
        if owner.is_plain:
            online, target = (
                [cast(nn.Linear, layer.linear) for layer in plan.layers] for plan in owner._plans
            )
            kind = ByHalves if ByHalves.fits(online) else BySamples
            self.memory = kind(online, target, *room)
            self.kernel, self.constants = kind.kernel, (float(owner._loss.numbers[heads_cpu.HUBER]),)
        else:
            plan, loss = owner._plans[0], owner._loss
            self.memory = ByLayers(*owner._plans, loss.size, *room)
            self.kernel, self.constants = loss.kernel, (loss.numbers, loss.atoms)
            actions = plan.layers[-1].outputs // loss.size
            self.sizes = np.array([*self.sizes, actions, loss.size, plan.value, loss.bootstrap])
        self.places = np.zeros(mlp_cpu.PLACES, dtype=np.int64)
        self.places[mlp_cpu.ZERO] = owner._zero.data_ptr()
        self.places[mlp_cpu.AT_VALUES : mlp_cpu.AT_VALUES + len(owner._flat)] = [
            tensor.data_ptr() for tensor in owner._flat
        ]
        self.lengths = np.array([length, length if len(owner._flat) > 4 else 0])
        self.like = torch.zeros(0, dtype=dtype).numpy()
        self._counters = np.zeros(0, dtype=np.int64)
        self._calls: dict[tuple[int, int], _Call] = {}  # by number of updates and of threads
        self._crew: Any = None

    def run(
        self, batch: Batch, count: int, owner: NativeUpdates, applied: bool, sums: Tensor
    ) -> tuple[Tensor, np.ndarray[Any, Any], int]:
        """Priorities, [loss, Q, norm] of every update, and how many were done."""
        threads = owner.team.start()
        call = self._calls.get((count, threads))
        if call is None or call.batch is not batch or call.sums is not sums or not applied:
            call = self._prepare(batch, count, threads, owner, sums)
            if not call.copied:  # a copy would not see new numbers in the same batch
                self._calls[count, threads] = call
        self._counters.fill(0)
        self.sizes[mlp_cpu.APPLY] = applied
        call.done[0] = 0
        if owner._settings is not None:
            owner._settings.now()
        call.bound(threads)
        owner.team.stop(count)
        return call.priority, call.results, int(call.done[0])

    def _prepare(self, batch: Batch, count: int, threads: int, owner: NativeUpdates, sums: Tensor) -> _Call:
        needed = count * self.memory.stages * (threads + 1) * mlp_cpu.APART // 8
        if len(self._counters) < needed:
            self._counters = np.zeros(needed, dtype=np.int64)
            self.places[mlp_cpu.COUNTERS] = self._counters.ctypes.data
            self._calls.clear()
        settings = NO_SETTINGS if owner._settings is None else owner._settings.array
        shared = self.sizes, self.places, settings
        return self._bind(batch, count, threads, owner, sums, *shared)

    def bind_group(
        self, batch: Batch, count: int, threads: int, counters: int, owner: NativeUpdates, sums: Tensor
    ) -> tuple[BoundCall, GroupWords]:
        """See `NativeUpdates.bind_group`."""
        sizes, places = self.sizes.copy(), self.places.copy()
        sizes[mlp_cpu.APPLY], places[mlp_cpu.COUNTERS] = 1, counters
        settings = np.zeros_like(NO_SETTINGS)
        call = self._bind(batch, count, threads, owner, sums, sizes, places, settings)
        assert not call.copied
        arguments = call.bound.arguments
        kinds = [find_type(argument) for argument in arguments]
        at = (
            find_places(kinds)[len(self.memory.tables(threads))] + 1
        )  # the number of rows of the table of batches
        words = call.bound.words[at:].ctypes.data, settings.ctypes.data, call.done.ctypes.data
        return call.bound, GroupWords(*words, call.done, call.results, [*call.columns, call.priority])

    def _bind(
        self, batch: Batch, count: int, threads: int, owner: NativeUpdates, sums: Tensor, sizes: Any, places: Any,
        settings: Any,
    ) -> _Call:  # fmt: skip
        obs, action, reward, discount, next_obs, next_mask, mask = batch.transition
        priority = torch.empty(count * self.rows)
        noise = None if owner._noise is None else owner._noise.hold(count)
        given = [obs, action, reward, discount, next_obs, batch.weight, priority, next_mask]
        given += [] if owner.is_plain else [mask, batch.expert, None, noise]
        columns = {k: column for k, column in enumerate(given) if column is not None}
        copied = not all(column.is_contiguous() for column in columns.values())
        columns = {k: column.contiguous() for k, column in columns.items()}
        table = np.zeros((count, len(given)), dtype=np.int64)
        for k, column in columns.items():
            table[:, k] = column.data_ptr() + np.arange(count) * (column.nbytes // count)
        if batch.expert is not None and not owner.is_plain:
            table[:, heads_cpu.SHOWN] = len(batch.expert) // count
        results, done = np.zeros((count, 3), dtype=np.float32), np.zeros(1, dtype=np.int64)
        arguments = (
            *self.memory.tables(threads), table, sizes, places, self.lengths, settings, *self.constants, self.like,
            results, sums.numpy(), done,
        )  # fmt: skip
        if self._crew is None:
            self._crew = compile_for_threads(self.kernel, arguments)
        bound = self._crew.bind(*arguments)
        return _Call(batch, sums, [*columns.values()], copied, bound, priority, results, done)


class GroupWords(NamedTuple):
    """Where a call for a group of updates has what changes from call to call."""

    length: int  # the address of an int64: the number of updates
    settings: int  # the address of Adam's settings
    done_at: int  # the address of `done`
    done: np.ndarray[Any, Any]  # [1]
    results: np.ndarray[Any, Any]  # [updates, 3]
    kept: list[Tensor]  # the call uses their memory


def choose_at_once(rows: int, plain: bool) -> int:
    """How many samples are taken at a time: one to four vectors."""
    if plain:
        return (2 if rows >= LARGE else 1) * LANES
    return (4 if rows >= LARGE else 2 if rows >= SMALL else 1) * LANES


class _Call(NamedTuple):
    """All arguments of a call, made once for a batch that comes again and again with new numbers in it."""

    batch: Batch
    sums: Tensor
    columns: list[Tensor]  # whose addresses are used
    copied: bool  # some of them are copies
    bound: BoundCall
    priority: Tensor
    results: np.ndarray[Any, Any]
    done: np.ndarray[Any, Any]


NO_SETTINGS = np.zeros(6)


def is_plain(network: nn.Module, head: Head, bootstrap: Bootstrap, margin: Margin | None) -> bool:
    """Whether the update is one of `mlp.py` and `mlp_halves.py`."""
    known = bootstrap is greedy_target or bootstrap is double_target
    return known and type(head) is ScalarHead and margin is None and bool(plain_mlp_layers(network))


def plan_update_kernel(
    network: nn.Module, head: Head, bootstrap: Bootstrap, dtype: torch.dtype, margin: Margin | None = None
) -> KernelJob | None:
    """The kernel that updates of such a network will need; None if they are not written by hand."""
    if not NativeUpdates.fits(network, head, bootstrap):
        return None
    table, row, number = ("int64", 2), ("int64", 1), str(dtype).removeprefix("torch.")
    between, batch = (row, ("float64", 2), ("float64", 1)), (table, row, row, row, ("float64", 1))
    rest = ((number, 1), ("float32", 2), ("float32", 1), row)
    if not is_plain(network, head, bootstrap, margin):
        constants = ("float32", 1), ("float32", 1)
        kernel = plan_loss(head, bootstrap, margin).kernel
        return KernelJob(kernel, (table, table, table, *between, row, *batch, *constants, *rest))
    if ByHalves.fits(plain_mlp_layers(network)):
        own = table, table, table, row, ("float64", 1)
        return KernelJob(ByHalves.kernel, (*own, *batch, ("float64", 0), *rest))
    return KernelJob(BySamples.kernel, (table, table, table, *between, *batch, ("float64", 0), *rest))
