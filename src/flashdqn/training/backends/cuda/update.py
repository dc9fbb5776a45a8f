"""One gradient step of a plain two-layer MLP in three kernels, and its ε-greedy actions in one.

A small network's update is a chain of tiny operations, and on a GPU each link costs microseconds whatever its size.
Here the chain has three links, four for large batches: forward passes of all networks, the gradient, (the sum over
chunks of rows,) and clipping, Adam and the target network. See `fused_kernels.py` for the mathematics.

The kernels need CUDA and Triton, which is imported only when used; or Triton's interpreter (TRITON_INTERPRET=1),
for tests on the CPU. Matrix products are in TF32 unless asked for "ieee".
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from flashdqn.config import LearnConfig
from flashdqn.core.types import Batch
from flashdqn.learn.bootstraps import Bootstrap, double_target, greedy_target
from flashdqn.learn.heads import Head, ScalarHead
from flashdqn.networks.build import QNetwork
from flashdqn.networks.torsos import MLP

WIDTHS = (32, 64, 128, 256, 512)
LARGE = 2048  # rows from which on one program does all networks, and the gradient is added up from chunks


def is_interpreted() -> bool:
    """Whether Triton runs in its interpreter, on the CPU: for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@functools.cache
def fused_available() -> bool:
    """Whether the kernels can run here."""
    if importlib.util.find_spec("triton") is None:
        return False
    if is_interpreted():
        return True
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)


@dataclass(frozen=True)
class Sizes:
    """Inputs, hidden widths and actions of a two-layer MLP, and what follows from them."""

    inputs: int
    hidden1: int
    hidden2: int
    actions: int

    @property
    def parameters(self) -> int:
        """Numbers in all weights and biases."""
        d, h1, h2, a = self.inputs, self.hidden1, self.hidden2, self.actions
        return h1 * (d + 1) + h2 * (h1 + 1) + a * (h2 + 1)

    def constants(self) -> dict[str, Any]:
        """Sizes as the kernels name them; DP and AP are what the matrix units want."""
        padded_inputs = max(16, _power_of_two(self.inputs))
        padded_actions = max(16, _power_of_two(self.actions))
        return {"D": self.inputs, "DP": padded_inputs, "H1": self.hidden1, "H2": self.hidden2,
                "A": self.actions, "AP": padded_actions}  # fmt: skip


def mlp_sizes(network: nn.Module) -> Sizes | None:
    """The sizes, if the network is one that the kernels know."""
    if not isinstance(network, QNetwork) or type(network.torso) is not MLP:
        return None
    layers = [*network.torso.layers, network.output]
    if [type(layer) for layer in layers] != [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]:
        return None
    first, second, third = (layer for layer in layers if isinstance(layer, nn.Linear))
    parameters = list(network.parameters())
    if len(parameters) != 6 or any(parameter.dtype != torch.float32 for parameter in parameters):
        return None
    sizes = Sizes(first.in_features, first.out_features, second.out_features, third.out_features)
    known = sizes.hidden1 in WIDTHS and sizes.hidden2 in WIDTHS
    return sizes if known and sizes.inputs <= 256 and sizes.actions <= 32 else None


def flat_view(network: nn.Module) -> Tensor:
    """The vector that the parameters are views of; they must lie in it side by side, in their order."""
    parameters = [parameter.detach() for parameter in network.parameters()]
    place = parameters[0].data_ptr()
    for parameter in parameters:
        if parameter.data_ptr() != place or not parameter.is_contiguous():
            raise ValueError("The network's parameters must lie side by side, as `Flat` lays them.")
        place += 4 * parameter.numel()
    return parameters[0].as_strided((sum(parameter.numel() for parameter in parameters),), (1,))


@dataclass(frozen=True)
class UpdatePlan:
    """How the work is cut up. Blocks are powers of two; a block larger than the matrix is cut down to it."""

    joint: bool = False  # one program takes its rows through all networks; else one network and some columns
    rows: int = 32  # forward: rows of a program,
    columns: int = 32  # columns of the second hidden layer (joint: at a time),
    depth: int = 256  # and columns of the first at a time
    forward_warps: int = 4
    forward_stages: int = 2
    chunks: int = 1  # the gradient is added up from so many chunks of rows
    block1: tuple[int, int, int] = (64, 32, 128)  # W1's gradient: rows, units, second-layer units at a time
    block2: tuple[int, int, int] = (64, 32, 64)  # W2's gradient: rows, outputs, inputs
    block3: tuple[int, int] = (64, 32)  # W3's gradient: rows, columns
    gradient_warps: int = 8
    gradient_stages: int = 1
    reduce_size: int = 512
    adam_size: int = 512
    adam_warps: int = 4
    pdl: bool = False  # programmatic dependent launch: a kernel is put in place while the last one ends
    precision: str = "tf32"  # or tf32x3, ieee


