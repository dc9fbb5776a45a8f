"""A group of gradient steps of a small MLP in one launch: weights and moments stay on the chip in between.

An update of a small network is a chain of tiny products, and each kernel in that chain would cost microseconds
whatever its size. Here the blocks of one kernel own tiles of the weights, and go through all updates together. The
kernel is CUDA C++ in `source/`, compiled at run time for exactly these sizes (`resident_layout.py`). It also draws
the samples: from random numbers to transitions, straight out of the ring.

Matrix products are in TF32: factors are rounded to ten bits, sums are float32.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from flashdqn.compute.nvrtc import CompiledCuda, explain_missing_nvrtc
from flashdqn.core.types import Batch
from flashdqn.learn.bootstraps import double_target, greedy_target
from flashdqn.learn.heads import ScalarHead
from flashdqn.networks.build import QNetwork
from flashdqn.networks.torsos import MLP
from flashdqn.replay.samplers import TRIES
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.cuda.resident_layout import (
    MOST_LAYERS,
    SHARED_BYTES,
    Cut,
    Network,
    ResidentLayout,
    UpdateTask,
)

#: The kernel's source, in the order in which its parts need each other.
SOURCES = (
    *("device.cuh", "network.cuh", "sampling.cuh", "layers.cuh", "learning.cuh", "adam.cuh"),
    "resident.cu",
)
WIDEST, MOST_INPUTS, MOST_ACTIONS, LARGEST_BATCH = 1024, 1024, 64, 4096
#: Where samples come from: drawn in the kernel, given places in the ring, or given batches.
DRAWN, PLACES, BATCHES = 0, 1, 2

ARGUMENTS = (
    *("online", "target", "first", "second", "steps", "rate", "sums", "first_bad", "priority"),
    *("obs", "next_obs", "action", "reward", "discount", "weight", "powers", "kind", "mask"),
    *("head", "filled", "bits", "index", "due", "scratch", "counter", "times"),
)


class KernelArguments(ctypes.Structure):
    """What the kernel is given, as `struct Arguments` in source/network.cuh: addresses only."""

    _fields_ = [(name, ctypes.c_void_p) for name in ARGUMENTS]


class LaunchedKernel(Protocol):
    """A compiled kernel: `flashdqn.compute.nvrtc.CompiledCuda`, or in tests one that a C++ compiler made."""

    def __call__(self, blocks: int, threads: int, arguments: Any) -> None:
        """Launch it."""


class ResidentUpdates:
    """Gradient steps on the learner of these parts, in place, up to `most` in one launch.

    Parameters, target, Adam's moments and step count, statistics and `first_bad` change as by `Learner.step`.
    Where the kernel reads the ring itself, it also copies into the target when the step count says so. Nothing is
    allocated, and nothing waits for the device: a CUDA graph can hold a launch. The host's part
    (`Learner.counted`) is left to the caller.
    """

    def __init__(
        self,
        parts: Parts,
        most: int,
        cut: Cut | None = None,
        load: Callable[..., LaunchedKernel] = CompiledCuda,
    ) -> None:
        self.parts, self.most, self._load = parts, most, load
        self.network = read_network(parts)
        self.task = describe_task(parts, most)
        self.cut = cut or choose_cut(self.network, self.task, count_multiprocessors(parts.learner.device))
        self.batch, device = self.task.batch, parts.learner.device
        self.layout = ResidentLayout(self.network, self.task, self.cut)
        self.scratch = torch.zeros(self.layout.scratch_floats, device=device)
        self.priority = torch.zeros((most, self.batch), device=device)
        self._counter = torch.zeros(1, dtype=torch.int32, device=device)
        self.times = torch.zeros(128, dtype=torch.int64, device=device)
        self._counts = torch.arange(most + 1, dtype=torch.int32, device=device)
        exponents = torch.arange(self.task.n_step + 1, dtype=torch.float32, device=device)
        self._powers = parts.config.learn.gamma**exponents
        self._kernels: dict[int, LaunchedKernel] = {}

    @classmethod
    def fits(cls, parts: Parts) -> str | None:
        """None if the kernel can do these parts' updates here; else why not."""
        if reason := explain_misfit(parts):
            return reason
        if parts.learner.device.type != "cuda" or torch.cuda.get_device_capability() < (8, 0):
            return "the resident update needs a GPU of compute capability 8.0 or newer"
        return explain_missing_nvrtc()

    def updates(self, bits: Tensor, due: Tensor) -> None:
        """`due[0]` updates, at most `most`. The samples are those that `bits`, int64 [TRIES, most · B], select from
        the ring."""
        if bits.shape != (TRIES, self.most * self.batch):
            raise ValueError(
                f"Expected [{TRIES}, {self.most * self.batch}] random numbers, and got {bits.shape}."
            )
        self._launch(DRAWN, self._name_ring() | {"bits": bits, "due": due})

    def updates_at(self, index: Tensor, weight: Tensor, due: Tensor) -> Tensor:
        """`due[0]` updates with transitions at these places of the ring, [most · B]; the priorities [most, B]."""
        self._launch(PLACES, self._name_ring() | {"index": index, "weight": weight, "due": due})
        return self.priority

    def learn_from(self, batches: list[Batch]) -> Tensor:
        """One update with each batch; the priorities [count, B], in a buffer that the next call overwrites.

        Batches that lie behind each other in memory, as a sampler gives them, are one launch; others one each.
        """
        count = len(batches)
        if count <= self.most and lie_behind_each_other(batches):
            self._learn_from(batches[0], count)
            return self.priority[:count]
        rows = []
        for batch in batches:
            self._learn_from(batch, 1)
            rows.append(self.priority[0].clone())
        return torch.stack(rows)

    def _learn_from(self, first: Batch, count: int) -> None:
        transition, weight, *_ = first
        given = {
            "obs": transition.obs, "next_obs": transition.next_obs, "action": transition.action,
            "reward": transition.reward, "discount": transition.discount, "mask": transition.next_mask,
            "weight": weight, "due": self._counts[count : count + 1],
        }  # fmt: skip
        self._launch(BATCHES, given)

    def _name_ring(self) -> dict[str, Tensor | None]:
        ring = self.parts.ring
        names = ("obs", "action", "reward", "kind", "mask", "head", "filled")
        return {name: getattr(ring, name) for name in names}

    def _launch(self, source: int, given: dict[str, Tensor | None]) -> None:
        learner, adam = self.parts.learner, self.parts.learner.own_adam
        assert adam is not None  # `fits` refuses the others
        own: dict[str, Tensor | None] = {
            "online": learner.flat.values, "target": learner.target_flat.values, "first": adam.first,
            "second": adam.second, "steps": adam.steps, "rate": learner.lr, "sums": learner.sums,
            "first_bad": learner.watch.first_bad, "priority": self.priority, "powers": self._powers,
            "scratch": self.scratch, "counter": self._counter, "times": self.times,
        }  # fmt: skip
        addresses = {name: x.data_ptr() for name, x in (own | given).items() if x is not None}
        if source not in self._kernels:
            self._kernels[source] = self._compile(source)
        self._kernels[source](self.cut.blocks, 32 * self.cut.warps, [KernelArguments(**addresses)])

    def _compile(self, source: int) -> LaunchedKernel:
        task = replace(
            self.task, source=source, action_bytes=8 if source == BATCHES else self.task.action_bytes
        )
        layout, cut = ResidentLayout(self.network, task, self.cut), self.cut
        return self._load(
            read_source(), "update_resident", layout.list_constants(), shared_bytes=layout.shared_bytes,
            cluster=cut.blocks if cut.cluster else 0, cooperative=not cut.cluster,
        )  # fmt: skip


