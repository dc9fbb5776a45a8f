"""Small environments with a known Q*, in plain torch, each keeping the whole contract of `VecEnv`.

`Chain`: a walk to the right; the reward lies far from the start.
`Crossing`: twins that differ only in termination against truncation.
`MaskedBandit`: illegal actions look better than every legal one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from flashdqn.core.contract import ObsSpec
from flashdqn.core.errors import EnvError
from flashdqn.core.types import Step

CPU = torch.device("cpu")


class Episodes:
    """The book that every toy keeps: which rows start anew, how long each episode is and what it earned."""

    outcome_names: tuple[str, ...] = ("score", "steps")

    def __init__(self, num_envs: int, device: torch.device, time_limit: int | None = None) -> None:
        self.time_limit = time_limit
        self.over = torch.zeros(num_envs, dtype=torch.bool, device=device)  # the next step starts anew
        self.length = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self.score = torch.zeros(num_envs, device=device)

    @property
    def outcomes(self) -> Tensor:
        return torch.stack((self.score, self.length.float()), dim=1)

    def reset(self) -> None:
        for tensor in (self.over, self.length, self.score):
            tensor.zero_()

    def advance(self, obs: Tensor, reward: Tensor, terminated: Tensor, mask: Tensor | None = None) -> Step:
        """Write down a step, and answer it: rows that start anew earn nothing and end nothing."""
        reward = reward.where(~self.over, 0.0)
        terminated = terminated & ~self.over
        self.length = torch.where(self.over, 0, self.length + 1)
        self.score = torch.where(self.over, 0.0, self.score + reward)
        truncated = torch.zeros_like(terminated)
        if self.time_limit is not None:
            truncated = (self.length >= self.time_limit) & ~terminated & ~self.over
        self.over = terminated | truncated
        return Step(obs, reward, terminated, truncated, mask)

    def state_dict(self) -> dict[str, Tensor]:
        return {"over": self.over.clone(), "length": self.length.clone(), "score": self.score.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.over, self.length, self.score = (state[key].clone() for key in ("over", "length", "score"))


class Chain:
    """States in a row, a walk from the left end: action 0 goes left, 1 right; reaching the right end pays 1.

    The right end terminates; the time limit, which no observation shows, truncates. Nothing is random.
    """

    num_actions = 2
    outcome_names: tuple[str, ...] = Episodes.outcome_names
    mask: Tensor | None = None

    def __init__(
        self, num_envs: int = 4, num_states: int = 5, time_limit: int | None = 20, device: torch.device = CPU
    ) -> None:
        self.name = "chain"
        self.num_envs = num_envs
        self.num_states = num_states
        self.device = device
        self.obs_spec = ObsSpec((num_states,), torch.float32)
        self.episodes = Episodes(num_envs, device, time_limit)
        self.position = torch.zeros(num_envs, dtype=torch.int64, device=device)

    @property
    def outcomes(self) -> Tensor:
        return self.episodes.outcomes

    def reset(self, seed: int) -> Tensor:
        self.episodes.reset()
        self.position = torch.zeros_like(self.position)
        return self._observe()

    def step(self, action: Tensor) -> Step:
        walked = (self.position + 2 * action - 1).clamp(0, self.num_states - 1)
        self.position = torch.where(self.episodes.over, 0, walked)
        arrived = self.position == self.num_states - 1
        return self.episodes.advance(self._observe(), arrived.float(), arrived)

    def state_dict(self) -> dict[str, Tensor]:
        return {"position": self.position.clone(), **self.episodes.state_dict()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.position = state["position"].clone()
        self.episodes.load_state_dict(state)

    def _observe(self) -> Tensor:
        return one_hot(self.position, self.num_states).float()  # [N, S]

    def q_star(self, gamma: float) -> Tensor:
        """Q* [S, 2] by value iteration; the row of the right end, from which nobody acts, is 0."""
        state = torch.arange(self.num_states)[:, None]
        reached = (state + torch.tensor([-1, 1])).clamp(0, self.num_states - 1)  # [S, 2]
        arrived = reached == self.num_states - 1
        q = torch.zeros(self.num_states, 2)
        for _ in range(self.num_states + 1):  # a value travels one state per sweep
            q = arrived.float() + gamma * (~arrived) * q.amax(dim=1)[reached]
            q[-1] = 0
        return q


class Crossing:
    """One state, reward 1 in every step, and each step is an episode's last: by its rules, or by the clock.

    Terminated, there is nothing more to come: Q* = 1. Truncated, there would have been: Q* = 1 / (1 − γ).
    """

    num_actions = 2
    outcome_names: tuple[str, ...] = Episodes.outcome_names
    mask: Tensor | None = None

    def __init__(
        self, ending: Literal["terminated", "truncated"], num_envs: int = 4, device: torch.device = CPU
    ) -> None:
        self.name = f"crossing-{ending}"
        self.ending = ending
        self.num_envs = num_envs
        self.device = device
        self.obs_spec = ObsSpec((1,), torch.float32)
        self.episodes = Episodes(num_envs, device, time_limit=1)

    @property
    def outcomes(self) -> Tensor:
        return self.episodes.outcomes

    def reset(self, seed: int) -> Tensor:
        self.episodes.reset()
        return self._observe()

    def step(self, action: Tensor) -> Step:
        ends_truly = torch.full((self.num_envs,), self.ending == "terminated", device=self.device)
        reward = torch.ones(self.num_envs, device=self.device)
        return self.episodes.advance(self._observe(), reward, ends_truly)

    def state_dict(self) -> dict[str, Tensor]:
        return self.episodes.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.episodes.load_state_dict(state)

    def _observe(self) -> Tensor:
        return torch.ones(self.num_envs, 1, device=self.device)

    def q_star(self, gamma: float) -> Tensor:
        """Q* [1, 2]."""
        return torch.full((1, 2), 1.0 if self.ending == "terminated" else 1 / (1 - gamma))


class MaskedBandit:
    """A context, a pull, a cost, another context drawn at random; one action of each context is illegal.

    Every legal pull costs at least 1, forever: Q* lies far below 0. The illegal action is never tried, keeps
    its initial value near 0 and so tempts whoever bootstraps over it. Taking it raises `EnvError`.
    After `time_limit` pulls the episode is truncated; it never terminates.
    """

    outcome_names: tuple[str, ...] = Episodes.outcome_names

    def __init__(
        self,
        num_envs: int = 4,
        num_contexts: int = 3,
        num_actions: int = 3,
        time_limit: int = 10,
        device: torch.device = CPU,
    ) -> None:
        self.name = "masked-bandit"
        self.num_envs = num_envs
        self.num_contexts = num_contexts
        self.num_actions = num_actions
        self.device = device
        self.obs_spec = ObsSpec((num_contexts,), torch.float32)
        self.episodes = Episodes(num_envs, device, time_limit)
        self.generator = torch.Generator()
        contexts = torch.arange(num_contexts, device=device)[:, None]
        actions = torch.arange(num_actions, device=device)
        self.legal = actions != contexts % num_actions  # [C, A]
        self.cost = 1 + ((contexts + 2 * actions) % num_actions) / num_actions  # [C, A]
        self.context = torch.zeros(num_envs, dtype=torch.int64, device=device)

    @property
    def mask(self) -> Tensor:
        return self.legal[self.context]  # [N, A]

    @property
    def outcomes(self) -> Tensor:
        return self.episodes.outcomes

    def reset(self, seed: int) -> Tensor:
        self.generator.manual_seed(seed)
        self.episodes.reset()
        self._draw_contexts()
        return self._observe()

    def step(self, action: Tensor) -> Step:
        illegal = ~self.legal[self.context, action] & ~self.episodes.over
        if illegal.any():
            row = int(illegal.nonzero()[0, 0])
            raise EnvError(
                f"{self.name}: environment {row} expected a legal action, but got {int(action[row])}. "
                "Choose with the mask."
            )
        reward = -self.cost[self.context, action]
        self._draw_contexts()
        never = torch.zeros_like(illegal)
        return self.episodes.advance(self._observe(), reward, never, self.mask)

    def state_dict(self) -> dict[str, Tensor]:
        own = {"context": self.context.clone(), "generator": self.generator.get_state()}
        return {**own, **self.episodes.state_dict()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.context = state["context"].clone()
        self.generator.set_state(state["generator"])
        self.episodes.load_state_dict(state)

    def _draw_contexts(self) -> None:
        drawn = torch.randint(self.num_contexts, (self.num_envs,), generator=self.generator)
        self.context = drawn.to(self.device)

    def _observe(self) -> Tensor:
        return one_hot(self.context, self.num_contexts).float()  # [N, C]

    def q_star(self, gamma: float) -> Tensor:
        """Q* [C, A], −∞ for illegal actions: contexts come by chance, so what follows is the same for all."""
        pay = (-self.cost).masked_fill(~self.legal, -torch.inf)
        value = pay.amax(dim=1).mean() / (1 - gamma)
        return (pay + gamma * value).cpu()
