"""The examples work as they stand."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from flashdqn.config import Config
from flashdqn.config.settings import apply_settings
from flashdqn.envs import check_env
from flashdqn.training.session import SessionEnd, start_run

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


#: Changed about a training that an example starts, so that it ends in a second.
QUICK: dict[str, Any] = {
    "device": "cpu",
    "log.tensorboard": False,
    "log.game": False,
    "runtime.threads": 1,
    "runtime.mode": "eager",
    "runtime.warmup": False,
}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("train_own_env", "6, 7]"),
        ("stop_early", "ended by score: "),
        ("save_and_load", "only 0 is legal:  0"),
        ("figures", "best evaluation: "),
        ("judge_elsewhere", "does not fit snake, with [3, 8, 8] and 3"),
        ("go_on_later", "third part:  3,0"),
    ],
)
def test_the_programs_on_the_python_interface(
    name: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def start_quickly(config: Config, *parts: Any) -> SessionEnd:
        return start_run(apply_settings(config, QUICK), *parts)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flashdqn.api.start_run", start_quickly)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert said in capsys.readouterr().out


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a kernel of its own, from a folder of its own; what a cell raises fails the test."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(EXAMPLES / "first_hour.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = [str(output.get("text", "")) + str(output.get("data", "")) for output in outputs]
    for words in (
        "ended by ",
        "<progress",
        "<iframe srcdoc=",
        "dataframe",
        "image/png",
        "Evaluation(episodes=5",
    ):
        assert any(words in text for text in shown), words
    assert not any("stderr" in str(output.get("name", "")) for output in outputs)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_it_plays_the_same_on_cuda() -> None:
    game = runpy.run_path(str(EXAMPLES / "own_game.py"))
    cpu, cuda = game["Coins"](8), game["Coins"](8, "cuda")
    for _ in range(70):
        action = torch.ones(8, dtype=torch.int64)
        ours, theirs = cpu.step(action), cuda.step(action.cuda())
        assert torch.equal(ours.obs, theirs.obs.cpu())
        assert torch.equal(ours.reward, theirs.reward.cpu())
