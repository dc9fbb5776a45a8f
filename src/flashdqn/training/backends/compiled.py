"""Compiled by PyTorch: a gradient step as three functions, and the work around it.

Targets and gradients are functions of every parameter apart, and the step of the optimizer is one of the flat
tensors. As one function, everything would read or write the same flat tensor, and the compiler would compare every
operation with every other to see whether they can become one kernel: most of the time to compile went there. And
processes can compile several functions at the same time (`training/rehearse.py`).
"""

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

#: Of each call of a network with implicit quantiles, [B, count]; empty for other networks.
Fractions = tuple[Tensor, ...]


class CompiledBackend:
    """Acting, recording, picking and updating, each as one compiled function."""

    compiles_recording = True

    def __init__(self, parts: Parts, compiler: Compiler) -> None:
        self.parts = parts
        collector, learner, uniform = parts.collector, parts.learner, parts.sampler.uniform
        self._whole = whole = WholeStep(learner)
        self._fractions = FractionDraws(learner)
        self._act = compiler.compile("act", make_act(parts))
        self._record = compiler.compile("record", collector.record)
        self._compiled_pick = None if uniform is None else compiler.compile("pick", uniform.pick)
        self._goals = compiler.compile("goals", whole.goals)
        self._gradients = compiler.compile("gradients", whole.gradients)
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
        pick = None if self._compiled_pick is None else self._pick
        return self.parts.sampler.batches(count, self.parts.config.update_size, pick)

    def update(self, batches: list[Batch]) -> None:
        """The compiled step for each batch; on the CPU the loss is checked afterwards."""
        learner, sampler = self.parts.learner, self.parts.sampler
        for batch in batches:
            learner.resample_noise()
            priority = self._step_once(batch)
            if learner.device.type == "cpu":
                learner.look_back(batch)
            sampler.update(batch.index, priority)

    def call_once(self, name: str) -> None:
        """Call one of the functions with a network, which compiles it: act, goals or gradients."""
        collector, whole = self.parts.collector, self._whole
        if name == "act":
            with torch.no_grad():
                self.act(collector.obs, collector.mask, collector.eps, collector.luck)
            return
        batch = self.parts.sampler.batches(1, self.parts.config.update_size)[0]
        fractions = self._fractions.draw_for_update(batch)
        if name == "goals":
            self._goals(batch, whole.parameters, whole.frozen, fractions[:-1])
        else:
            goal = whole.goals(batch, whole.parameters, whole.frozen, fractions[:-1])
            self._gradients(batch, goal, whole.parameters, fractions[-1:])

    def _pick(self, bits: Tensor) -> Batch:
        """Compiled once for groups of every size."""
        assert self._compiled_pick is not None
        torch._dynamo.mark_dynamic(bits, 1)
        return self._compiled_pick(bits)

    def _step_once(self, batch: Batch) -> Tensor:
        whole, fractions = self._whole, self._fractions.draw_for_update(batch)
        goal = self._goals(batch, whole.parameters, whole.frozen, fractions[:-1])
        pieces, result = self._gradients(batch, goal, whole.parameters, fractions[-1:])
        gradient = self._whole.join(pieces)
        if self.parts.exchange is not None:  # ranks average theirs
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
    """The learner's gradient step without `backward()`: a compiler can follow it."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.parameters = tuple(learner.flat.split(learner.flat.values).values())
        self.frozen = tuple(learner.target_flat.split(learner.target_flat.values).values())
        self._pieces = list(learner.flat.split(learner.flat.gradient).values())

    def gradient(self, batch: Batch, fractions: Fractions = ()) -> tuple[Tensor, TDLoss]:
        """The flat gradient of the loss, [P], and the loss itself; no parameter is changed.

        `fractions`: of every call of a network with implicit quantiles; the last one is of the observations.
        """
        goal = self.goals(batch, self.parameters, self.frozen, fractions[:-1])
        pieces, result = self.gradients(batch, goal, self.parameters, fractions[-1:])
        return self.join(pieces), result

    def join(self, pieces: tuple[Tensor, ...]) -> Tensor:
        """The learner's flat gradient, [P], with these pieces; the padding stays 0."""
        torch._foreach_copy_(self._pieces, list(pieces))
        return self.learner.flat.gradient

    def goals(
        self,
        batch: Batch,
        parameters: tuple[Tensor, ...],
        frozen: tuple[Tensor, ...],
        fractions: Fractions = (),
    ) -> Tensor:
        """The bootstrap's targets, [B, …]; `frozen` are the parameters of the target network."""
        learner, draws = self.learner, iter(fractions)
        online = self._call(learner.online, dict(zip(learner.flat.names, parameters, strict=True)), draws)
        target = online
        if learner.target is not learner.online:
            old = dict(zip(learner.target_flat.names, frozen, strict=True))
            target = self._call(learner.target, old, draws)
        # Not as decorators: compiled code is kept with the code of a function, and all decorated ones share theirs.
        with torch.no_grad():
            return learner.bootstrap(online, target, batch.transition, learner.head)

    def gradients(
        self, batch: Batch, goal: Tensor, parameters: tuple[Tensor, ...], fractions: Fractions = ()
    ) -> tuple[tuple[Tensor, ...], TDLoss]:
        """The gradient of the loss for each parameter, and the loss itself."""
        learner = self.learner

        def loss_of(values: dict[str, Tensor]) -> tuple[Tensor, TDLoss]:
            online = self._call(learner.online, values, iter(fractions))
            result = td_loss(online, online, batch, learner.head, lambda *_: goal, learner.margin)
            return result.loss, result

        names = learner.flat.names
        found, (_, result) = grad_and_value(loss_of, has_aux=True)(dict(zip(names, parameters, strict=True)))
        return tuple(found[name] for name in names), TDLoss(*(part.detach() for part in result))

    def _call(self, net: nn.Module, values: dict[str, Tensor], draws: Iterator[Tensor]) -> Net:
        """A network with these parameters; one with implicit quantiles takes the next draw at each call."""
        learner = self.learner
        drawn = learner.head.fractions is not None
        return with_precision(
            lambda obs: functional_call(net, values, (obs, next(draws)) if drawn else (obs,)),
            learner.precision,
            learner.device,
        )

    def apply(self, gradient: Tensor, result: TDLoss) -> None:
        """Clip, Adam, soft update of the target, and the sums."""
        learner = self.learner
        with torch.no_grad():
            gradient, norm = clip_by_norm(gradient, learner.config.grad_clip)
            if not learner.watch.on_host:
                learner.watch.mark(result.loss, learner.adam.steps)
            learner.adam.step_by_formula(gradient)
            if learner.follows_softly:
                learner.target_flat.values.lerp_(learner.flat.values, learner.config.target_tau)
            learner.sums.add_(torch.stack((result.loss, result.q, norm)))
