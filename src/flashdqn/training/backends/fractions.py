"""Random fractions of implicit quantiles, drawn before a compiled function is called: a compiler cannot follow a
generator. They are the numbers that the network itself would draw, in the same order."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from flashdqn.core.types import Batch
from flashdqn.learn.bootstraps import Net
from flashdqn.learn.learner import Learner
from flashdqn.learn.loss import td_loss
from flashdqn.networks.build import QNetwork
from flashdqn.networks.implicit import ImplicitQuantiles


class FractionDraws:
    """The fractions of a learner's calls; nothing is drawn if its network has no implicit quantiles."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._calls: list[ImplicitQuantiles] | None = None  # of one update, in order

    def draw_for_update(self, batch: Batch) -> tuple[Tensor, ...]:
        """Those of all calls of one update."""
        if self.learner.head.fractions is None:
            return ()
        if self._calls is None:
            self._calls = self._record_calls(batch)
        return tuple(output.draw(len(batch.weight), output.count) for output in self._calls)

    def draw_for_actions(self, size: int) -> Tensor | None:
        """Those that choose actions for `size` observations."""
        fractions = self.learner.head.fractions
        return None if fractions is None else get_implicit(self.learner.online).draw(size, fractions.choose)

    @torch.no_grad()
    def _record_calls(self, batch: Batch) -> list[ImplicitQuantiles]:
        """Which networks an update asks, in which order: found by one update that changes nothing."""
        learner, calls = self.learner, list[ImplicitQuantiles]()

        def note(network: nn.Module) -> Net:
            def call(obs: Tensor) -> Tensor:
                calls.append(get_implicit(network))
                return cast(Tensor, network(obs))

            return call

        generator = learner.generators["fractions"]
        before = generator.get_state()
        td_loss(
            note(learner.online), note(learner.target), batch, learner.head, learner.bootstrap, learner.margin
        )
        generator.set_state(before)
        return calls


def get_implicit(network: nn.Module) -> ImplicitQuantiles:
    """The output of a network with implicit quantiles."""
    output = cast(QNetwork, network).output
    assert isinstance(output, ImplicitQuantiles)
    return output