def read_source() -> str:
    """The kernel's source."""
    folder = Path(__file__).parent / "source"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in SOURCES)


def explain_misfit(parts: Parts) -> str | None:
    """Why the kernel does not support these parts; None if it does."""
    learner, config, ring = parts.learner, parts.config, parts.ring
    if reason := explain_odd_network(learner.online):
        return reason
    if type(learner.head) is not ScalarHead or learner.bootstrap not in (greedy_target, double_target):
        return "the resident update is for a scalar head, greedy or double"
    if config.learn.method != "replay" or config.learn.optimizer not in ("adam", "adamw"):
        return "the resident update is for learning from replay with Adam or AdamW"
    if learner.own_adam is None:
        return "the resident update does not support your own optimizer"
    if learner.precision != "fp32":
        return "the resident update computes only in fp32"
    if parts.demonstrations is not None or parts.collector.branches is not None:
        return "the resident update does not support demonstrations that are kept, or actions in branches"
    if parts.exchange is not None:
        return "the resident update does not support an exchange of gradients between ranks"
    if ring.stack > 1 or ring.legal is not None or ring.obs.dtype not in (torch.float32, torch.uint8):
        return "the resident update reads observations in float32 or bytes as the ring stores them, without stacks"
    if config.update_size > LARGEST_BATCH:
        return f"the resident update is for batches of at most {LARGEST_BATCH:,}"
    cut = choose_cut(read_network(parts), describe_task(parts, 1), count_multiprocessors(learner.device))
    needed = ResidentLayout(read_network(parts), describe_task(parts, 1), cut).shared_bytes
    if needed > SHARED_BYTES:
        return (
            f"the resident update of this network and batch needs {needed:,} bytes of shared memory per block, and "
            f"there are {SHARED_BYTES:,}"
        )
    return None


