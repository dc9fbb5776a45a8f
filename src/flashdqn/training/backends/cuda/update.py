"""One gradient step of a plain two-layer MLP in three kernels.

A small network's update is a chain of tiny operations, and on a GPU each one costs microseconds, whatever its size.
Here the chain has three kernels, four for large batches: forward passes of all networks (`kernel_forward.py`), the
gradient and its sum over chunks of rows (`kernel_gradient.py`), and clipping, Adam and the target network
(`kernel_adam.py`).

The kernels need CUDA and Triton, which is imported only when used; or Triton's interpreter (TRITON_INTERPRET=1),
for tests on the CPU. Matrix products are in TF32 unless asked for "ieee".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from flashdqn.config import LearnConfig
from flashdqn.core.types import Batch
from flashdqn.learn.bootstraps import Bootstrap, double_target, greedy_target
from flashdqn.learn.heads import Head, ScalarHead
from flashdqn.networks.build import QNetwork
from flashdqn.training.backends.cuda.arguments import (
    AdamRules,
    AdamState,
    Rules,
    Statistics,
    Workspace,
    cut_forward,
    cut_gradient,
    divide_up,
    gather_samples,
    make_layout,
    power_of_two,
)
from flashdqn.training.backends.cuda.network import Sizes, flat_view, mlp_sizes
from flashdqn.training.backends.cuda.plans import UpdatePlan, choose_update_plan


class FusedUpdate:
    """One gradient step of a plain two-layer MLP in a few kernels: loss, gradient, clipping, Adam, soft target.

    Everything is changed in place: the parameters (views of `flat`), Adam's moments and `step`, the target network
    (soft updates only), `sums` (loss, mean Q(s, a), gradient norm before clipping) and, by a loss that is not
    finite, `first_bad`. A call neither allocates nor waits, so it can be captured in a CUDA graph.

    `exchange`, if given, is called with the flat gradient [P] before clipping, and changes it in place: ranks put
    their all-reduce here.
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
        exchange: Callable[[Tensor], None] | None = None,
    ) -> None:
        sizes = mlp_sizes(online)
        if sizes is None or not self.fits(online, head, bootstrap, config, batch_size):
            raise ValueError(
                "FusedUpdate does not fit this network or configuration: ask FusedUpdate.fits first."
            )
        for network, vector in ((online, flat), (target, target_flat)):
            if flat_view(network).data_ptr() != vector.data_ptr() or vector.numel() < sizes.parameters:
                raise ValueError("The parameters must be views of their flat vector, in their order.")
        from flashdqn.training.backends.cuda import (  # need Triton
            kernel_adam,
            kernel_forward,
            kernel_gradient,
        )

        self._adam, self._forward, self._gradient = kernel_adam, kernel_forward, kernel_gradient
        self.flat, self.target_flat, self.batch_size = flat, target_flat, batch_size
        self.state, self.statistics = AdamState(exp_avg, exp_avg_sq, step, lr), Statistics(sums, first_bad)
        self.huber, self.networks = float(head.huber), 3 if bootstrap is double_target else 2
        self.plan, self.exchange = plan or choose_update_plan(sizes, batch_size), exchange
        self._cut(sizes)
        self.work = self._allocate(flat.device)
        self.priority = self.work.priority
        self.adam_rules = self._make_adam_rules(config)

    @staticmethod
    def fits(
        network: nn.Module, head: Head, bootstrap: Bootstrap, config: LearnConfig, batch_size: int
    ) -> bool:
        """Whether the kernels can do this; `fused_available` says whether they can run here."""
        return (
            mlp_sizes(network) is not None
            and type(head) is ScalarHead
            and (bootstrap is greedy_target or bootstrap is double_target)
            and config.method == "replay"
            and config.optimizer in ("adam", "adamw")
            and batch_size > 0
        )

    def _cut(self, sizes: Sizes) -> None:
        """Blocks that fit the matrices, and how many programs that makes."""
        plan = self.plan
        self.layout = make_layout(sizes)
        self.tile, self.tiles = cut_forward(plan, sizes), cut_gradient(plan, sizes, self.batch_size)
        self.chunks = self.tiles.chunks
        self.row_tiles = divide_up(self.batch_size, plan.rows)
        self.slices = 0 if plan.joint else sizes.hidden2 // self.tile.columns
        self.parts = self.row_tiles if plan.joint else self.chunks
        self.reduce_programs = divide_up(sizes.parameters, plan.reduce_size)
        # one chunk: each task of the gradient has its own squares, unless the exchange makes them worthless
        by_task = self.chunks == 1 and self.exchange is None
        self.squares = self.tiles.tasks if by_task else self.reduce_programs

    def _allocate(self, device: torch.device) -> Workspace:
        """Everything that passes from one kernel to the next."""

        def empty(*shape: int) -> Tensor:
            return torch.empty(shape, device=device)

        rows, layout, tiles = self.batch_size, self.layout, self.tiles
        gradients = empty(self.chunks, tiles.stride)
        return Workspace(
            value_parts=empty(self.networks * max(1, self.slices), rows, layout.value_columns),
            hidden2=empty(rows, layout.hidden2),
            slopes=empty(rows),
            priority=empty(rows),
            part_sums=empty(self.parts, 2),
            gradients=gradients,
            gradient=empty(tiles.stride) if self.chunks > 1 else gradients[0],
            squares=empty(max(self.squares, tiles.tasks)),
            corrections=empty(2),
        )

    def _make_adam_rules(self, config: LearnConfig) -> AdamRules:
        return AdamRules(
            self.layout.parameters,
            self.plan.adam_size,
            eps=float(config.adam_eps),
            decay=float(config.weight_decay),
            clip=float(config.grad_clip),
            tau=float(config.target_tau) if config.target_every == 0 else 0.0,
            squares=self.squares,
            padded_squares=power_of_two(self.squares),
            parts=self.parts,
            padded_parts=power_of_two(self.parts),
        )

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
        if self.exchange is not None:
            self.exchange(self.work.gradient[: self.layout.parameters])
            self.square_again()
        self.adam()
        return self.priority

    def forward(self, batch: Batch) -> None:
        """First kernel: action values, of every network; for large batches also the TD error."""
        plan = self.plan
        joint, split = self._forward.forward_joint, self._forward.forward_split
        programs = self.row_tiles * (1 if plan.joint else self.networks * self.slices)
        (joint if plan.joint else split)[(programs,)](
            self.flat, self.target_flat, gather_samples(batch), self.work, self.state.step,
            self.layout, self._rules(batch), self.tile, plan.pdl,
            num_warps=plan.forward_warps, num_stages=plan.forward_stages, **self._launch(),
        )  # fmt: skip

    def gradient(self, batch: Batch) -> None:
        """Second kernel: the gradient, or one for each chunk of rows."""
        plan = self.plan
        self._gradient.gradient_kernel[(self.tiles.tasks * self.chunks,)](
            self.flat, gather_samples(batch), self.work, self.layout, self._rules(batch), self.tiles, plan.pdl,
            num_warps=plan.gradient_warps, num_stages=plan.gradient_stages, **self._launch(),
        )  # fmt: skip

    def reduce(self) -> None:
        """Third kernel, if there are several chunks: their sum."""
        self._reduce(self.work.gradients, self.chunks)

    def square_again(self) -> None:
        """After an exchange: the sums of squares of the gradient as it is now, by the same kernel, in place."""
        self._reduce(self.work.gradient, 1)

    def _reduce(self, gradients: Tensor, chunks: int) -> None:
        self._gradient.reduce_gradients[(self.reduce_programs,)](
            gradients, self.work.gradient, self.work.squares, self.layout.parameters, self.tiles.stride, chunks,
            self.plan.reduce_size, self.plan.pdl, num_warps=4, **self._launch(),
        )  # fmt: skip

    def adam(self) -> None:
        """Last kernel: clipping, Adam, the target network and the statistics."""
        plan, rules = self.plan, self.adam_rules
        self._adam.adam_kernel[(divide_up(rules.parameters, rules.size),)](
            self.flat, self.target_flat, self.state, self.work, self.statistics, rules, plan.pdl,
            num_warps=plan.adam_warps, **self._launch(),
        )  # fmt: skip

    def _rules(self, batch: Batch) -> Rules:
        obs, masked = batch.transition.obs, batch.transition.next_mask is not None
        return Rules(
            self.batch_size, obs.dtype == torch.uint8, masked, self.plan.precision,
            self.networks, self.huber, self.slices,
        )  # fmt: skip

    def _launch(self) -> dict[str, Any]:
        return {"launch_pdl": True} if self.plan.pdl else {}
