"""How the value of the next state is estimated. Illegal actions never count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from flashdqn.learn.heads import Head
from flashdqn.types import Transition

#: A network with its parameters inside: observations [B, …] → head output [B, …]
Net = Callable[[Tensor], Tensor]


class Bootstrap(Protocol):
    """The target for Q(s, a), from the transition and the two networks."""

    def __call__(self, online: Net, target: Net, transition: Transition, head: Head) -> Tensor:
        """The head's target value, [B, …]."""


def greedy(online: Net, target: Net, transition: Transition, head: Head) -> Tensor:
    """r + γ max_a Q⁻(s', a): the target network chooses and judges (Mnih et al. 2015)."""
    output = target(transition.next_obs)
    action = masked_argmax(head.q(output), transition.next_mask)
    return head.target(head.select(output, action), transition.reward, transition.discount)


def double(online: Net, target: Net, transition: Transition, head: Head) -> Tensor:
    """r + γ Q⁻(s', argmax_a Q(s', a)): the online network chooses, the target judges (van Hasselt et al. 2016)."""
    action = masked_argmax(head.q(online(transition.next_obs)), transition.next_mask)
    value = head.select(target(transition.next_obs), action)
    return head.target(value, transition.reward, transition.discount)


def masked_argmax(q: Tensor, mask: Tensor | None) -> Tensor:
    """The best legal action, [B]."""
    return q.argmax(1) if mask is None else q.masked_fill(~mask, -float("inf")).argmax(1)


BOOTSTRAPS: dict[str, Bootstrap] = {"greedy": greedy, "double": double}
