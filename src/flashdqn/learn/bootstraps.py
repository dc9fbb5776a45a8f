"""How the value of the next state is estimated. Illegal actions never count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

import torch
from torch import Tensor

from flashdqn.config.axes import MunchausenConfig
from flashdqn.core.ops import masked_argmax
from flashdqn.core.types import Transition
from flashdqn.learn.heads import Head

#: A network with its parameters inside: observations [B, …] → head output [B, …]
Net = Callable[[Tensor], Tensor]

T = TypeVar("T")


class Bootstrap(Protocol):
    """The target for Q(s, a), from the transition and the two networks.

    A bootstrap may have these attributes, set to True:
    `online_chooses`: the online network chooses the next action, and the target network only judges it;
    `single_step_only`: it needs single-step transitions, and does not support n-step returns.
    """

    def __call__(self, online: Net, target: Net, transition: Transition, head: Head) -> Tensor:
        """The head's target value, [B, …]."""


def mark_as(trait: str) -> Callable[[T], T]:
    """Set a trait on a function, as a class does with an attribute."""

    def mark(function: T) -> T:
        vars(function)[trait] = True
        return function

    return mark


def greedy_target(online: Net, target: Net, transition: Transition, head: Head) -> Tensor:
    """r + γ max_a Q⁻(s', a): the target network chooses and judges (Mnih et al. 2015)."""
    output = target(transition.next_obs)
    action = masked_argmax(head.q(output), transition.next_mask)
    return head.target(head.select(output, action), transition.reward, transition.discount)


@mark_as("online_chooses")
def double_target(online: Net, target: Net, transition: Transition, head: Head) -> Tensor:
    """r + γ Q⁻(s', argmax_a Q(s', a)): the online network chooses, the target judges (van Hasselt et al. 2016)."""
    action = masked_argmax(head.q(online(transition.next_obs)), transition.next_mask)
    value = head.select(target(transition.next_obs), action)
    return head.target(value, transition.reward, transition.discount)


def given_target(online: Net, target: Net, transition: Transition, head: Head) -> Tensor:
    """r: the reward is the whole return already, as PQN estimates it before the update. Scalar heads only."""
    return transition.reward


@dataclass(frozen=True)
class Munchausen:
    """r + α [τ log π(a|s)]_{l₀}^0 + γ Σ_a' π(a'|s') (Q⁻(s', a') − τ log π(a'|s')) with π = softmax(Q⁻/τ).

    Vieillard et al. 2020, eq. 2, arXiv:2007.14430. The policy's own log-probability is a reward, so the
    transition must be a single step.
    """

    single_step_only: ClassVar[bool] = MunchausenConfig.single_step_only
    alpha: float  # α: weight of the log-policy
    tau: float  # τ: temperature
    clip: float  # l₀ < 0: the lower bound of τ log π

    def __call__(self, online: Net, target: Net, transition: Transition, head: Head) -> Tensor:
        """The head's target value, [B, …]."""
        obs, action, reward, discount, next_obs, next_mask, mask = transition
        _, scaled_log = soft_policy(head.q(target(obs)), mask, self.tau)
        bonus = scaled_log.gather(1, action[:, None]).squeeze(1).clamp(self.clip, 0)
        output = target(next_obs)
        policy, scaled_log = soft_policy(head.q(output), next_mask, self.tau)
        entropy = -(policy * scaled_log).sum(1)  # τ H(π(·|s')): the same for every return that follows
        return head.target(
            head.expect(output, policy), reward + self.alpha * bonus + discount * entropy, discount
        )


def soft_policy(q: Tensor, mask: Tensor | None, tau: float) -> tuple[Tensor, Tensor]:
    """π = softmax(Q/τ) over the legal actions and τ log π, both [B, A]; both are 0 where an action is illegal.

    τ log π = Q − max Q − τ logsumexp((Q − max Q)/τ), which neither overflows nor takes the logarithm of 0.
    """
    legal = None
    if mask is not None:
        legal = mask | ~mask.any(1, keepdim=True)  # no legal action: it is over, any value will do
        q = q.masked_fill(~legal, -float("inf"))
    advantage = q - q.amax(1, keepdim=True)
    scaled_log = advantage - tau * torch.logsumexp(advantage / tau, 1, keepdim=True)
    policy = (scaled_log / tau).exp()
    return policy, scaled_log if legal is None else scaled_log.masked_fill(~legal, 0.0)


#: The bootstraps without settings.
BOOTSTRAPS: dict[str, Bootstrap] = {"greedy": greedy_target, "double": double_target}
