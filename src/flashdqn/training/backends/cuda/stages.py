"""From a batch to the flat gradient: the kernels of an update before Adam, for small batches and for large ones.

Both classes leave the same things in `work`: the gradient, sums of its squares, priorities, and sums of loss and Q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flashdqn.core.types import Batch
from flashdqn.training.backends.cuda.arguments import (
    JointWorkspace,
    Rules,
    Workspace,
    cut_forward,
    cut_gradient,
    cut_joint,
    cut_products,
    divide_up,
    gather_samples,
    make_layout,
)
from flashdqn.training.backends.cuda.network import Sizes
from flashdqn.training.backends.cuda.plans import UpdatePlan


@dataclass(frozen=True)
class StageTask:
    """What is computed, and by which plan."""

    sizes: Sizes
    batch_size: int
    networks: int  # forward passes: 2 or 3
    huber: float
    plan: UpdatePlan
    flat: Tensor
    target: Tensor
    step: Tensor

    def rules(self, batch: Batch, slices: int = 0, stride: int = 0) -> Rules:
        """The constants of a kernel for such a batch."""
        obs, masked = batch.transition.obs, batch.transition.next_mask is not None
        return Rules(
            self.batch_size, obs.dtype == torch.uint8, masked, self.plan.precision,
            self.networks, self.huber, slices, stride,
        )  # fmt: skip

    def empty(self, *shape: int) -> Tensor:
        """A buffer."""
        return torch.empty(shape, device=self.flat.device)

    def launch(self) -> dict[str, Any]:
        """Options of every launch."""
        return {"launch_pdl": True} if self.plan.pdl else {}


class SplitStages:
    """Small batches: each network by slices of its units, then the gradient by parts of its matrices."""

    def __init__(self, task: StageTask, exchanged: bool) -> None:
        from flashdqn.training.backends.cuda import kernel_forward, kernel_gradient  # need Triton

        self._forward, self._gradient, self.task = kernel_forward, kernel_gradient, task
        sizes, plan = task.sizes, task.plan
        self.layout, self.tile = make_layout(sizes), cut_forward(plan, sizes)
        self.tiles = cut_gradient(plan, sizes, task.batch_size)
        self.chunks = self.parts = self.tiles.chunks
        self.row_tiles = divide_up(task.batch_size, plan.rows)
        self.slices = sizes.hidden2 // self.tile.columns
        self.reduce_programs = divide_up(sizes.parameters, plan.reduce_size)
        # one chunk: each task of the gradient has its own squares, unless the exchange makes them worthless
        self.squares = self.tiles.tasks if self.chunks == 1 and not exchanged else self.reduce_programs
        self.work = self._allocate()

    def _allocate(self) -> Workspace:
        empty, rows, layout, tiles = self.task.empty, self.task.batch_size, self.layout, self.tiles
        gradients = empty(self.chunks, tiles.stride)
        return Workspace(
            value_parts=empty(self.task.networks * self.slices, rows, layout.value_columns),
            hidden2=empty(rows, layout.hidden2),
            priority=empty(rows),
            part_sums=empty(self.parts, 2),
            gradients=gradients,
            gradient=empty(tiles.stride) if self.chunks > 1 else gradients[0],
            squares=empty(max(self.squares, tiles.tasks)),
            corrections=empty(2),
        )

    def compute(self, batch: Batch) -> None:
        """The gradient, by two kernels, or three if there are several chunks."""
        self.forward(batch)
        self.gradient(batch)
        if self.chunks > 1:
            self.reduce()

    def forward(self, batch: Batch) -> None:
        """First kernel: action values, of every network."""
        task, plan = self.task, self.task.plan
        self._forward.forward_split[(self.row_tiles * task.networks * self.slices,)](
            task.flat, task.target, gather_samples(batch), self.work, task.step,
            self.layout, task.rules(batch, self.slices), self.tile, plan.pdl,
            num_warps=plan.forward_warps, num_stages=plan.forward_stages, **task.launch(),
        )  # fmt: skip

    def gradient(self, batch: Batch) -> None:
        """Second kernel: the gradient, or one for each chunk of rows."""
        task, plan = self.task, self.task.plan
        self._gradient.gradient_kernel[(self.tiles.tasks * self.chunks,)](
            task.flat, gather_samples(batch), self.work,
            self.layout, task.rules(batch, self.slices), self.tiles, plan.pdl,
            num_warps=plan.gradient_warps, num_stages=plan.gradient_stages, **task.launch(),
        )  # fmt: skip

    def reduce(self) -> None:
        """Third kernel, if there are several chunks: their sum."""
        self._reduce(self.work.gradients, self.chunks)

    def square_again(self) -> None:
        """After an exchange: the sums of squares of the gradient as it is now, by the same kernel, in place."""
        self._reduce(self.work.gradient, 1)

    def _reduce(self, gradients: Tensor, chunks: int) -> None:
        plan = self.task.plan
        self._gradient.reduce_gradients[(self.reduce_programs,)](
            gradients, self.work.gradient, self.work.squares, self.layout.parameters, self.tiles.stride, chunks,
            plan.reduce_size, plan.pdl, num_warps=4, **self.task.launch(),
        )  # fmt: skip


class JointStages:
    """Large batches: rows through all networks in one kernel, and back in another; ∂W2 as one matrix product."""

    TRANSPOSED = 32  # the tile of a transposition
    SMALL = 32  # numbers of the small gradients that one program adds up

    def __init__(self, task: StageTask) -> None:
        from flashdqn.training.backends.cuda import kernel_gradient, kernel_joint  # need Triton

        self._gradient, self._joint, self.task = kernel_gradient, kernel_joint, task
        sizes, plan = task.sizes, task.plan
        self.layout, self.tile = make_layout(sizes), cut_joint(plan, sizes)
        self.parts = divide_up(task.batch_size, plan.rows)
        self.stride = self.parts * plan.rows
        self.tiles = cut_products(plan, sizes, self.stride)
        small = divide_up(self.layout.small_parameters, self.SMALL)
        self.squares = self.tiles.product_programs + small
        self.work = self._allocate()

    def _allocate(self) -> JointWorkspace:
        empty, rows, layout = self.task.empty, self.task.batch_size, self.layout
        h1, h2 = layout.hidden1, layout.hidden2
        return JointWorkspace(
            hidden1=empty(h1, self.stride),
            hidden2=empty(self.stride, h2),
            slopes2=empty(h2, self.stride),
            weight2=empty(h1, h2),
            priority=empty(rows),
            part_sums=empty(self.parts, 2),
            gradients=empty(self.parts, layout.small_stride),
            products=empty(self.tiles.chunks, h2 * h1),
            gradient=empty(layout.parameters),
            squares=empty(self.squares),
            corrections=empty(2),
        )

    def compute(self, batch: Batch) -> None:
        """The gradient, by five kernels."""
        self.transpose()
        self.forward(batch)
        self.backward(batch)
        self.gradient(batch)
        self.reduce()

    def transpose(self) -> None:
        """First kernel: W2 as the way back wants it."""
        plan, size, layout = self.task.plan, self.TRANSPOSED, self.layout
        self._joint.transpose_second_weights[(layout.hidden1 * layout.hidden2 // size**2,)](
            self.task.flat, self.work.weight2, layout, size, plan.pdl, num_warps=4, **self.task.launch()
        )

    def forward(self, batch: Batch) -> None:
        """Second kernel: rows through all networks, to the slope of the second hidden layer."""
        task, plan = self.task, self.task.plan
        self._joint.joint_forward[(self.parts,)](
            task.flat, task.target, gather_samples(batch), self.work, task.step,
            self.layout, task.rules(batch, stride=self.stride), self.tile, plan.pdl,
            num_warps=plan.forward_warps, num_stages=plan.forward_stages, **task.launch(),
        )  # fmt: skip

    def backward(self, batch: Batch) -> None:
        """Third kernel: the slope of the first hidden layer, and W1's gradient."""
        task, plan = self.task, self.task.plan
        self._joint.joint_backward[(self.parts * (self.layout.hidden1 // self.tile.units),)](
            task.flat, batch.transition.obs, self.work,
            self.layout, task.rules(batch, stride=self.stride), self.tile, plan.pdl,
            num_warps=plan.gradient_warps, num_stages=plan.gradient_stages, **task.launch(),
        )  # fmt: skip

    def gradient(self, batch: Batch) -> None:
        """Fourth kernel: W2's gradient."""
        task, plan = self.task, self.task.plan
        self._joint.joint_product[(self.tiles.tiles * self.tiles.chunks,)](
            self.work, self.layout, task.rules(batch, stride=self.stride), self.tiles, plan.pdl,
            num_warps=plan.gradient_warps, num_stages=plan.gradient_stages, **task.launch(),
        )  # fmt: skip

    def reduce(self) -> None:
        """Fifth kernel: sums over row tiles and chunks."""
        plan = self.task.plan
        self._joint.joint_reduce[(self.squares,)](
            self.work, self.layout, self.tiles, self.parts, plan.reduce_size, self.SMALL, plan.pdl,
            num_warps=4, **self.task.launch(),
        )  # fmt: skip

    def square_again(self) -> None:
        """After an exchange: the sums of squares of the gradient as it is now."""
        plan, parameters = self.task.plan, self.layout.parameters
        self.work.squares.zero_()
        self._gradient.reduce_gradients[(divide_up(parameters, plan.reduce_size),)](
            self.work.gradient, self.work.gradient, self.work.squares, parameters, parameters, 1,
            plan.reduce_size, plan.pdl, num_warps=4, **self.task.launch(),
        )  # fmt: skip
