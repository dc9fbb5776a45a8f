"""A replay by definition: whole episodes in Python lists, sums written as sums. Slow, and hard to get wrong.

`Tape` is a made-up history of `num_envs` environments that keep the next-step autoreset rule. Every observation
carries its own number, so that no two are alike and a wrong one cannot pass for the right one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from flashdqn.core.contract import ObsSpec
from flashdqn.core.types import Step

#: An end in 1 stands for termination, in 2 for truncation; 0 goes on.
GOES_ON, TERMINATED, TRUNCATED = 0, 1, 2

VECTOR = ObsSpec((3,), torch.float32)
IMAGE = ObsSpec((2, 2, 2), torch.uint8)


@dataclass
class Episode:
    """Step j leads from obs[j] to obs[j + 1] and happens at time `begin + j`."""

    begin: int
    obs: list[Tensor]
    masks: list[Tensor]
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    end: int = GOES_ON


class Expected(NamedTuple):
    """One transition, by definition."""

    obs: Tensor
    action: int
    reward: float
    discount: float
    next_obs: Tensor
    next_mask: Tensor


class ReplayTwin:
    """Remembers every episode for ever; says which transitions a ring of `keep` rows may still give."""

    def __init__(self, obs: Tensor, mask: Tensor) -> None:
        self.time = 0  # steps so far
        self.episodes = [[Episode(0, [o], [m])] for o, m in zip(obs, mask, strict=True)]

    def append(self, action: Tensor, step: Step) -> None:
        for env, episodes in enumerate(self.episodes):
            last = episodes[-1]
            if last.end != GOES_ON:  # this step only started a new episode
                episodes.append(Episode(self.time + 1, [step.obs[env]], [step.mask[env]]))
                continue
            last.obs.append(step.obs[env])
            last.masks.append(step.mask[env])
            last.actions.append(int(action[env]))
            last.rewards.append(float(step.reward[env]))
            last.end = TERMINATED if step.terminated[env] else TRUNCATED if step.truncated[env] else GOES_ON
        self.time += 1

    def transitions(self, keep: int, n: int, gamma: float) -> dict[tuple[int, int], Expected]:
        """By (time, environment): all that started in the last `keep` steps, and at least n steps ago."""
        found = {}
        for env, episodes in enumerate(self.episodes):
            for episode in episodes:
                for j in range(len(episode.actions)):
                    time = episode.begin + j
                    if self.time - keep <= time <= self.time - n:
                        found[time, env] = n_step(episode, j, n, gamma)
        return found


def n_step(episode: Episode, j: int, n: int, gamma: float) -> Expected:
    """The n-step transition from step j: it takes k ≤ n steps and never leaves its episode."""
    k = min(n, len(episode.actions) - j)
    reward = sum(gamma**i * episode.rewards[j + i] for i in range(k))
    finished = episode.end == TERMINATED and j + k == len(episode.actions)
    discount = 0.0 if finished else gamma**k
    return Expected(
        episode.obs[j], episode.actions[j], reward, discount, episode.obs[j + k], episode.masks[j + k]
    )


class Tape:
    """Steps in which environment e ends at time t as `ends[t][e]` says, unless it only starts anew there."""

    def __init__(self, ends: list[list[int]], spec: ObsSpec, num_actions: int, seed: int) -> None:
        self.ends, self.spec, self.num_actions = ends, spec, num_actions
        self.num_envs = len(ends[0])
        self.random = random.Random(seed)
        self.first = self._observe(0)
        self.first_mask = self._legal()
        over = [False] * self.num_envs
        self.steps: list[tuple[Tensor, Step]] = []
        for time, wished in enumerate(ends):
            ends_now = [GOES_ON if new else end for new, end in zip(over, wished, strict=True)]
            self.steps.append((self._act(), self._step(time, ends_now, over)))
            over = [end != GOES_ON for end in ends_now]

    def _act(self) -> Tensor:
        return torch.tensor([self.random.randrange(self.num_actions) for _ in range(self.num_envs)])

    def _step(self, time: int, ends: list[int], starts: list[bool]) -> Step:
        rewards = [0.0 if new else self.random.uniform(-2, 2) for new in starts]
        kinds = torch.tensor(ends)
        return Step(
            self._observe(time + 1),
            torch.tensor(rewards),
            kinds == TERMINATED,
            kinds == TRUNCATED,
            self._legal(),
        )

    def _legal(self) -> Tensor:
        rows = [[self.random.random() < 0.6 for _ in range(self.num_actions)] for _ in range(self.num_envs)]
        return torch.tensor(rows)

    def _observe(self, time: int) -> Tensor:
        """[N, *shape]; no two the same for 65,536 numbers."""
        numbers = torch.arange(time * self.num_envs, (time + 1) * self.num_envs)
        size = int(torch.Size(self.spec.shape).numel())
        digits = torch.stack([(numbers >> (8 * (i % 2))) % 256 for i in range(size)], dim=1)
        return digits.to(self.spec.dtype).reshape(self.num_envs, *self.spec.shape)


class StackTape(Tape):
    """The same with stacks of frames as observations, put together one by one: the first frame of an episode is
    repeated."""

    def __init__(
        self, ends: list[list[int]], frame: ObsSpec, num_actions: int, seed: int, stack: int
    ) -> None:
        super().__init__(ends, frame, num_actions, seed)
        shape = (frame.shape[0] * stack, *frame.shape[1:])
        self.spec, self.stack = ObsSpec(shape, frame.dtype, stack), stack
        seen = [[frame] * stack for frame in self.first]
        self.first, over = self._joined(seen), [False] * self.num_envs
        for time, (action, step) in enumerate(self.steps):
            for env, frame_now in enumerate(step.obs):
                seen[env] = [frame_now] * stack if over[env] else [*seen[env][1:], frame_now]
            self.steps[time] = action, step._replace(obs=self._joined(seen))
            over = (step.terminated | step.truncated).tolist()

    def _joined(self, seen: list[list[Tensor]]) -> Tensor:
        return torch.stack([torch.cat(frames) for frames in seen])
