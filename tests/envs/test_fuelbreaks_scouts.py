"""Scouts: fires that judge nothing, and whose paths the agent sees."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_fuelbreaks_stakes import downstream_value_by_walking

from flashdqn.compute.kernels import cuda_available
from flashdqn.envs.check import check_env
from flashdqn.envs.fuelbreaks import FuelBreaks, FuelBreaksConfig
from flashdqn.planning.flow import flow_bytes

ENV = FuelBreaksConfig(
    size=9, landscapes=4, held_out=2, weathers=("dry@0", "dry@90"), budget=6, fires=4, scouts=3, maps="random"
)
FIRST = 4 + 11  # the header, and a bit for each of 81 cells


def scale_by_logarithm(amount: int) -> int:
    """Eight steps for every doubling, from 1 / 16 of a unit on."""
    power = int(math.log2(amount))
    return 8 * power + int(8 * amount / 2**power) - 8


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6))
def test_the_agent_sees_what_burns_behind_each_cell_after_its_breaks(seed: int) -> None:
    env = FuelBreaks(ENV, 3)
    obs = env.reset(seed)
    assert env.scouts is not None
    for _ in range(8):  # beyond the end of an episode
        for board in range(3):
            scene = int(env.spread.table[board])
            worth = env.scenes.spread.worth[scene].tolist()
            behind = downstream_value_by_walking(env.scouts, worth, board)
            amounts = [16 * 81 * total // (3 * sum(worth)) + 1 for total in behind]
            assert obs[board, FIRST:].tolist() == [scale_by_logarithm(amount) for amount in amounts]
        obs = env.step(env.mask.to(torch.uint8).argmax(1)).obs


def test_scouts_judge_nothing_and_start_elsewhere() -> None:
    with_scouts, without = FuelBreaks(ENV, 5), FuelBreaks(replace(ENV, scouts=0), 5)
    with_scouts.reset(3)
    without.reset(3)
    assert torch.equal(with_scouts.spread.ignition, without.spread.ignition)
    assert with_scouts.scouts is not None
    assert not torch.equal(with_scouts.scouts.ignition, with_scouts.spread.ignition[:, :3])
    for _ in range(5):
        action = without.mask.to(torch.uint8).argmax(1)
        assert torch.equal(with_scouts.step(action).reward, without.step(action).reward)


def test_the_contract_and_a_saved_state_hold_with_scouts() -> None:
    check_env(FuelBreaks(ENV, 4))
    env, other = FuelBreaks(ENV, 4), FuelBreaks(ENV, 4)
    env.reset(1)
    env.step(env.mask.to(torch.uint8).argmax(1))
    other.load_state_dict(env.state_dict())
    for _ in range(9):
        action = env.mask.to(torch.uint8).argmax(1)
        assert torch.equal(env.step(action).obs, other.step(action).obs)


def test_the_network_reads_the_flow_as_one_more_plane() -> None:
    plain, env = FuelBreaks(replace(ENV, scouts=0), 2), FuelBreaks(ENV, 2)
    seen = env.decoder(env.reset(5))
    assert seen.shape == (2, 18, 9, 9)
    assert torch.equal(seen[:, :17], plain.decoder(plain.reset(5)))
    assert seen[:, 17].max() > 0
    assert torch.equal(env.decoder.legal(env.reset(5)), env.mask)


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=50), st.integers(1, 10**4))
def test_planning_counts_the_flow_as_the_environment_does(totals: list[int], unit: int) -> None:
    expected = [min(255, scale_by_logarithm(16 * total // unit + 1)) for total in totals]
    assert flow_bytes(np.array(totals, dtype=np.float64) / unit).tolist() == expected


@pytest.mark.skipif(not cuda_available(), reason="needs a CUDA device and numba-cuda")
@pytest.mark.parametrize("size", [9, 50, 70])  # the last is too large for the memory on the chip
def test_on_cuda_the_agent_sees_the_same(size: int) -> None:
    config = replace(ENV, size=size, budget=40, scouts=20)
    host, device = FuelBreaks(config, 5), FuelBreaks(config, 5, "cuda")
    assert torch.equal(host.reset(2), device.reset(2).cpu())
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        action = torch.rand(host.mask.shape, generator=generator).mul(host.mask).argmax(1)
        seen, expected = device.step(action.cuda()), host.step(action)
        assert torch.equal(seen.obs.cpu(), expected.obs)
        assert torch.equal(seen.reward.cpu(), expected.reward)
