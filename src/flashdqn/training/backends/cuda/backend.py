"""Written by hand for CUDA: acting in one kernel, an update in three; recording and picking compiled by PyTorch."""

from __future__ import annotations

from torch import Tensor

from flashdqn.compute.graphs import compiler_missing
from flashdqn.compute.tool_caches import guard_tool_cache
from flashdqn.core.types import Batch, Step
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.compiler import Compiler
from flashdqn.training.backends.cuda.network import fused_available
from flashdqn.training.backends.cuda.policy import FusedPolicy
from flashdqn.training.backends.cuda.update import FusedUpdate


class CudaBackend:
    """MLPs of two hidden layers with a scalar head, greedy or double."""

    def __init__(self, parts: Parts, compiler: Compiler) -> None:
        guard_tool_cache("triton")
        self.parts, uniform = parts, parts.sampler.uniform
        self._policy = FusedPolicy(parts.learner.online, parts.config.envs)  # type: ignore[arg-type]
        self._update = build_fused_update(parts)
        self._record, self._pick = parts.collector.record, None if uniform is None else uniform.pick
        self.compiles_recording = compiler_missing(parts.learner.device) is None
        if self.compiles_recording:
            self._record = compiler.compile("record", self._record)
            self._pick = None if self._pick is None else compiler.compile("pick", self._pick)

    @classmethod
    def fits(cls, parts: Parts) -> str | None:
        """None if the kernels support these parts; else why not."""
        learner, config = parts.learner, parts.config
        if parts.demonstrations is not None:
            return "the hand-written update does not support demonstrations that are kept"
        if parts.collector.branches is not None:
            return "the hand-written kernels do not support actions in branches"
        if learner.own_adam is None:
            return "the hand-written update does not support your own optimizer"
        if learner.precision != "fp32":
            return "the hand-written update computes only in fp32"
        if not FusedUpdate.fits(
            learner.online, learner.head, learner.bootstrap, config.learn, config.update_size
        ):
            return "the hand-written kernels are for MLPs of two layers with a scalar head, greedy or double"
        return None if fused_available() else "there is no Triton, or the GPU is too old for it"

    def act(self, obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor) -> Tensor:
        """The network's choice, or a random one, in one kernel."""
        return self._policy(obs, mask, eps, *luck)

    def record(self, action: Tensor, step: Step, outcomes: Tensor) -> None:
        """Store the step, compiled if there is a compiler."""
        self._record(action, step, outcomes)

    def sample(self, count: int) -> list[Batch]:
        """Batches that are drawn together."""
        return self.parts.sampler.batches(count, self.parts.config.update_size, self._pick)

    def update(self, batches: list[Batch]) -> None:
        """A few kernels for each batch."""
        sampler = self.parts.sampler
        for batch in batches:
            sampler.update(batch.index, self._update(batch))


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
