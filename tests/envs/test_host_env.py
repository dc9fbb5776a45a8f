"""Environments beside a learner on another device: packing, and that nothing changes on the way."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from toy_envs import MaskedBandit

import flashdqn
from flashdqn.config.presets import base_config
from flashdqn.core.contract import get_cause_names
from flashdqn.envs import VecEnv, build_env, check_env
from flashdqn.envs.frame_stack import FrameStack
from flashdqn.envs.host_env import ALIGNMENT, HostEnv, Packing

CPU = torch.device("cpu")
DTYPES = [torch.bool, torch.uint8, torch.int32, torch.float32, torch.int64, torch.float64]
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

shapes = st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple)


@given(st.lists(st.tuples(shapes, st.sampled_from(DTYPES)), min_size=1, max_size=6), st.integers(0, 99))
def test_packed_tensors_come_back_whole(fields: list[tuple[tuple[int, ...], torch.dtype]], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        f"{i}": torch.randint(0, 2 if dtype == torch.bool else 200, shape, generator=generator).to(dtype)
        for i, (shape, dtype) in enumerate(fields)
    }
    packing = Packing(tensors)
    one, other = packing.buffer(CPU), packing.buffer(CPU)
    views = packing.views(one)
    for name, view in views.items():
        assert view.shape == tensors[name].shape
        assert view.dtype == tensors[name].dtype
        assert view.is_contiguous()
        assert (view.data_ptr() - one.data_ptr()) % ALIGNMENT == 0
        view.copy_(tensors[name])
    other.copy_(one)  # the one copy
    for name, view in packing.views(other).items():
        assert torch.equal(view, tensors[name])
    assert sum(tensor.nbytes for tensor in tensors.values()) <= packing.nbytes == one.nbytes


def environments() -> list[tuple[str, Any]]:
    walk = {"kwargs": {"limit": 4, "masked": True, "first": 2}}
    return [
        ("bandit", lambda: MaskedBandit(num_envs=3, time_limit=4)),
        ("snake", lambda: flashdqn.make_env("snake", 4)),
        ("walk", lambda: flashdqn.make_env("gym_envs:make_walk", 3, **walk)),
    ]


def compare(env: VecEnv, moved: VecEnv, steps: int = 60, holds: bool = True) -> None:
    """Side by side. Unless `moved` reuses its output, what it answered must hold for one step more (`holds`)."""
    generator = torch.Generator().manual_seed(0)
    assert torch.equal(moved.reset(4).cpu(), env.reset(4))
    kept: list[tuple[Tensor, Tensor]] = []
    for _ in range(steps):
        assert (env.mask is None) == (moved.mask is None)
        luck = torch.rand((env.num_envs, env.num_actions), generator=generator)
        if env.mask is not None:
            assert moved.mask is not None
            assert torch.equal(moved.mask.cpu(), env.mask)
            luck = luck.masked_fill(~env.mask, -1.0)
        action = luck.argmax(1)
        theirs = [None if x is None else x.clone() for x in env.step(action)]
        ours = moved.step(action.to(moved.device))
        assert all(torch.equal(ours_before.cpu(), before) for ours_before, before in kept)
        kept = []
        for mine, other in zip(ours, theirs, strict=True):
            assert (mine is None) == (other is None)
            if mine is not None and other is not None:
                assert mine.device == moved.device
                kept.append((mine if holds else mine.cpu(), other))
        over = kept[2][1] | kept[3][1]
        assert torch.equal(moved.outcomes.cpu()[over], env.outcomes[over])


@pytest.mark.parametrize(("name", "make"), environments())
def test_nothing_changes_on_the_way(name: str, make: Any) -> None:
    compare(make(), HostEnv(make(), CPU))


@pytest.mark.parametrize(("name", "make"), environments())
def test_a_moved_environment_keeps_the_contract(name: str, make: Any) -> None:
    check_env(HostEnv(make(), CPU), steps=40)


@cuda
@pytest.mark.parametrize(("name", "make"), environments())
def test_nothing_changes_on_the_way_to_cuda(name: str, make: Any) -> None:
    compare(make(), HostEnv(make(), torch.device("cuda", 0)))


@cuda
def test_frames_are_stacked_on_the_device() -> None:
    def stacked(device: torch.device) -> VecEnv:
        config = flashdqn.presets.base_config("gym_envs:make_screen").env
        return build_env(flashdqn.config.settings.apply_settings(config, {"stack": 3}, "env."), 3, device)

    there = stacked(torch.device("cuda", 0))
    assert isinstance(there, FrameStack)
    assert isinstance(there.env, HostEnv)
    compare(stacked(CPU), there, holds=False)


@cuda
def test_steps_wait_for_the_actions_alone() -> None:
    """With a long kernel in another stream, a step returns before that is done."""
    device = torch.device("cuda", 0)
    moved = HostEnv(flashdqn.make_env("snake", 4), device)
    moved.reset(0)
    action = torch.zeros(4, dtype=torch.int64, device=device)
    moved.step(action)
    torch.cuda.synchronize()
    other = torch.cuda.Stream(device)
    done = torch.cuda.Event()
    with torch.cuda.stream(other):
        torch.cuda._sleep(2_000_000_000)
        done.record(other)
    for _ in range(5):
        moved.step(action)
    assert not done.query()
    torch.cuda.synchronize()


def test_causes_are_the_environments_own() -> None:
    game = build_env(base_config("snake").env, 2, CPU)
    assert get_cause_names(game) == ("wall", "self", "entrapment", "timeout", "win")
    assert get_cause_names(HostEnv(game, CPU)) == get_cause_names(game)
    assert get_cause_names(FrameStack(game, 2)) == get_cause_names(game)
    assert get_cause_names(MaskedBandit(2)) == ()
