"""Compiled by PyTorch: a whole gradient step as one function of flat tensors, and the work around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value

from flashdqn.compute.graphs import compiler_missing
from flashdqn.compute.precision import with_precision
from flashdqn.core.ops import choose_epsilon_greedy
from flashdqn.core.types import Batch, Step
from flashdqn.learn.adam import clip_by_norm
from flashdqn.learn.bootstraps import Net
from flashdqn.learn.learner import Learner
from flashdqn.learn.loss import TDLoss, td_loss
from flashdqn.networks.build import QNetwork
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.compiler import Compiler
from flashdqn.training.backends.fractions import FractionDraws, get_implicit


class CompiledBackend:
    """Acting, recording, picking and updating, each as one compiled function."""

    compiles_recording = True

    def __init__(self, parts: Parts, compiler: Compiler) -> None:
        self.parts = parts
        collector, learner, uniform = parts.collector, parts.learner, parts.sampler.uniform
        whole = WholeStep(learner)
        self._fractions = FractionDraws(learner)
        self._act = compiler.compile("act", make_act(parts))
        self._record = compiler.compile("record", collector.record)
        self._pick = None if uniform is None else compiler.compile("pick", uniform.pick)
        if parts.exchange is None:
            self._step = compiler.compile("step", whole.step)
        else:  # ranks exchange gradients between the two
            self._gradient = compiler.compile("gradient", whole.gradient)
            self._apply = compiler.compile("apply", whole.apply)

    @classmethod
    def fits(cls, parts: Parts) -> str | None:
        """It needs a compiler."""
        missing = compiler_missing(parts.learner.device)
        return f"{missing}, which torch.compile needs" if missing else None

    def act(self, obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor) -> Tensor:
        """The network's choice, or a random one."""
        return self._act(obs, mask, eps, luck, self._fractions.draw_for_actions(len(obs)))

    def record(self, action: Tensor, step: Step, outcomes: Tensor) -> None:
        """Store the step, by one compiled function."""
        self._record(action, step, outcomes)

    def sample(self, count: int) -> list[Batch]:
        """Batches that are drawn together."""
        return self.parts.sampler.batches(count, self.parts.config.update_size, self._pick)

    def update(self, batches: list[Batch]) -> None:
        """The compiled step for each batch; on the CPU the loss is checked afterwards."""
        learner, sampler = self.parts.learner, self.parts.sampler
        for batch in batches:
            learner.resample_noise()
            priority = self._step_once(batch)
            if learner.device.type == "cpu":
                learner.look_back(batch)
            sampler.update(batch.index, priority)

    def _step_once(self, batch: Batch) -> Tensor:
        fractions = self._fractions.draw_for_update(batch)
        if self.parts.exchange is None:
            return self._step(batch, fractions)
        gradient, result = self._gradient(batch, fractions)
        self.parts.exchange(gradient)
        self._apply(gradient, result)
        return result.priority


def make_act(parts: Parts) -> Callable[[Tensor, Tensor | None, Tensor, Tensor, Tensor | None], Tensor]:
    """`Collector.act` with the fractions of implicit quantiles as one more argument, None where there are none."""
    collector, learner = parts.collector, parts.learner

    def act(obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor, fractions: Tensor | None) -> Tensor:
        if fractions is None:
            return collector.act(obs, mask, eps, luck)
        online, output = cast(QNetwork, learner.online), get_implicit(learner.online)
        policy = with_precision(
            lambda seen: output.policy(online.features(seen), fractions), learner.precision, learner.device
        )
        return choose_epsilon_greedy(learner.head.q(policy(obs)), mask, eps, luck, collector.branches)

    return act


class WholeStep:
    """The learner's gradient step as a function of flat tensors, without `backward()`: a compiler can follow it."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def step(self, batch: Batch, fractions: tuple[Tensor, ...] = ()) -> Tensor:
        """The whole step; returns the priorities. `fractions`: of every call of a network with implicit
        quantiles."""
        gradient, result = self.gradient(batch, fractions)
        self.apply(gradient, result)
        return result.priority

    def gradient(self, batch: Batch, fractions: tuple[Tensor, ...] = ()) -> tuple[Tensor, TDLoss]:
        """The flat gradient of the loss, [P], and the loss itself; nothing is changed."""
        learner = self.learner
        flat, online, target = learner.flat, learner.online, learner.target
        frozen = learner.target_flat.split(learner.target_flat.values)

        def call(net: nn.Module, parameters: dict[str, Tensor], draws: Iterator[Tensor]) -> Net:
            return with_precision(
                lambda obs: functional_call(net, parameters, (obs, next(draws)) if fractions else (obs,)),
                learner.precision,
                learner.device,
            )

        def loss_of(parameters: dict[str, Tensor]) -> tuple[Tensor, TDLoss]:
            draws = iter(fractions)
            old = parameters if target is online else frozen
            nets = call(online, parameters, draws), call(target, old, draws)
            result = td_loss(*nets, batch, learner.head, learner.bootstrap, learner.margin)
            return result.loss, result

        gradients, (_, result) = grad_and_value(loss_of, has_aux=True)(flat.split(flat.values))
        return flat.join(gradients), TDLoss(*(part.detach() for part in result))

    @torch.no_grad()
    def apply(self, gradient: Tensor, result: TDLoss) -> None:
        """Clip, Adam, soft update of the target, and the sums."""
        learner = self.learner
        gradient, norm = clip_by_norm(gradient, learner.config.grad_clip)
        if not learner.watch.on_host:
            learner.watch.mark(result.loss, learner.adam.steps)
        learner.adam.step_by_formula(gradient)
        if learner.follows_softly:
            learner.target_flat.values.lerp_(learner.flat.values, learner.config.target_tau)
        learner.sums.add_(torch.stack((result.loss, result.q, norm)))
