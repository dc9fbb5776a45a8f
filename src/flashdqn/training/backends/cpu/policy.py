"""ε-greedy actions of an MLP on the CPU, in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flashdqn.compute.calls import BoundCall, find_type, load_crew
from flashdqn.compute.compile_ahead import KernelJob
from flashdqn.compute.gemm import LANES, finish_stage, never_inlined, never_inlined_as, view_float_matrix
from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.compute.native import Crew, Views, compile_for_threads
from flashdqn.compute.threads import Team
from flashdqn.learn.bootstraps import greedy_target
from flashdqn.learn.distributional import CategoricalHead, QuantileHead
from flashdqn.learn.heads import Head, ScalarHead
from flashdqn.networks.noisy import NoisyLinear
from flashdqn.training.backends.cpu import mlp as mlp_cpu
from flashdqn.training.backends.cpu.head_categorical import categorical_q
from flashdqn.training.backends.cpu.head_quantile import quantile_q
from flashdqn.training.backends.cpu.heads import scalar_q
from flashdqn.training.backends.cpu.layer_columns import ACTIONS, BOOTSTRAP, INPUTS, NOISE_IN, NOISE_OUT, Q
from flashdqn.training.backends.cpu.layer_memory import (
    NEXT,
    find_places,
    list_blocks,
    make_matrices,
    make_rooms,
    make_table,
    place_outputs,
)
from flashdqn.training.backends.cpu.layers import forward_layers
from flashdqn.training.backends.cpu.losses import plan_loss
from flashdqn.training.backends.cpu.memory import Memory
from flashdqn.training.backends.cpu.mlp import APART, forward_pass, load_observations, take_next_part
from flashdqn.training.backends.cpu.networks import LayerPlan, explain_unknown, plain_mlp_layers, plan_layers
from flashdqn.training.backends.cpu.variants import form_noisy_block

# Entries of `sizes`: environments at a time, width of the matrices, whether observations are bytes, the address of
# the counters.
AT_ONCE, WIDTH, BYTES, COUNTERS = range(4)

# The same for the kernels of variants, after the entries that `variants.py` has.
VARIANT_COUNTERS = BOOTSTRAP + 1

#: Environments that a thread takes at a time; if there are fewer than two such parts, one thread does all.
PART = 2 * LANES


@never_inlined
def run_policy(
    worker: Scalar,
    threads: Scalar,
    layers: Array,  # as in `mlp.run_updates`; only X and Y are used
    shares: Array,  # [threads + 1]
    sizes: Array,  # by AT_ONCE … COUNTERS
    obs: Array,  # [N, inputs]
    legal: Array,  # [N, A]
    eps: Array,  # [N]
    luck: Array,  # [2, N]
    action: Array,  # [N]: out
) -> None:
    """The network's choice, or a random one, for every environment."""
    at_once, width, bytes_, counters = sizes[AT_ONCE], sizes[WIDTH], sizes[BYTES], sizes[COUNTERS]
    last = len(layers) - 1
    x = view_float_matrix(layers[0, mlp_cpu.X], layers[0, mlp_cpu.IN], width)
    q = view_float_matrix(layers[last, mlp_cpu.Y], layers[last, mlp_cpu.OUT], width)
    finished, part = 0, take_next_part(counters, shares, worker, threads)
    while part >= 0:
        first = part * at_once
        end = min(first + at_once, len(action))
        load_observations(obs, first, end, x, bytes_)
        forward_pass(layers, mlp_cpu.WEIGHT, mlp_cpu.BIAS, mlp_cpu.X, mlp_cpu.Y, first, at_once, width)
        choose_actions(q, action, legal, eps, luck, first, end)
        finished += 1
        part = take_next_part(counters, shares, worker, threads)
    finish_stage(counters, finished, shares[threads])


@inner
def choose_actions(
    q: Array, action: Array, legal: Array, eps: Array, luck: Array, first: Scalar, end: Scalar
) -> None:
    """Like `core.ops.choose_epsilon_greedy`: the best legal action, or with probability ε_i a random legal one.

    q is [A, N].
    """
    for i in range(first, end):
        if luck[0, i] < eps[i]:
            count = 0
            for a in range(len(q)):
                count += legal[i, a]
            nth = min(int(luck[1, i] * np.float32(count)), count - 1)
            for a in range(len(q)):
                nth -= legal[i, a]
                if nth < 0:
                    action[i] = a
                    break
        else:
            best, chosen = q[0, i], -1
            for a in range(len(q)):
                value = q[a, i]
                # NaN counts as the largest, as in torch.argmax
                if legal[i, a] and (chosen < 0 or value > best or (value != value and best == best)):
                    best, chosen = value, a
            action[i] = max(chosen, 0)


