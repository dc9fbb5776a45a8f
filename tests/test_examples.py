"""The examples work as they stand."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from flashdqn.envs import check_env

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_game_of_ones_own_keeps_the_contract_and_pays_for_coins(
    capsys: pytest.CaptureFixture[str],
) -> None:
    game = runpy.run_path(str(EXAMPLES / "own_game.py"))
    env = game["Coins"](num_envs=16)
    report = check_env(env, steps=100)
    assert report.truncated > 0
    assert report.terminated == 0
    obs, cells = env.reset(3), game["CELLS"]
    coins = 0.0
    for _ in range(game["STEPS"]):
        ahead = (obs[:, cells:].argmax(1) - obs[:, :cells].argmax(1)) % cells
        step = env.step((ahead <= cells // 2).long())  # the shorter way round
        obs = step.obs.clone()
        coins += float(step.reward.sum())
    assert bool(step.truncated.all())
    assert float(env.outcomes.sum()) == coins
    assert coins / 16 > 5  # a coin is at most six steps away


def test_it_runs_as_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "own_game.py"), run_name="__main__")
    assert "truncated" in capsys.readouterr().out


def test_the_networks_of_ones_own_run_as_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "own_network.py"), run_name="__main__")
    assert "Gated: [14] -> [128]" in capsys.readouterr().out


def test_the_variant_of_ones_own_runs_as_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "own_variant.py"), run_name="__main__")
    assert "omega 100: the mellowmax of [0.0, 1.0, 2.0] is 1.989" in capsys.readouterr().out


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_it_plays_the_same_on_cuda() -> None:
    game = runpy.run_path(str(EXAMPLES / "own_game.py"))
    cpu, cuda = game["Coins"](8), game["Coins"](8, "cuda")
    for _ in range(70):
        action = torch.ones(8, dtype=torch.int64)
        ours, theirs = cpu.step(action), cuda.step(action.cuda())
        assert torch.equal(ours.obs, theirs.obs.cpu())
        assert torch.equal(ours.reward, theirs.reward.cpu())