def choose_update_plan(sizes: Sizes, batch_size: int) -> UpdatePlan:
    """What has measured best on an H200 (benchmarks/fused_check.py), by the size of the batch."""
    if batch_size >= LARGE:
        return UpdatePlan(
            joint=True, rows=64, columns=128, depth=32, forward_warps=4, forward_stages=3,
            chunks=max(1, min(32, batch_size // 256)),
            block1=(128, 64, 32), block2=(64, 128, 128), block3=(64, 64), gradient_stages=2,
        )  # fmt: skip
    narrow = UpdatePlan(rows=64, block1=(64, 16, 64), gradient_warps=4, adam_size=256, adam_warps=2)
    if batch_size <= 64:
        return replace(narrow, rows=16 if batch_size <= 16 else 64, block2=(64, 64, 64))
    return replace(narrow, depth=128, chunks=min(16, _divide_up(batch_size, 64)))


class FusedUpdate:
    """One gradient step of a plain two-layer MLP in a few kernels: loss, gradient, clipping, Adam, soft target.

    Everything is changed in place: the parameters (views of `flat`), Adam's moments and `step`, the target network
    (soft updates only), `sums` (loss, mean Q(s, a), gradient norm before clipping) and, by a loss that is not
    finite, `first_bad`. A call neither allocates nor waits, so that it can be captured in a CUDA graph.
    """

    def __init__(
        self,
        online: QNetwork,
        target: QNetwork,
        *,
        flat: Tensor,
        target_flat: Tensor,
        exp_avg: Tensor,
        exp_avg_sq: Tensor,
        step: Tensor,
        lr: Tensor,
        sums: Tensor,
        first_bad: Tensor,
        head: ScalarHead,
        bootstrap: Bootstrap,
        config: LearnConfig,
        batch_size: int,
        plan: UpdatePlan | None = None,
    ) -> None:
        sizes = mlp_sizes(online)
        if sizes is None or not self.fits(online, head, bootstrap, config, batch_size):
            raise ValueError(
                "FusedUpdate does not fit this network or configuration: ask FusedUpdate.fits first."
            )
        for network, vector in ((online, flat), (target, target_flat)):
            if flat_view(network).data_ptr() != vector.data_ptr() or vector.numel() < sizes.parameters:
                raise ValueError("The parameters must be views of their flat vector, in their order.")
        self.flat, self.target_flat, self.exp_avg, self.exp_avg_sq = flat, target_flat, exp_avg, exp_avg_sq
        self.step, self.lr, self.sums, self.first_bad = step, lr, sums, first_bad
        self.config, self.batch_size, self.sizes = config, batch_size, sizes
        self.huber = float(head.huber)
        self.nets = 3 if bootstrap is double_target else 2
        self.plan = plan or choose_update_plan(sizes, batch_size)
        self._kernels: Any = importlib.import_module("flashdqn.training.backends.cuda.kernels")
        self._cut()
        self._allocate(flat.device)

    @staticmethod
    def fits(
        network: nn.Module, head: Head, bootstrap: Bootstrap, config: LearnConfig, batch_size: int
    ) -> bool:
        """Whether the kernels can do this; whether they can run here is `fused_available`'s business."""
        return (
            mlp_sizes(network) is not None
            and type(head) is ScalarHead
            and (bootstrap is greedy_target or bootstrap is double_target)
            and config.method == "replay"
            and config.optimizer in ("adam", "adamw")
            and batch_size > 0
        )

    def _cut(self) -> None:
        """Blocks that fit the matrices, and how many programs that makes."""
        plan, sizes, h1, h2 = self.plan, self.sizes, self.sizes.hidden1, self.sizes.hidden2
        self.tiles = _divide_up(self.batch_size, plan.rows)
        columns = min(plan.columns, h2)
        self.slices = 0 if plan.joint else h2 // columns
        r1, i1, j1 = plan.block1[0], min(plan.block1[1], h1), min(plan.block1[2], h2)
        r2, j2, i2 = plan.block2[0], min(plan.block2[1], h2), min(plan.block2[2], h1)
        r3, j3 = plan.block3[0], min(plan.block3[1], h2)
        block = max(r1, r2, r3)
        length = _divide_up(_divide_up(self.batch_size, plan.chunks), block) * block
        self.chunks = _divide_up(self.batch_size, length)
        self.tasks = h1 // i1 + (h2 // j2) * (h1 // i2) + h2 // j3
        self.parts = self.tiles if plan.joint else self.chunks
        self.stride = _divide_up(sizes.parameters, 128) * 128
        self.squares_count = (
            self.tasks if self.chunks == 1 else _divide_up(sizes.parameters, plan.reduce_size)
        )
        common: dict[str, Any] = sizes.constants() | {
            "B": self.batch_size, "NETS": self.nets, "PRECISION": plan.precision, "PDL": plan.pdl,
        }  # fmt: skip
        self.forward_constants = common | {
            "R": plan.rows, "COLUMNS": columns, "DEPTH": min(plan.depth, h1),
            "num_warps": plan.forward_warps, "num_stages": plan.forward_stages,
        }  # fmt: skip
        if plan.joint:
            self.forward_constants["HUBER"] = self.huber
        else:
            self.forward_constants["AQ"] = _power_of_two(sizes.actions)
        self.gradient_constants = common | {
            "AQ": _power_of_two(sizes.actions), "STRIDE": self.stride, "SLICES": self.slices, "HUBER": self.huber,
            "CHUNKS": self.chunks, "LENGTH": length, "R1": r1, "I1": i1, "J1": j1, "R2": r2, "J2": j2, "I2": i2,
            "R3": r3, "J3": j3, "num_warps": plan.gradient_warps, "num_stages": plan.gradient_stages,
        }  # fmt: skip

    def _allocate(self, device: torch.device) -> None:
        """Everything that passes from one kernel to the next."""

        def empty(*shape: int) -> Tensor:
            return torch.empty(shape, device=device)

        batch, actions = self.batch_size, _power_of_two(self.sizes.actions)
        self.values = empty(self.nets * max(1, self.slices), batch, actions)
        self.h2s = empty(batch, self.sizes.hidden2)
        self.slopes, self.priority = empty(batch), empty(batch)
        self.parts_sums = empty(self.parts, 2)
        self.grads = empty(self.chunks, self.stride)
        self.grad = empty(self.stride) if self.chunks > 1 else self.grads
        self.squares = empty(self.squares_count)
        self.corrections = empty(2)

    def __call__(self, batch: Batch) -> Tensor:
        """One update in place; returns the samples' priorities, [B], in a buffer that the next call overwrites."""
        obs, next_obs = batch.transition.obs, batch.transition.next_obs
        if obs.dtype not in (torch.float32, torch.uint8) or len(obs) != self.batch_size:
            raise ValueError(
                f"Expected {self.batch_size} observations in float32 or uint8, and got {obs.shape}."
            )
        if not (obs.is_contiguous() and next_obs.is_contiguous()):
            raise ValueError("FusedUpdate needs contiguous observations.")
        self.forward(batch)
        self.gradient(batch)
        if self.chunks > 1:
            self.reduce()
        self.adam()
        return self.priority

    def forward(self, batch: Batch) -> None:
        """First kernel: action values, of every network; for large batches also the TD error."""
        (obs, action, reward, discount, next_obs, next_mask, *_), weight, *_ = batch
        options = self.forward_constants | self._launch()
        if self.plan.joint:
            self._kernels.forward_joint[(self.tiles,)](
                self.flat, self.target_flat, obs, action, reward, discount, next_obs, _mask_bytes(next_mask, obs),
                weight, self.h2s, self.slopes, self.priority, self.parts_sums, self.step, self.corrections,
                BYTES=obs.dtype == torch.uint8, MASKED=next_mask is not None, **options,
            )  # fmt: skip
        else:
            self._kernels.forward_split[(self.tiles * self.nets * self.slices,)](
                self.flat, self.target_flat, obs, next_obs, self.values, self.h2s, self.step, self.corrections,
                BYTES=obs.dtype == torch.uint8, **options,
            )  # fmt: skip

    def gradient(self, batch: Batch) -> None:
        """Second kernel: the gradient, or one for each chunk of rows."""
        (obs, action, reward, discount, _, next_mask, *_), weight, *_ = batch
        options = self.gradient_constants | self._launch()
        self._kernels.gradient[(self.tasks * self.chunks,)](
            self.flat, obs, action, reward, discount, _mask_bytes(next_mask, obs), weight, self.values, self.h2s,
            self.slopes, self.priority, self.parts_sums, self.grads, self.squares,
            BYTES=obs.dtype == torch.uint8, MASKED=next_mask is not None, **options,
        )  # fmt: skip

    def reduce(self) -> None:
        """Third kernel, where there are chunks: their sum."""
        self._kernels.reduce[(self.squares_count,)](
            self.grads, self.grad, self.squares, P=self.sizes.parameters, STRIDE=self.stride, CHUNKS=self.chunks,
            SIZE=self.plan.reduce_size, PDL=self.plan.pdl, num_warps=4, **self._launch(),
        )  # fmt: skip

    def adam(self) -> None:
        """Last kernel: clipping, Adam, the target network and the statistics."""
        config, plan = self.config, self.plan
        self._kernels.adam[(_divide_up(self.sizes.parameters, plan.adam_size),)](
            self.flat, self.target_flat, self.exp_avg, self.exp_avg_sq, self.grad, self.squares, self.parts_sums,
            self.corrections, self.step, self.lr, self.sums, self.first_bad,
            P=self.sizes.parameters, SQUARES=self.squares_count, SQUARES_P=_power_of_two(self.squares_count),
            PARTS=self.parts, PARTS_P=_power_of_two(self.parts), EPS=float(config.adam_eps),
            DECAY=float(config.weight_decay), CLIP=float(config.grad_clip),
            TAU=float(config.target_tau) if config.target_every == 0 else 0.0,
            SIZE=plan.adam_size, PDL=plan.pdl, num_warps=plan.adam_warps, **self._launch(),
        )  # fmt: skip

    def _launch(self) -> dict[str, bool]:
        return {"launch_pdl": True} if self.plan.pdl else {}


@dataclass(frozen=True)
class PolicyPlan:
    """How the actions are cut up."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    precision: str = "tf32"


def choose_policy_plan(sizes: Sizes, num_envs: int) -> PolicyPlan:
    """By the number of environments; as above, many inputs leave less room."""
    if sizes.inputs > 64:
        return PolicyPlan(rows=32, columns=128, depth=32, warps=4, stages=2)
    if num_envs >= 8192:
        return PolicyPlan(rows=128, columns=256, depth=32, warps=8, stages=3)
    if num_envs >= 2048:
        return PolicyPlan(rows=32, columns=256, depth=32, warps=8, stages=3)
    return PolicyPlan(rows=16, columns=256, depth=64, warps=8, stages=3)


class FusedPolicy:
    """ε-greedy actions of the same MLP in one kernel."""

    def __init__(self, online: QNetwork, num_envs: int, plan: PolicyPlan | None = None) -> None:
        sizes = mlp_sizes(online)
        if sizes is None:
            raise ValueError("FusedPolicy needs a plain MLP of two hidden layers.")
        self.flat, self.sizes, self.num_envs = flat_view(online), sizes, num_envs
        self.plan = plan or choose_policy_plan(sizes, num_envs)
        self.action = torch.zeros(num_envs, dtype=torch.int64, device=self.flat.device)
        self._kernels: Any = importlib.import_module("flashdqn.training.backends.cuda.kernels")

    def __call__(self, obs: Tensor, mask: Tensor | None, eps: Tensor, coin: Tensor, luck: Tensor) -> Tensor:
        """The best legal action or, where coin < ε, the ⌊luck · legal⌋-th legal one: [N], overwritten each time."""
        plan = self.plan
        self._kernels.act[(_divide_up(self.num_envs, plan.rows),)](
            self.flat, obs, _mask_bytes(mask, obs), eps, coin, luck, self.action,
            N=self.num_envs, BYTES=obs.dtype == torch.uint8, MASKED=mask is not None, R=plan.rows,
            COLUMNS=min(plan.columns, self.sizes.hidden2), DEPTH=min(plan.depth, self.sizes.hidden1),
            PRECISION=plan.precision, num_warps=plan.warps, num_stages=plan.stages, **self.sizes.constants(),
        )  # fmt: skip
        return self.action


def _mask_bytes(mask: Tensor | None, instead: Tensor) -> Tensor:
    """A mask as bytes; where there is none, any tensor, which will not be read."""
    return instead if mask is None else mask.view(torch.uint8)


def _divide_up(number: int, by: int) -> int:
    return -(-number // by)


def _power_of_two(number: int) -> int:
    """The least power of two that is no smaller."""
    return 1 << (number - 1).bit_length()
