"""Stacks of frames against a list of the last ones, kept by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from toy_envs import Chain, MaskedBandit

import flashdqn
from flashdqn.core.errors import EnvError
from flashdqn.core.types import Step
from flashdqn.envs import ObsSpec, VecEnv, check_env
from flashdqn.envs.frame_stack import FrameStack


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("stack", [2, 4])
def test_stacks_are_the_last_frames_of_an_episode(stack: int, kind: str) -> None:
    settings = {"vectorization": kind, "workers": 2, "clip_reward": 7.0}
    env = flashdqn.make_env("gym_envs:make_screen", 3, stack=stack, **settings)
    plain = flashdqn.make_env("gym_envs:make_screen", 3, **settings)
    assert env.obs_spec == ObsSpec((3 * stack, 6, 6), torch.uint8, stack)
    assert env.obs_spec.frame == plain.obs_spec
    frame, generator = plain.reset(2), torch.Generator().manual_seed(0)
    seen = [[row] * stack for row in frame]
    assert torch.equal(env.reset(2), joined(seen))
    starting = torch.zeros(3, dtype=torch.bool)
    ends = torch.zeros(2)
    for _ in range(60):
        action = (torch.rand(3, generator=generator) < 0.3).to(torch.int64)
        step, other = env.step(action), plain.step(action)
        seen = [
            [row] * stack if starting[i] else [*seen[i][1:], row] for i, row in enumerate(other.obs.clone())
        ]
        assert torch.equal(step.obs, joined(seen))
        assert torch.equal(step.reward, other.reward)
        assert step.reward.max() <= 7
        assert torch.equal(env.outcomes, plain.outcomes)
        starting = step.terminated | step.truncated
        ends += torch.tensor([step.terminated.sum(), step.truncated.sum()])
    assert ends.min() > 0
    env.close()  # type: ignore[attr-defined]
    plain.close()  # type: ignore[attr-defined]


def joined(seen: list[list[Tensor]]) -> Tensor:
    return torch.stack([torch.cat(frames) for frames in seen])


@pytest.mark.parametrize("env", [Chain(num_envs=3), MaskedBandit(num_envs=3, time_limit=3)])
def test_any_environment_can_be_stacked_and_saved(env: VecEnv) -> None:
    report = check_env(FrameStack(env, 3), steps=50)
    assert report.terminated + report.truncated > 0


def test_frames_out_of_order_are_noticed() -> None:
    class Wrong(FrameStack):
        def step(self, action: Tensor) -> Step:
            step = super().step(action)
            return step._replace(obs=step.obs.flip(1))

    env = Wrong(flashdqn.make_env("gym_envs:make_screen", 2), 4)
    with pytest.raises(EnvError, match=r"must be the last 4 frames of its episode.*environment 0 in step 1"):
        check_env(env, steps=10)