def explain_odd_network(network: nn.Module) -> str | None:
    """Why a network is not a plain MLP that the kernel supports; None if it is."""
    plain = f"the resident update is for plain MLPs of 1 to {MOST_LAYERS} hidden layers"
    if not isinstance(network, QNetwork) or type(network.torso) is not MLP:
        return plain
    if network.decoder is not None or network.normalizer is not None:
        return f"{plain}, without a decoder or normalization of observations"
    layers = [*network.torso.layers, network.output]
    hidden = len(layers) // 2
    if not 1 <= hidden <= MOST_LAYERS or [type(x) for x in layers] != [nn.Linear, nn.ReLU] * hidden + [
        nn.Linear
    ]:
        return plain
    widths = [layer.in_features for layer in layers[::2]] + [layers[-1].out_features]
    if max(widths[1:-1]) > WIDEST or widths[0] > MOST_INPUTS or widths[-1] > MOST_ACTIONS:
        return (
            f"{plain} of at most {WIDEST} units, with at most {MOST_INPUTS} inputs and {MOST_ACTIONS} actions"
        )
    if any(layer.bias is None for layer in layers[::2]):
        return f"{plain} with biases"
    return None


def read_network(parts: Parts) -> Network:
    """The widths, and where the layers begin in the flat vector."""
    flat = parts.learner.flat
    starts = [sum(flat.padded[:k]) for k in range(len(flat.padded))]
    shapes = flat.shapes[::2]
    widths = (shapes[0][1], *(shape[0] for shape in shapes))
    return Network(tuple(widths), tuple(starts[::2]), tuple(starts[1::2]))


def describe_task(parts: Parts, most: int) -> UpdateTask:
    """What the kernel is compiled for, apart from the network, if it draws samples itself."""
    learner, ring, learn = parts.learner, parts.ring, parts.config.learn
    assert isinstance(learner.head, ScalarHead)  # `fits` refuses the others
    return UpdateTask(
        batch=parts.config.update_size, most=most, double=learner.bootstrap is double_target,
        masked=ring.mask is not None, byte_obs=ring.obs.dtype == torch.uint8,
        action_bytes=ring.action.element_size(), source=DRAWN, envs=ring.num_envs, ring_rows=ring.rows,
        n_step=parts.config.replay.n_step, tries=TRIES, huber=float(learner.head.huber),
        clip=float(learn.grad_clip), epsilon=float(learn.adam_eps), decay=float(learn.weight_decay),
        tau=float(learner.tau),
        target_every=int(learn.target_every),
    )  # fmt: skip


def choose_cut(network: Network, task: UpdateTask, multiprocessors: int = 132) -> Cut:
    """As many blocks as there is work for, but at most one for each multiprocessor; groups of units that fit into
    shared memory."""
    for group in (32, 16, 8):
        layout = ResidentLayout(network, task, Cut(1, 8, False, group=group))
        cut = Cut(max(1, min(multiprocessors, max(layout.tasks, layout.tiles))), 8, False, group=group)
        if ResidentLayout(network, task, cut).shared_bytes <= SHARED_BYTES:
            break
    return cut


def count_multiprocessors(device: torch.device) -> int:
    """Those of a GPU; elsewhere those of an H200."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 132


def lie_behind_each_other(batches: list[Batch]) -> bool:
    """Whether batches are parts of one large batch, in its order."""
    columns = zip(*((*batch.transition[:6], batch.weight) for batch in batches), strict=True)
    for column in columns:
        first = column[0]
        if first is None:
            continue
        size = first.numel() * first.element_size()
        if any(
            x.data_ptr() != first.data_ptr() + k * size or not x.is_contiguous() for k, x in enumerate(column)
        ):
            return False
    return True
