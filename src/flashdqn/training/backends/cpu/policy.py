"""ε-greedy actions of a plain MLP on the CPU, in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flashdqn.compute.compile_ahead import KernelJob
from flashdqn.compute.gemm import LANES, finish_stage, never_inlined, view_float_matrix
from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.compute.native import Views, compile_for_threads
from flashdqn.compute.threads import Team
from flashdqn.training.backends.cpu import mlp as mlp_cpu
from flashdqn.training.backends.cpu.mlp import APART, forward_pass, load_observations, take_next_part
from flashdqn.training.backends.cpu.update import plain_mlp_layers

# Entries of `sizes`: environments at a time, width of the matrices, whether observations are bytes, the address of
# the counters.
AT_ONCE, WIDTH, BYTES, COUNTERS = range(4)

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


class NativePolicy:
    """Chooses actions for `num_envs` environments; the network's parameters are bound when this is created."""

    def __init__(self, network: nn.Module, num_envs: int, team: Team | None = None) -> None:
        layers = plain_mlp_layers(network)
        few = num_envs <= LANES // 2
        at_once = LANES // 2 if few else LANES if num_envs <= LANES else PART
        width = -(-num_envs // PART) * PART + 16  # not a power of two, as in `update.py`
        self.parts = -(-num_envs // at_once)
        self.team = team if team is not None and self.parts > 1 else Team(1)
        self._layers, self._memory = self._table(layers, width)
        self._counters = np.zeros((self.team.most + 1) * APART // 8, dtype=np.int64)
        self._sizes = np.array([at_once, width, 0, self._counters.ctypes.data])
        self._all_legal = torch.ones((num_envs, layers[-1].out_features), dtype=torch.bool)
        self._views = Views()
        self._shares = {
            threads: np.rint(np.linspace(0, self.parts, threads + 1)).astype(np.int64)
            for threads in self.team.sizes
        }
        self.action = torch.zeros(num_envs, dtype=torch.int64)
        self._crews: dict[torch.dtype, Any] = {}

    def __call__(self, obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor) -> Tensor:
        """The actions, [N] int64, in a buffer that the next call overwrites."""
        self._counters.fill(0)
        self._sizes[BYTES] = obs.dtype == torch.uint8
        seen, *others = self._views(obs, self._all_legal if mask is None else mask, eps, luck, self.action)
        threads = self.team.start()
        arguments = (self._layers, self._shares[threads], self._sizes, seen.reshape(len(seen), -1), *others)
        if obs.dtype not in self._crews:
            self._crews[obs.dtype] = compile_for_threads(run_policy, arguments)
        self._crews[obs.dtype](threads, *arguments)
        self.team.stop()
        return self.action

    @staticmethod
    def _table(layers: list[nn.Linear], width: int) -> tuple[np.ndarray[Any, Any], list[Tensor]]:
        table = np.zeros((len(layers), mlp_cpu.LAYER_COLUMNS), dtype=np.int64)
        memory = [torch.zeros(layers[0].in_features, width)]
        for line, layer in zip(table, layers, strict=True):
            line[mlp_cpu.IN], line[mlp_cpu.OUT] = layer.in_features, layer.out_features
            line[mlp_cpu.WEIGHT], line[mlp_cpu.BIAS] = layer.weight.data_ptr(), layer.bias.data_ptr()
            line[mlp_cpu.X] = memory[-1].data_ptr()
            memory.append(torch.zeros(layer.out_features, width))
            line[mlp_cpu.Y] = memory[-1].data_ptr()
        return table, memory


def plan_policy_kernel(network: nn.Module, dtype: torch.dtype) -> KernelJob | None:
    """The kernel that actions of such a network will need; None if they are not written by hand."""
    if not plain_mlp_layers(network):
        return None
    number = str(dtype).removeprefix("torch.")
    types = (("int64", 2), ("int64", 1), ("int64", 1), (number, 2), ("boolean", 2))
    return KernelJob(run_policy, (*types, ("float32", 1), ("float32", 2), ("int64", 1)))
