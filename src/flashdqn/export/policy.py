"""The greedy policy as one module: what is exported."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from flashdqn.core.ops import masked_argmax
from flashdqn.learn.branching import get_head_branches
from flashdqn.learn.heads import Head


class GreedyPolicy(nn.Module):
    """Observation in, best legal action and action values out.

    A task's decoder is not part of it: its tables belong to the training, and the file should serve other games,
    too. The scaling of bytes, the head's expectation and the mask are part of it. The network must be in
    evaluation mode: no noise, fixed fractions.
    """

    def __init__(self, network: nn.Module, head: Head) -> None:
        super().__init__()
        self.network, self.head = network, head
        if getattr(network, "decoder", None) is not None:
            self.network = copy.copy(network)  # the same weights
            setattr(self.network, "decoder", None)  # noqa: B010 - our own plain attribute

    def forward(self, obs: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """[B, *obs], and [B, A] if the task has legal actions → [B] int64 and [B, A] float32.

        Where an action has D parts, the choices are [B, D].
        """
        q, branches = self.head.q(self.network(obs)), get_head_branches(self.head)
        return masked_argmax(q, mask) if branches is None else branches.choose_best(q, mask), q