def make_variant_policy(name: str, find_q: Any) -> Any:
    """Like `run_policy`, for all networks of `variants.py` and one of its heads."""

    def run(
        worker: Scalar,
        threads: Scalar,
        layers: Array,  # [L, layer_columns.COLUMNS]; only the columns of next observations are used
        blocks: Array,  # [blocks, 4], as in `variants.py`
        shares: Array,  # [2, threads + 1]
        sizes: Array,  # by mlp.SAMPLES … APPLY, layer_columns.ACTIONS … BOOTSTRAP, VARIANT_COUNTERS
        rooms: Array,
        atoms: Array,
        obs: Array,
        legal: Array,
        eps: Array,
        luck: Array,
        action: Array,
    ) -> None:
        width, counters = sizes[mlp_cpu.WIDTH], sizes[VARIANT_COUNTERS]
        finished, part = 0, take_next_part(counters, shares[0], worker, threads)
        while part >= 0:
            form_noisy_block(layers, blocks, 0, part)
            finished += 1
            part = take_next_part(counters, shares[0], worker, threads)
        finish_stage(counters, finished, shares[0, threads])
        counters += (threads + 1) * APART
        x = view_float_matrix(layers[0, mlp_cpu.NEXT_X], layers[0, INPUTS], width)
        q = view_float_matrix(rooms[Q], sizes[ACTIONS], width)
        finished, part = 0, take_next_part(counters, shares[1], worker, threads)
        while part >= 0:
            first = part * sizes[mlp_cpu.AT_ONCE]
            end = min(first + sizes[mlp_cpu.AT_ONCE], len(action))
            load_observations(obs, first, end, x, sizes[mlp_cpu.BYTES])
            forward_layers(layers, sizes, rooms, False, True, False, first)
            find_q(layers[len(layers) - 1, mlp_cpu.NEXT_Y], rooms[Q], sizes, atoms, rooms, first)
            choose_actions(q, action, legal, eps, luck, first, end)
            finished += 1
            part = take_next_part(counters, shares[1], worker, threads)
        finish_stage(counters, finished, shares[1, threads])

    return never_inlined_as(name, run)


run_scalar_policy = make_variant_policy("run_scalar_policy", scalar_q)
run_categorical_policy = make_variant_policy("run_categorical_policy", categorical_q)
run_quantile_policy = make_variant_policy("run_quantile_policy", quantile_q)


