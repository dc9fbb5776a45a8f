"""PyTorch's own operations, one after the other: the reference for all other backends.

On the CPU, recording and picking samples are compiled loops (`cpu/record.py`, `replay/samplers_cpu.py`). They give
the same bits as the plain operations, which take their place in a training that is too short to compile for.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from torch import Tensor

from flashdqn.compute.compilation import NotCompiledError
from flashdqn.core.types import Batch, Step
from flashdqn.replay.samplers_cpu import NativePick
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.compiler import Compiler
from flashdqn.training.backends.cpu.record import NativeRecord

#: Stores the actions, the step that they led to, and the outcomes.
Record = Callable[[Tensor, Step, Tensor], None]


class EagerBackend:
    """Operation by operation; it can run everything."""

    compiles_recording = False

    def __init__(self, parts: Parts, compiler: Compiler) -> None:
        self.parts, uniform = parts, parts.sampler.uniform
        self._record: Record = parts.collector.record
        self._pick: NativePick | None = None
        if parts.learner.device.type == "cpu":
            with suppress(NotCompiledError):
                self._record = NativeRecord(parts.collector)
            with suppress(NotCompiledError):
                self._pick = NativePick(uniform) if uniform is not None else None

    @classmethod
    def fits(cls, parts: Parts) -> str | None:
        """None: it can run everything."""
        return None

    def act(self, obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor) -> Tensor:
        """The network's choice, or a random one."""
        return self.parts.collector.act(obs, mask, eps, luck)

    def record(self, action: Tensor, step: Step, outcomes: Tensor) -> None:
        """Store the step: in one pass on the CPU, by plain operations on CUDA."""
        self._record(action, step, outcomes)

    def sample(self, count: int) -> list[Batch]:
        """Batches that are drawn together."""
        return self.parts.sampler.batches(count, self.parts.config.update_size, self._pick)

    def update(self, batches: list[Batch]) -> None:
        """One step by autograd for each batch."""
        learner, sampler, exchange = self.parts.learner, self.parts.sampler, self.parts.exchange
        for batch in batches:
            sampler.update(batch.index, learner.step(batch, exchange))
