"""Written by hand for the CPU, compiled by Numba: acting, recording, picking, a group of updates in one call."""

from __future__ import annotations

import torch
from torch import Tensor

from flashdqn.compute.threads import make_team
from flashdqn.core.types import Batch, Step
from flashdqn.replay import MixedSampler
from flashdqn.replay.samplers import SamplerBase, split_batch
from flashdqn.replay.samplers_cpu import NativePick
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.compiler import Compiler
from flashdqn.training.backends.cpu import several
from flashdqn.training.backends.cpu.networks import explain_unknown
from flashdqn.training.backends.cpu.policy import NativePolicy
from flashdqn.training.backends.cpu.record import NativeRecord
from flashdqn.training.backends.cpu.several import SeveralIterations
from flashdqn.training.backends.cpu.update import NativeUpdates


class CpuBackend:
    """MLPs of any kind (dueling, noisy, layer norm) with a head of numbers, atoms or quantiles."""

    compiles_recording = False

    def __init__(self, parts: Parts, compiler: Compiler) -> None:
        self.parts, learner, uniform = parts, parts.learner, parts.sampler.uniform
        adam = learner.own_adam
        assert adam is not None  # `fits` refuses the others
        asked = parts.config.runtime.threads
        self._policy = NativePolicy(learner.online, parts.config.envs, make_team(asked), learner.head)
        self._record = NativeRecord(parts.collector)
        self._pick = None if uniform is None else NativePick(uniform)
        #: Only the gradient is hand-written if ranks must exchange it, or if the rule is not Adam's.
        self._one_by_one = parts.exchange is not None or not adam.has_native_step
        self._updates = NativeUpdates(
            learner.online, learner.target, learner.head, learner.bootstrap, adam,
            learner.target_flat.values, learner.tau, make_team(asked), learner.noise, learner.margin,
        )  # fmt: skip

    def make_iterations(self, largest: int) -> SeveralIterations | None:
        """Several iterations in one call, with groups of up to `largest` updates, where that is possible and may be
        worth it."""
        if self._one_by_one or self._pick is None or not several.fits(self.parts, self._updates):
            return None
        return SeveralIterations(self.parts, self._updates, self._record, self._pick, largest)

    @classmethod
    def fits(cls, parts: Parts) -> str | None:
        """Only what the hand-written loops support."""
        learner, sampler = parts.learner, parts.sampler
        own = sampler.own if isinstance(sampler, MixedSampler) else sampler
        if learner.own_adam is None or not isinstance(own, SamplerBase):
            return "the hand-written update does not support your own sampler or optimizer"
        if learner.precision != "fp32":
            return "the hand-written update computes only in fp32"
        unknown = explain_unknown(learner.online, learner.head, learner.bootstrap)
        return unknown and f"the hand-written update does not support {unknown}"

    def act(self, obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor) -> Tensor:
        """The network's choice, or a random one, in one call."""
        return self._policy(obs, mask, eps, luck)

    def record(self, action: Tensor, step: Step, outcomes: Tensor) -> None:
        """Store the step in one pass."""
        self._record(action, step, outcomes)

    def sample(self, count: int) -> list[Batch]:
        """One batch that holds all of them, one after the other; the next call reuses its memory."""
        sampler, size = self.parts.sampler, self.parts.config.update_size
        if self._one_by_one:
            return sampler.batches(count, size, self._pick)
        if isinstance(sampler, MixedSampler):
            return [sampler.group(count, size, self._pick)]
        if self._pick is not None:
            return [self._pick.again(count * size)]
        assert isinstance(sampler, SamplerBase)  # `fits` refuses the others
        return [sampler.group(count, size)]

    def update(self, batches: list[Batch]) -> None:
        """A group of updates in one call, or one by one."""
        sampler, size = self.parts.sampler, self.parts.config.update_size
        for batch in batches:
            priority = self._step_by_gradient(batch) if self._one_by_one else self._step_group(batch, size)
            if not sampler.wants_priorities:
                continue
            errors = torch.split(priority, size)
            for index, own in zip(torch.chunk(batch.index, len(errors)), errors, strict=True):
                sampler.update(index, own)

    def _step_group(self, batch: Batch, size: int) -> Tensor:
        learner, count = self.parts.learner, len(batch.weight) // size
        priority, done, loss = self._updates.steps(batch, count, learner.sums)
        if done < count:
            bad = split_batch(batch, count, size)[done]
            learner.watch.look(torch.tensor(loss), bad, learner.adam.steps)
        return priority

    def _step_by_gradient(self, batch: Batch) -> Tensor:
        learner = self.parts.learner
        learner.resample_noise()
        result = self._updates.gradient(batch)
        learner.watch.look(result.loss, batch, learner.adam.steps)
        if self.parts.exchange is not None:
            self.parts.exchange(learner.flat.gradient)
        return learner.apply(result)