class NativePolicy:
    """Chooses actions for `num_envs` environments; the network's parameters are bound when this is created."""

    def __init__(
        self, network: nn.Module, num_envs: int, team: Team | None = None, head: Head | None = None
    ) -> None:
        """`head`: what the network's numbers mean; None: they are the values."""
        few = num_envs <= LANES // 2
        at_once = LANES // 2 if few else LANES if num_envs <= LANES else PART
        width = -(-num_envs // PART) * PART + 16  # not a power of two, as in `update.py`
        self.parts = -(-num_envs // at_once)
        self.team = team if team is not None and self.parts > 1 else Team(1)
        self._counters = np.zeros(2 * (self.team.most + 1) * APART // 8, dtype=np.int64)
        self._memory = Memory()
        plan, head = plan_layers(network), head or ScalarHead(1.0)
        self._kernel = find_policy_kernel(network, head)
        self._shares: dict[int, np.ndarray[Any, Any]] = {}
        parts: tuple[int, ...] = (self.parts,)
        self._tables: tuple[np.ndarray[Any, Any], ...]
        if self._kernel is run_policy:
            self._tables = (make_plain_table(self._memory, plan, width),)
            self._sizes = np.array([at_once, width, 0, self._counters.ctypes.data])
            self._constants: tuple[Any, ...] = ()
        else:
            size, atoms = head.size, plan_loss(head, greedy_target, None).atoms
            self._tables = (make_policy_table(self._memory, plan, width), np.array(list_blocks(plan)))
            self._constants = make_rooms(self._memory, plan, size, width), atoms
            actions, counters = plan.layers[-1].outputs // size, self._counters.ctypes.data
            self._sizes = np.array(
                [num_envs, at_once, width, 0, 0, 0, actions, size, plan.value, 0, counters]
            )
            parts = len(self._tables[1]) if plan.is_noisy else 0, self.parts
        self._bytes = BYTES if self._kernel is run_policy else mlp_cpu.BYTES
        for threads in self.team.sizes:
            ends = [np.rint(np.linspace(0, part, threads + 1)).astype(np.int64) for part in parts]
            self._shares[threads] = ends[0] if self._kernel is run_policy else np.array(ends)
        self._all_legal = torch.ones((num_envs, plan.layers[-1].outputs // head.size), dtype=torch.bool)
        self._views = Views()
        self.action = torch.zeros(num_envs, dtype=torch.int64)
        self._crews: dict[Any, Crew] = {}
        self._bound: dict[int, tuple[Any, list[Any], BoundCall]] = {}  # by threads, for the same arrays
        if self.team.most > 1:
            load_crew()

    def __call__(self, obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor) -> Tensor:
        """The actions, [N] int64, in a buffer that the next call overwrites."""
        self._counters.fill(0)
        self._sizes[self._bytes] = obs.dtype == torch.uint8
        seen, *others = self._views(obs, self._all_legal if mask is None else mask, eps, luck, self.action)
        threads = self.team.start()
        known = self._bound.get(threads)
        if (
            known is None
            or known[0] is not seen
            or any(a is not b for a, b in zip(known[1], others, strict=True))
        ):
            known = seen, others, self._bind(threads, seen, others)
            if all(array.flags.c_contiguous for array in (seen, *others)):  # a copy would not see new numbers
                self._bound[threads] = known
        known[2](threads)
        self.team.stop()
        return self.action

    def _bind(self, threads: int, seen: np.ndarray[Any, Any], others: list[Any]) -> BoundCall:
        seen, *others = (np.ascontiguousarray(array) for array in (seen.reshape(len(seen), -1), *others))
        arguments = (*self._tables, self._shares[threads], self._sizes, *self._constants, seen, *others)
        kind = find_type(seen)
        if kind not in self._crews:
            self._crews[kind] = compile_for_threads(self._kernel, arguments)
        return self._crews[kind].bind(*arguments)


def make_plain_table(memory: Memory, plan: LayerPlan, width: int) -> np.ndarray[Any, Any]:
    """The table of layers of `run_policy`."""
    table = make_table(memory, plan)[:, : mlp_cpu.LAYER_COLUMNS].copy()
    x = memory.new(plan.layers[0].inputs, width)
    for line, layer in zip(table, plan.layers, strict=True):
        line[mlp_cpu.X] = x
        x = line[mlp_cpu.Y] = memory.new(layer.outputs, width)
    return table


def make_policy_table(memory: Memory, plan: LayerPlan, width: int) -> np.ndarray[Any, Any]:
    """The table of layers of the other kernels; noisy layers use the noise that they have."""
    table = make_table(memory, plan)
    place_outputs(table, plan, make_matrices(memory, plan, width), width, NEXT)
    for line, layer in zip(table, plan.layers, strict=True):
        if isinstance(own := layer.linear, NoisyLinear):
            line[NOISE_IN], line[NOISE_OUT] = find_places(own.noise_in, own.noise_out)
    return table


def find_policy_kernel(network: nn.Module, head: Head) -> Any:
    """The kernel that chooses actions for a network that is known (see `networks.explain_unknown`)."""
    if isinstance(head, CategoricalHead):
        return run_categorical_policy
    if isinstance(head, QuantileHead):
        return run_quantile_policy
    return run_policy if plain_mlp_layers(network) else run_scalar_policy


def plan_policy_kernel(network: nn.Module, dtype: torch.dtype, head: Head | None = None) -> KernelJob | None:
    """The kernel that actions of such a network will need; None if they are not written by hand."""
    head = head or ScalarHead(1.0)
    if explain_unknown(network, head, greedy_target):
        return None
    kernel, number = find_policy_kernel(network, head), str(dtype).removeprefix("torch.")
    row, table = ("int64", 1), ("int64", 2)
    first = (table, row, row) if kernel is run_policy else (table, table, table, row, row, ("float32", 1))
    return KernelJob(kernel, (*first, (number, 2), ("boolean", 2), ("float32", 1), ("float32", 2), row))
