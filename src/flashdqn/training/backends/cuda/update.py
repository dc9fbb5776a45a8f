"""One gradient step of a plain two-layer MLP in three kernels.

A small network's update is a chain of tiny operations, and on a GPU each one costs microseconds, whatever its size.
Here the chain has three kernels: forward passes of all networks (`kernel_forward.py`), the gradient and its sum
over chunks of rows (`kernel_gradient.py`), and clipping, Adam and the target network (`kernel_adam.py`). Large
batches have arithmetic to do, and take six (`kernel_joint.py`).

The kernels need CUDA and Triton, which is imported only when used; or Triton's interpreter (TRITON_INTERPRET=1),
for tests on the CPU. Matrix products are in TF32 unless asked for "ieee".
"""

from __future__ import annotations

from collections.abc import Callable

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
    Statistics,
    divide_up,
    power_of_two,
)
from flashdqn.training.backends.cuda.network import flat_view, mlp_sizes
from flashdqn.training.backends.cuda.plans import UpdatePlan, choose_update_plan
from flashdqn.training.backends.cuda.stages import JointStages, SplitStages, StageTask


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
        from flashdqn.training.backends.cuda import kernel_adam  # needs Triton

        self._adam, self.exchange = kernel_adam, exchange
        self.flat, self.target_flat, self.batch_size = flat, target_flat, batch_size
        self.state, self.statistics = AdamState(exp_avg, exp_avg_sq, step, lr), Statistics(sums, first_bad)
        self.plan = plan = plan or choose_update_plan(sizes, batch_size)
        task = StageTask(
            sizes, batch_size, 3 if bootstrap is double_target else 2, float(head.huber), plan, flat, target_flat,
            step,
        )  # fmt: skip
        self.stages = JointStages(task) if plan.joint else SplitStages(task, exchange is not None)
        self.work, self.priority = self.stages.work, self.stages.work.priority
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

    def _make_adam_rules(self, config: LearnConfig) -> AdamRules:
        return AdamRules(
            self.stages.layout.parameters,
            self.plan.adam_size,
            eps=float(config.adam_eps),
            decay=float(config.weight_decay),
            clip=float(config.grad_clip),
            tau=float(config.target_tau) if config.target_every == 0 else 0.0,
            squares=self.stages.squares,
            padded_squares=power_of_two(self.stages.squares),
            parts=self.stages.parts,
            padded_parts=power_of_two(self.stages.parts),
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
        self.stages.compute(batch)
        if self.exchange is not None:
            self.exchange(self.work.gradient[: self.adam_rules.parameters])
            self.stages.square_again()
        self.adam()
        return self.priority

    def adam(self) -> None:
        """Last kernel: clipping, Adam, the target network and the statistics."""
        plan, rules = self.plan, self.adam_rules
        self._adam.adam_kernel[(divide_up(rules.parameters, rules.size),)](
            self.flat, self.target_flat, self.state, self.work, self.statistics, rules, plan.pdl,
            num_warps=plan.adam_warps, **self.stages.task.launch(),
        )  # fmt: skip
