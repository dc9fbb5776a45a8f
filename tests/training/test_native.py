"""Loops compiled for the CPU against the plain tensor code that says what they must do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_envs import MaskedBandit

from flashdqn.config import LearnConfig, NetworkConfig
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.ops import choose_epsilon_greedy
from flashdqn.core.types import Step
from flashdqn.envs import ObsSpec, build_env
from flashdqn.learn.adam import Adam
from flashdqn.learn.adam_cpu import NativeAdam
from flashdqn.learn.flat import Flat
from flashdqn.networks import build_network
from flashdqn.replay.samplers import TRIES, UniformSampler
from flashdqn.replay.samplers_cpu import NativePick
from flashdqn.training.assemble import Parts, assemble_parts
from flashdqn.training.backends.cpu.policy import NativePolicy
from flashdqn.training.backends.cpu.record import NativeRecord

CPU = torch.device("cpu")


def make_parts(env: str, num_envs: int, rows: int, n_step: int = 1) -> Parts:
    changes = {
        "envs": num_envs,
        "replay.capacity": rows * num_envs,
        "replay.n_step": n_step,
        "learn.gamma": 0.9,
    }
    if env == "masked":
        return assemble_parts(
            apply_settings(base_config("snake"), changes), MaskedBandit(num_envs=num_envs, time_limit=4)
        )
    config = apply_settings(base_config("snake"), changes | {"env.features": env})
    return assemble_parts(config, build_env(config.env, num_envs, CPU))


def random_step(parts: Parts, g: torch.Generator) -> tuple[torch.Tensor, Step, torch.Tensor]:
    """Anything that an environment may answer; outcomes of unfinished episodes are NaN."""
    num, spec = parts.ring.num_envs, parts.env.obs_spec
    obs = (torch.rand((num, *spec.shape), generator=g) * 255).to(spec.dtype)
    ends = torch.rand((2, num), generator=g) < 0.15
    terminated, truncated = ends[0] & ~parts.ring.ended, ends[1] & ~ends[0] & ~parts.ring.ended
    reward = torch.randn(num, generator=g).masked_fill(parts.ring.ended, 0.0)
    mask = None
    if parts.ring.mask is not None:
        mask = torch.rand((num, parts.env.num_actions), generator=g) < 0.7
    outcomes = torch.full((num, len(parts.env.outcome_names)), float("nan"))
    over = terminated | truncated
    outcomes[over] = torch.rand((int(over.sum()), outcomes.shape[1]), generator=g)
    action = torch.randint(parts.env.num_actions, (num,), generator=g)
    return action, Step(obs, reward, terminated, truncated, mask), outcomes


def played(parts: Parts, steps: int, seed: int, native: bool) -> Parts:
    record = NativeRecord(parts.collector) if native else parts.collector.record
    g = torch.Generator().manual_seed(seed)
    parts.collector.start(0)
    for _ in range(steps):
        record(*random_step(parts, g))
    return parts


def everything(parts: Parts) -> dict[str, torch.Tensor]:
    state = parts.ring.state_dict() | {"running": parts.metrics.running, "sums": parts.metrics.sums}
    state |= {"totals": parts.counts.totals, "obs": parts.collector.obs, "ring obs": parts.ring.obs}
    return state if parts.collector.mask is None else state | {"seen mask": parts.collector.mask}


@pytest.mark.parametrize("env", ["basic", "grid", "masked"])
@given(num_envs=st.integers(1, 5), rows=st.integers(1, 6), steps=st.integers(0, 15), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=25)
def test_recording(env: str, num_envs: int, rows: int, steps: int, seed: int) -> None:
    plain = everything(played(make_parts(env, num_envs, rows), steps, seed, native=False))
    fast = everything(played(make_parts(env, num_envs, rows), steps, seed, native=True))
    assert plain.keys() == fast.keys()
    for name, tensor in plain.items():
        if tensor.is_floating_point() and name in ("sums", "running"):
            torch.testing.assert_close(fast[name], tensor, rtol=1e-5, atol=1e-5, msg=name)
        else:
            assert torch.equal(fast[name], tensor), name


@pytest.mark.parametrize("env", ["basic", "grid", "masked"])
@given(
    num_envs=st.integers(1, 5),
    rows=st.integers(4, 9),
    more=st.integers(0, 12),
    n_step=st.integers(1, 4),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=25)
def test_picking(env: str, num_envs: int, rows: int, more: int, n_step: int, seed: int) -> None:
    parts = played(make_parts(env, num_envs, rows, n_step), n_step + more, seed, native=False)
    sampler = parts.sampler
    assert isinstance(sampler, UniformSampler)
    g = torch.Generator().manual_seed(seed)
    bits = torch.empty((TRIES, 40), dtype=torch.int64).random_(generator=g)
    plain, fast = sampler.pick(bits), NativePick(sampler)(bits)
    assert torch.equal(plain.index, fast.index)
    assert torch.equal(plain.weight, fast.weight)
    real = plain.weight > 0  # what counts for nothing may hold anything
    for name, expected in plain.transition._asdict().items():
        got = getattr(fast.transition, name)
        if expected is None:
            assert got is None
        else:
            torch.testing.assert_close(got[real], expected[real], rtol=1e-6, atol=1e-6, msg=name)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
@given(num_envs=st.integers(1, 9), actions=st.integers(1, 6), eps=st.floats(0, 1), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=25)
def test_choosing(
    masked: bool, dtype: torch.dtype, num_envs: int, actions: int, eps: float, seed: int
) -> None:
    g = torch.Generator().manual_seed(seed)
    network = build_network(NetworkConfig(hidden=(16, 8)), ObsSpec((2, 3), dtype), actions, g)
    obs = (torch.rand((num_envs, 2, 3), generator=g) * 255).to(dtype)
    mask = None
    if masked:
        mask = torch.rand((num_envs, actions), generator=g) < 0.5
        mask[:, 0] |= ~mask.any(1)
    rates, luck = torch.full((num_envs,), eps), torch.rand((2, num_envs), generator=g)
    with torch.no_grad():
        expected = choose_epsilon_greedy(network(obs), mask, rates, luck)
    assert torch.equal(NativePolicy(network, num_envs)(obs, mask, rates, luck), expected)


def test_batches_do_not_share_memory() -> None:
    sampler = played(make_parts("basic", 4, 8), 8, 0, native=True).sampler
    assert isinstance(sampler, UniformSampler)
    pick = NativePick(sampler)
    first = sampler.group(1, 16, pick)
    copies = [column.clone() for column in first.transition[:5]]
    sampler.group(1, 16, pick)
    for column, copy in zip(first.transition[:5], copies, strict=True):
        assert torch.equal(column, copy)


@pytest.mark.parametrize(
    "change",
    [{}, {"optimizer": "adamw", "weight_decay": 0.1}, {"grad_clip": 0.0}, {"adam_eps": 0.01}, {"tau": 0.1}],
    ids=str,
)
def test_adam_in_one_pass(change: dict[str, Any]) -> None:
    tau = change.pop("tau", 0.0) if "tau" in change else 0.0
    config = LearnConfig(**{"grad_clip": 0.5} | change)
    flats = [Flat(torch.nn.Linear(7, 5)) for _ in range(2)]
    flats[1].values.copy_(flats[0].values)
    lr = torch.tensor(0.01)
    plain, fast = (Adam(config, flat, lr) for flat in flats)
    targets = [flat.values.clone() for flat in flats]
    one_pass = NativeAdam(fast, targets[1], tau)
    g = torch.Generator().manual_seed(0)
    for step in range(30):
        lr.fill_(0.01 / (1 + step))
        gradient = torch.randn(len(flats[0].values), generator=g)
        for flat in flats:
            flat.gradient.copy_(gradient)
        norm = gradient.norm()
        if config.grad_clip:
            flats[0].gradient.mul_((config.grad_clip / (norm + 1e-6)).clamp(max=1))
        plain.step()
        targets[0].lerp_(flats[0].values, tau)
        one_pass(norm.item())
    for ours, theirs in (
        (flats[1].values, flats[0].values),
        (fast.second, plain.second),
        (targets[1], targets[0]),
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert float(fast.steps) == 30
