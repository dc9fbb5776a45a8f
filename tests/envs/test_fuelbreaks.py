"""Fuel breaks against their naive twin, step by step; the identity of the return; the contract; bad input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from fuelbreaks_twin import TwinBoard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from snake_twin import PlainRandom, plain_key

from flashdqn.compute.kernels import cuda_available
from flashdqn.core.errors import CheckpointError, ConfigError, EnvError
from flashdqn.envs import build_env, build_evaluation_env
from flashdqn.envs.check import check_env
from flashdqn.envs.fuelbreaks import FuelBreaks, FuelBreaksConfig
from flashdqn.envs.fuelbreaks.config import parse_weather
from flashdqn.envs.fuelbreaks.fire.behavior import fire_behavior
from flashdqn.envs.fuelbreaks.landscape import LAYERS
from flashdqn.envs.fuelbreaks.observation import CHANNELS, layer_planes, scene_planes
from flashdqn.envs.fuelbreaks.scenes import build_scenes

slow = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True, max_examples=12
)
SMALL = FuelBreaksConfig(
    size=8,
    landscapes=3,
    held_out=2,
    weathers=("dry@90", "extreme"),
    budget=6,
    least_budget=2,
    fires=3,
    duration=90,
)


def play_both(config: FuelBreaksConfig, seed: int, steps: int, stray: float, held_out: bool) -> None:
    """Random actions, some of them not legal, on both."""
    env = FuelBreaks(config, 2, held_out=held_out)
    split = env.scenes.split(held_out)
    twins = [TwinBoard(config, env.scenes, split, PlainRandom(plain_key(seed, i))) for i in range(2)]
    obs = env.reset(seed)
    for twin in twins:
        twin.step(0)
    random = np.random.default_rng(seed)
    for _ in range(steps):
        actions = []
        for i, twin in enumerate(twins):
            assert env.mask[i].nonzero().squeeze(1).tolist() == sorted(twin.legal())
            assert stored(obs[i]) == (twin.scene, twin.left, twin.breaks)
            anything = random.random() < stray
            actions.append(random.integers(-2, 66) if anything else random.choice(sorted(twin.legal())))
        step = env.step(torch.tensor(actions))
        obs = step.obs
        assert not step.truncated.any()
        for i, twin in enumerate(twins):
            assert (float(step.reward[i]), bool(step.terminated[i])) == twin.step(int(actions[i]))
            if twin.over:
                assert env.outcomes[i].tolist() == outcomes(twin)


def stored(obs: torch.Tensor) -> tuple[int, int, set[int]]:
    """Scene, budget left and breaks, out of the bytes."""
    numbers = obs.tolist()
    bits = {c for c in range(8 * (len(numbers) - 4)) if numbers[4 + c // 8] >> c % 8 & 1}
    return numbers[0] + 256 * numbers[1], numbers[2] + 256 * numbers[3], bits


def outcomes(twin: TwinBoard) -> list[float]:
    area = np.float32(twin.config.fires * int(twin.worth.sum()))
    saved = np.float32(100 * (twin.first - twin.now)) / np.float32(max(twin.first, 1))
    share = np.float32(len(twin.breaks)) / np.float32(twin.config.size**2)
    return [float(x) for x in (saved, np.float32(twin.first) / area, np.float32(twin.now) / area, share)]


@slow
@given(
    st.integers(0, 2**32), st.sampled_from([0.0, 0.2]), st.booleans(), st.sampled_from(["none", "random"]),
    st.sampled_from(["area", "remaining"]),
)  # fmt: skip
def test_boards_do_what_their_twins_do(
    seed: int, stray: float, held_out: bool, maps: str, reward: str
) -> None:
    play_both(replace(SMALL, maps=maps, reward=reward), seed, steps=14, stray=stray, held_out=held_out)


def test_given_ignitions_are_lit_in_turn() -> None:
    env = FuelBreaks(SMALL, 1)
    shared = env.scenes.burnable.all(0).nonzero().squeeze(1).tolist()[:2]
    config = replace(SMALL, ignitions=tuple(f"{c // 8},{c % 8}" for c in shared))
    assert FuelBreaks(config, 2).spread.ignition.tolist() == [[shared[0], shared[1], shared[0]]] * 2
    play_both(config, seed=5, steps=10, stray=0.0, held_out=False)


def test_the_return_is_all_that_was_saved() -> None:
    """In whole cells, so that the identity is exact: Σ reward · area / 100 = burned before − burned after."""
    config = replace(SMALL, size=12, budget=9, least_budget=0.0, fires=7)
    env = FuelBreaks(config, 16)
    env.reset(3)
    before = env.spread.burned.sum(1).clone()
    ignitions, saved = env.spread.ignition.clone(), torch.zeros(16, dtype=torch.int64)
    generator = torch.Generator().manual_seed(0)
    for k in range(9):
        step = env.step(torch.multinomial(env.mask.float(), 1, generator=generator).squeeze(1))
        saved += (step.reward.double() * 7 * 144 / 100).round().to(torch.int64)
        assert torch.equal(env.spread.ignition, ignitions), "common random numbers: the fires stay the same"
        assert bool(step.terminated.all()) == (k == 8)
    assert torch.equal(before - env.spread.burned.sum(1), saved)
    assert (saved > 0).any()
    torch.testing.assert_close(env.outcomes[:, 0], 100.0 * saved / before, rtol=1e-6, atol=0)


def test_the_contract() -> None:
    check_env(FuelBreaks(SMALL, 5))
    check_env(FuelBreaks(replace(SMALL, budget=1, least_budget=0.0, fires=1), 3, held_out=True))


def test_planes_are_those_of_the_landscape_and_masks_follow_from_observations() -> None:
    env = FuelBreaks(replace(SMALL, maps="random"), 6)
    obs = env.reset(1)
    for _ in range(2):
        obs = env.step(env.mask.to(torch.uint8).argmax(1)).obs
    planes = env.decoder(obs)
    assert planes.shape == (6, len(CHANNELS), 8, 8)
    assert torch.equal(env.decoder.legal(obs), env.mask)
    for i in range(6):
        scene, left, breaks = stored(obs[i])
        land = env.scenes.landscapes[scene // 2]
        stakes = env.scenes.stakes[scene // 2]
        expected = np.zeros((17, 8, 8), dtype=np.float32)
        expected[:10] = layer_planes(land, stakes)
        expected[10:15] = scene_planes(fire_behavior(land, env.scenes.weathers[scene % 2]), stakes)
        for cell in breaks:
            expected[8:15, cell // 8, cell % 8] = 0.0
            expected[15, cell // 8, cell % 8] = 1.0
        expected[16] = np.float32(left) / np.float32(0.2 * 64)
        np.testing.assert_array_equal(planes[i].numpy(), expected)


def test_what_is_stored_is_small_and_landscapes_never_change() -> None:
    config = replace(
        SMALL, size=50, landscapes=2, held_out=0, weathers=("dry",), budget=0.01, least_budget=0.0
    )
    env = FuelBreaks(config, 2)
    assert env.obs_spec.nbytes == 317
    before = [getattr(land, layer).copy() for land in env.scenes.landscapes for layer in LAYERS]
    tables = env.scenes.spread.times.clone()
    for seed in range(2):
        env.reset(seed)
        for _ in range(26):
            env.step(env.mask.to(torch.uint8).argmax(1))
    after = [getattr(land, layer) for land in env.scenes.landscapes for layer in LAYERS]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert torch.equal(tables, env.scenes.spread.times)
    with pytest.raises(ValueError, match="read-only"):
        env.scenes.landscapes[0].fuel_model[0, 0] = 91


def test_training_and_evaluation_play_on_different_landscapes() -> None:
    train, games = (build(SMALL, 64, torch.device("cpu")) for build in (build_env, build_evaluation_env))
    scenes = [set(env.reset(0)[:, 0].tolist()) for env in (train, games)]
    assert scenes == [{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9}]
    alone = build_evaluation_env(replace(SMALL, held_out=0), 8, torch.device("cpu"))
    assert set(alone.reset(0)[:, 0].tolist()) <= {0, 1, 2, 3, 4, 5}


def test_a_state_of_other_boards_is_refused() -> None:
    env = FuelBreaks(SMALL, 2)
    with pytest.raises(CheckpointError, match="fires"):
        env.load_state_dict(FuelBreaks(replace(SMALL, fires=4), 2).state_dict())
    with pytest.raises(CheckpointError, match="holds"):
        env.load_state_dict({})


def test_weather_is_written_briefly() -> None:
    weather = parse_weather("extreme@225/60")
    assert (weather.wind_from, weather.wind_speed, weather.dead_1h) == (225.0, 60.0, 0.03)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "size": ({"size": 2}, "env.size must lie in 4 … 255"),
    "budget 0": ({"budget": 0.0}, "env.budget must be a share"),
    "budget 2.5": ({"budget": 2.5}, "whole number"),
    "budget too large": ({"budget": 65}, "up to 64"),
    "least": ({"least_budget": 7}, "more than env.budget"),
    "weather": ({"weathers": ("stormy",)}, "one of mild, dry, extreme"),
    "no weather": ({"weathers": ()}, "at least one"),
    "ignition": ({"ignitions": ("3;4",)}, "ROW,COLUMN"),
    "outside": ({"ignitions": ("3,8",)}, "outside the grid"),
    "fires": ({"fires": 0}, "env.fires"),
    "duration": ({"duration": 0.0}, "env.duration"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_settings_are_one_sentence(case: str) -> None:
    changes, message = BAD[case]
    with pytest.raises(ConfigError, match=message):
        replace(SMALL, **changes)


def test_a_budget_beyond_what_burns_is_refused() -> None:
    with pytest.raises(EnvError, match=r"budget is 64 breaks, and .* has \d+ cells where a break may lie"):
        FuelBreaks(replace(SMALL, landscapes=12, budget=64), 1)


def test_an_ignition_on_water_is_refused() -> None:
    land = FuelBreaks(SMALL, 1).scenes.landscapes[0]
    fuel = land.fuel_model.copy()
    fuel[:, :] = 102
    fuel[2, 3] = 98
    lake = replace(land, fuel_model=fuel, name="the lake")
    scenes = build_scenes([lake], [parse_weather("dry")], 1, torch.device("cpu"))
    with pytest.raises(EnvError, match="ignition 2,3 lies on water in the lake"):
        FuelBreaks(replace(SMALL, ignitions=("1,1", "2,3")), 1, scenes=scenes)


@pytest.mark.skipif(not cuda_available(), reason="needs CUDA and numba-cuda")
def test_cuda_plays_the_same_games() -> None:
    config = replace(SMALL, size=12, fires=5)
    here, there = FuelBreaks(config, 8, "cpu"), FuelBreaks(config, 8, "cuda")
    assert torch.equal(here.reset(4), there.reset(4).cpu())
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        action = torch.multinomial(here.mask.float() + 1e-9, 1, generator=generator).squeeze(1)
        one, other = here.step(action), there.step(action.cuda())
        for a, b in zip(one[:5], other[:5], strict=True):  # it tells no elapsed time
            assert torch.equal(a, b.cpu())
        assert torch.equal(here.outcomes, there.outcomes.cpu())
        assert torch.equal(here.decoder(one.obs), there.decoder(other.obs).cpu())


@pytest.mark.skipif(not cuda_available(), reason="needs CUDA and numba-cuda")
def test_a_cuda_graph_can_hold_its_steps() -> None:
    one, other = (FuelBreaks(replace(SMALL, size=12, fires=5), 8, "cuda") for _ in range(2))
    one.reset(4)
    other.reset(4)
    action = torch.zeros(8, dtype=torch.int64, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())  # the reset must have ended before this stream's step
    with torch.cuda.stream(stream):
        one.step(action)
    torch.cuda.synchronize()
    other.step(action)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        one.step(action)
        planes, legal = one.decoder(one._step.obs), one.decoder.legal(one._step.obs)
    for k in range(12):
        action.copy_(other.mask.to(torch.uint8).argmax(1) + k % 2)
        graph.replay()
        step = other.step(action)
        for a, b in zip(one._step[:5], step[:5], strict=True):
            assert torch.equal(a, b)
        assert torch.equal(planes, other.decoder(step.obs))
        assert torch.equal(legal, other.mask)
