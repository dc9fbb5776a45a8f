"""Written by hand for CUDA: acting, recording and picking in one kernel each, a group of updates in one or an
update in three. What a kernel does not support, PyTorch compiles."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from flashdqn.compute.graphs import compiler_missing
from flashdqn.compute.nvrtc import explain_missing_nvrtc
from flashdqn.compute.tool_caches import guard_tool_cache
from flashdqn.core.types import Batch, Step
from flashdqn.replay.samplers import Pick
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.compiler import Compiler
from flashdqn.training.backends.cuda.acting import ActingKernel, list_matrices
from flashdqn.training.backends.cuda.network import fused_available, mlp_sizes
from flashdqn.training.backends.cuda.picking import PickingKernel, can_pick
from flashdqn.training.backends.cuda.policy import FusedPolicy
from flashdqn.training.backends.cuda.recording import RecordingKernel
from flashdqn.training.backends.cuda.resident import ResidentUpdates
from flashdqn.training.backends.cuda.update import FusedUpdate

#: Chooses actions from observations, masks, ε and random numbers.
Act = Callable[[Tensor, Tensor | None, Tensor, Tensor], Tensor]
#: Stores actions, the step that they led to, and the outcomes.
Record = Callable[[Tensor, Step, Tensor], None]
#: The largest group that the engine asks for, see `flashdqn.training.engine.GROUP`.
LARGEST_GROUP = 16
#: From here on the three kernels are preferred: they were tuned for large batches. Compare: benchmarks/resident.py.
LARGE_BATCH = 256
#: From here on acting needs matrix units.
MANY_BOARDS = 1024


class CudaBackend:
    """MLPs of one to four hidden layers with a scalar head, greedy or double."""

    def __init__(self, parts: Parts, compiler: Compiler) -> None:
        guard_tool_cache("triton")
        self.parts = parts
        self._resident = ResidentUpdates(parts, LARGEST_GROUP) if prefers_resident(parts) else None
        self._fused = None if self._resident is not None else build_fused_update(parts)
        self._act = choose_acting(parts, compiler)
        self._record: Record = parts.collector.record
        compiles = compiler_missing(parts.learner.device) is None
        self.compiles_recording = compiles and not can_record(parts)
        if can_record(parts):
            self._record = RecordingKernel(parts)
        elif compiles:
            self._record = compiler.compile("record", self._record)
        self._pick = choose_picking(parts, compiler)

    @classmethod
    def fits(cls, parts: Parts) -> str | None:
        """None if the kernels support these parts; else why not."""
        learner = parts.learner
        if parts.demonstrations is not None:
            return "the hand-written update does not support demonstrations that are kept"
        if parts.ring.elapsed is not None:
            return "the hand-written kernels discount every step alike, and these steps take different times"
        if parts.collector.branches is not None:
            return "the hand-written kernels do not support actions in branches"
        if learner.own_adam is None:
            return "the hand-written update does not support your own optimizer"
        if learner.precision != "fp32":
            return "the hand-written update computes only in fp32"
        return None if fits_fused(parts) else ResidentUpdates.fits(parts)

    def act(self, obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor) -> Tensor:
        """The network's choice, or a random one, in one kernel where there is one for this network."""
        return self._act(obs, mask, eps, luck)

    def record(self, action: Tensor, step: Step, outcomes: Tensor) -> None:
        """Store the step, in one kernel, or compiled if there is a compiler."""
        self._record(action, step, outcomes)

    def sample(self, count: int) -> list[Batch]:
        """Batches that are drawn together."""
        return self.parts.sampler.batches(count, self.parts.config.update_size, self._pick)

    def update(self, batches: list[Batch]) -> None:
        """One kernel for all batches, or a few for each."""
        sampler = self.parts.sampler
        if self._resident is not None:
            priorities = self._resident.learn_from(batches)
            for batch, priority in zip(batches, priorities, strict=True):
                sampler.update(batch.index, priority)
            return
        assert self._fused is not None
        for batch in batches:
            sampler.update(batch.index, self._fused(batch))


def can_record(parts: Parts) -> bool:
    """Whether the recording kernel knows this ring, and can be compiled."""
    return RecordingKernel.fits(parts.ring) and explain_missing_nvrtc() is None


def choose_acting(parts: Parts, compiler: Compiler) -> Act:
    """The fastest way to choose actions: kernels for few boards or for many, else compiled by PyTorch."""
    online, act = parts.learner.online, parts.collector.act
    if suits_acting_kernel(parts):
        return ActingKernel(parts)
    if mlp_sizes(online) is not None and fused_available():
        policy = FusedPolicy(online, parts.config.envs)  # type: ignore[arg-type]
        return lambda obs, mask, eps, luck: policy(obs, mask, eps, *luck)
    return act if compiler_missing(parts.learner.device) else compiler.compile("act", act)


def suits_acting_kernel(parts: Parts) -> bool:
    """Whether `ActingKernel` knows the network, and is the fastest: for many boards, matrix units are."""
    online = parts.learner.online
    many = parts.config.envs >= MANY_BOARDS and mlp_sizes(online) is not None and fused_available()
    return list_matrices(online) is not None and not many and explain_missing_nvrtc() is None


def choose_picking(parts: Parts, compiler: Compiler) -> Pick | None:
    """The fastest way to pick samples; None if they are not drawn uniformly."""
    uniform = parts.sampler.uniform
    if uniform is None:
        return None
    if can_pick(parts.ring):
        return PickingKernel(uniform)
    return uniform.pick if compiler_missing(parts.learner.device) else compiler.compile("pick", uniform.pick)


def fits_fused(parts: Parts) -> bool:
    """Whether the three kernels can do these updates here."""
    learner, config = parts.learner, parts.config
    size = config.update_size
    return fused_available() and FusedUpdate.fits(
        learner.online, learner.head, learner.bootstrap, config.learn, size
    )


def prefers_resident(parts: Parts) -> bool:
    """Whether one kernel for a group of updates is possible, and the faster way (benchmarks/resident.py)."""
    if ResidentUpdates.fits(parts) is not None:
        return False
    return parts.config.update_size < LARGE_BATCH or not fits_fused(parts)


def build_fused_update(parts: Parts) -> FusedUpdate:
    """The whole gradient step in a few kernels, on the learner's own tensors."""
    learner, config, adam = parts.learner, parts.config, parts.learner.own_adam
    assert adam is not None  # `fits` refuses the others
    dense = learner.flat.without_tail  # there is no other padding, because all widths are multiples of 16
    return FusedUpdate(
        learner.online,  # type: ignore[arg-type]
        learner.target,  # type: ignore[arg-type]
        flat=dense(learner.flat.values),
        target_flat=dense(learner.target_flat.values),
        exp_avg=dense(adam.first),
        exp_avg_sq=dense(adam.second),
        step=adam.steps,
        lr=learner.lr,
        sums=learner.sums,
        first_bad=learner.watch.first_bad,
        head=learner.head,  # type: ignore[arg-type]
        bootstrap=learner.bootstrap,
        config=config.learn,
        batch_size=config.update_size,
        exchange=parts.exchange,
    )
