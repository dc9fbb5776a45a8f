"""By PyTorch's own operations, one after the other: what all other backends must compute.

On the CPU recording and picking samples are compiled loops (`cpu/record.py`, `replay/samplers_cpu.py`): they give
the same bits as the plain ones.
"""

from __future__ import annotations

from torch import Tensor

from flashdqn.core.types import Batch, Step
from flashdqn.replay.samplers_cpu import NativePick
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.compiler import Compiler
from flashdqn.training.backends.cpu.record import NativeRecord


class EagerBackend:
    """Operation by operation; it can run everything."""

    compiles_recording = False

    def __init__(self, parts: Parts, compiler: Compiler) -> None:
        self.parts, uniform = parts, parts.sampler.uniform
        on_cpu = parts.learner.device.type == "cpu"
        self._record = NativeRecord(parts.collector) if on_cpu else parts.collector.record
        self._pick = NativePick(uniform) if on_cpu and uniform is not None else None

    @classmethod
    def fits(cls, parts: Parts) -> str | None:
        """It always does."""
        return None

    def act(self, obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor) -> Tensor:
        """The network's choice, or a random one."""
        return self.parts.collector.act(obs, mask, eps, luck)

    def record(self, action: Tensor, step: Step, outcomes: Tensor) -> None:
        """In one pass on the CPU, by plain operations on CUDA."""
        self._record(action, step, outcomes)

    def sample(self, count: int) -> list[Batch]:
        """Batches, drawn together."""
        return self.parts.sampler.batches(count, self.parts.config.update_size, self._pick)

    def update(self, batches: list[Batch]) -> None:
        """Autograd for each."""
        learner, sampler, exchange = self.parts.learner, self.parts.sampler, self.parts.exchange
        for batch in batches:
            sampler.update(batch.index, learner.step(batch, exchange))
