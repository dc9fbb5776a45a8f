"""Compiled by PyTorch: a whole gradient step as one function of flat tensors, and what surrounds it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value

from flashdqn.compute.graphs import compiler_missing
from flashdqn.compute.precision import with_precision
from flashdqn.core.types import Batch, Step
from flashdqn.learn.adam import clip_by_norm
from flashdqn.learn.bootstraps import Net
from flashdqn.learn.learner import Learner
from flashdqn.learn.loss import TDLoss, td_loss
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.compiler import Compiler


class CompiledBackend:
    """Acting, recording, picking and updating, each as one compiled function."""

    compiles_recording = True

    def __init__(self, parts: Parts, compiler: Compiler) -> None:
        self.parts = parts
        collector, learner, uniform = parts.collector, parts.learner, parts.sampler.uniform
        whole = WholeStep(learner)
        self._act = compiler.compile("act", collector.act)
        self._record = compiler.compile("record", collector.record)
        self._pick = None if uniform is None else compiler.compile("pick", uniform.pick)
        if parts.exchange is None:
            self._step = compiler.compile("step", whole.step)
        else:  # ranks meet between the two
            self._gradient = compiler.compile("gradient", whole.gradient)
            self._apply = compiler.compile("apply", whole.apply)

    @classmethod
    def fits(cls, parts: Parts) -> str | None:
        """A compiler is needed, and no random numbers inside the network."""
        if parts.learner.head.fractions is not None:
            return (
                "implicit quantiles draw their fractions inside the network, where the compiler cannot follow"
            )
        missing = compiler_missing(parts.learner.device)
        return f"{missing}, which torch.compile needs" if missing else None

    def act(self, obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor) -> Tensor:
        """The network's choice, or a random one."""
        return self._act(obs, mask, eps, luck)

    def record(self, action: Tensor, step: Step, outcomes: Tensor) -> None:
        """Compiled as one."""
        self._record(action, step, outcomes)

    def sample(self, count: int) -> list[Batch]:
        """Batches, drawn together."""
        return self.parts.sampler.batches(count, self.parts.config.update_size, self._pick)

    def update(self, batches: list[Batch]) -> None:
        """The compiled step for each; on the CPU the loss is looked at afterwards."""
        learner, sampler = self.parts.learner, self.parts.sampler
        for batch in batches:
            learner.resample_noise()
            priority = self._step_once(batch)
            if learner.device.type == "cpu":
                learner.look_back(batch)
            sampler.update(batch.index, priority)

    def _step_once(self, batch: Batch) -> Tensor:
        if self.parts.exchange is None:
            return self._step(batch)
        gradient, result = self._gradient(batch)
        self.parts.exchange(gradient)
        self._apply(gradient, result)
        return result.priority


class WholeStep:
    """The learner's gradient step as a function of flat tensors, without `backward()`: a compiler can follow it."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def step(self, batch: Batch) -> Tensor:
        """The whole step; returns the priorities."""
        gradient, result = self.gradient(batch)
        self.apply(gradient, result)
        return result.priority

    def gradient(self, batch: Batch) -> tuple[Tensor, TDLoss]:
        """The flat gradient of the loss, [P], and what the loss says; nothing is changed."""
        learner = self.learner
        flat, online, target = learner.flat, learner.online, learner.target
        frozen = learner.target_flat.split(learner.target_flat.values)

        def call(net: nn.Module, parameters: dict[str, Tensor]) -> Net:
            return with_precision(
                lambda obs: functional_call(net, parameters, (obs,)), learner.precision, learner.device
            )

        def loss_of(parameters: dict[str, Tensor]) -> tuple[Tensor, TDLoss]:
            nets = call(online, parameters), call(target, parameters if target is online else frozen)
            result = td_loss(*nets, batch, learner.head, learner.bootstrap, learner.margin)
            return result.loss, result

        gradients, (_, result) = grad_and_value(loss_of, has_aux=True)(flat.split(flat.values))
        return flat.join(gradients), TDLoss(*(part.detach() for part in result))

    @torch.no_grad()
    def apply(self, gradient: Tensor, result: TDLoss) -> None:
        """Clip, Adam, the target's soft update, and the sums."""
        learner = self.learner
        gradient, norm = clip_by_norm(gradient, learner.config.grad_clip)
        if not learner.watch.on_host:
            learner.watch.mark(result.loss, learner.adam.steps)
        learner.adam.step_by_formula(gradient)
        if learner.follows_softly:
            learner.target_flat.values.lerp_(learner.flat.values, learner.config.target_tau)
        learner.sums.add_(torch.stack((result.loss, result.q, norm)))
