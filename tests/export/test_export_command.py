"""`flashdqn export` and what follows from it: agreement, games, files, mistakes; acting without PyTorch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flashdqn
from flashdqn import Agent, Run
from flashdqn.cli import main as cli
from flashdqn.compute.seeds import purpose_seed
from flashdqn.core.errors import CheckpointError, ConfigError, EnvError
from flashdqn.export.flow import Wanted, export_policy
from flashdqn.export.measure import measure_agreement, play_games
from flashdqn.export.observations import Observations, collect_observations

pytest.importorskip("onnxscript", reason="needs the extra `export`")

QUICK = ("--observations", "500", "--episodes", "8")


@pytest.fixture(scope="module")
def file(finished_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("export") / "policy.onnx"
    done = export_policy(Wanted(finished_run.path, out=out, observations=2000, episodes=100))
    torch_row, onnx_row = done.rows
    assert onnx_row.agreement.actions > 0.999
    assert onnx_row.agreement.observations >= 2000
    assert onnx_row.agreement.largest_difference < 1e-3
    assert onnx_row.games.mean_score == pytest.approx(torch_row.games.mean_score, abs=0.5)
    assert torch_row.games.mean_score == pytest.approx(finished_run.score, abs=0.5)  # the same games
    assert onnx_row.size == out.stat().st_size
    return out


def test_the_file_says_what_it_is(file: Path, finished_run: Run) -> None:
    about = flashdqn.load_onnx(file).description
    assert (about.task, about.preset, about.head) == ("snake", "snake", "scalar")
    assert about.env["size"] == 6
    assert about.observation_shape == (11,)
    assert about.actions == ("straight", "right", "left")
    assert about.score == finished_run.score
    assert about.steps == int(finished_run.summary["best_checkpoint"])
    assert about.version == flashdqn.__version__


def test_it_acts_as_the_agent_does_on_one_and_on_many(file: Path, finished_run: Run) -> None:
    theirs, ours = Agent.from_onnx(file), flashdqn.load(finished_run.path, "cpu")
    obs = collect_observations(ours, 300, seed=1).obs
    assert theirs.act(obs).tolist() == ours.act(obs).tolist()
    assert theirs.act(obs.astype(np.float64)).tolist() == theirs.act(obs.tolist()).tolist()
    np.testing.assert_allclose(theirs.q(obs), ours.q(obs).numpy(), atol=1e-4)
    assert type(theirs.act(obs[0])) is int
    assert theirs.q(obs[0]).shape == (3,)
    for shape in ((), (3,), (2, 3), (2, 2, 11)):
        with pytest.raises(EnvError, match=r"shape \[11\].*got"):
            theirs.act(np.zeros(shape, dtype=np.float32))
    with pytest.raises(EnvError, match="no input for a mask"):
        theirs.act(obs[0], [True, True, False])


def test_acting_needs_no_pytorch(file: Path) -> None:
    code = f"""
import sys
sys.modules["torch"] = None  # importing it would fail now
import numpy, flashdqn
from flashdqn import Agent
agent = flashdqn.load_onnx({str(file)!r})
actions = agent.act(numpy.zeros((5, 11), numpy.float32))
assert actions.shape == (5,) and agent.act(numpy.zeros(11)) == actions[0]
assert Agent.from_onnx({str(file)!r}).description == agent.description
heavy = {{"numba", "tyro", "rich", "onnx", "matplotlib"}} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_there_in_any_order() -> None:
    code = """
import sys, flashdqn
assert "torch" not in sys.modules
import flashdqn.runs.folder  # the package must not take the function's place
import flashdqn.api
assert flashdqn.train is flashdqn.api.train
assert all(getattr(flashdqn, name) is not None for name in flashdqn.__all__)
assert set(flashdqn.__all__) <= set(dir(flashdqn))
assert flashdqn.envs.check_env and callable(flashdqn.train)
try:
    flashdqn.trian
except AttributeError as error:
    assert "trian" in str(error)
else:
    raise SystemExit("no error")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_observations_are_those_in_which_the_agent_acts(finished_run: Run) -> None:
    agent = flashdqn.load(finished_run.path, "cpu")
    one = collect_observations(agent, 400, seed=7, boards=1)
    env = flashdqn.make_env("snake", 1, **vars(finished_run.config.env))
    obs, over = env.reset(7), False
    expected = []
    while len(expected) < 400:
        if not over:
            expected.append(obs[0].numpy().copy())
        step = env.step(agent.act(obs))
        obs, over = step.obs, bool(step.terminated | step.truncated)
    assert np.array_equal(one.obs, np.array(expected))


class Fixed:
    """Answers with given numbers."""

    def __init__(self, action: Any, q: Any) -> None:
        self.action, self.values = np.array(action), np.array(q, np.float32)

    def answer(self, batch: Any, mask: Any) -> Any:
        rows = batch[:, 0].astype(int)
        return self.action[rows], self.values[rows]


def test_agreement_by_hand() -> None:
    rows = Observations(np.arange(4)[:, None], np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1], [0, 0, 1]], bool))
    reference = Fixed([2, 2, 0, 2], [[0, 1, 3], [1, 9, 2], [5, 4, 4], [7, 7, 1]])
    other = Fixed([2, 0, 0, 2], [[0, 1, 3], [1, 9, 2.5], [5, 4, 4], [7, 7, 1]])
    result = measure_agreement(other, reference, rows, chunk=3)
    assert result.actions == 0.75
    assert result.largest_difference == 0.5
    assert result.regret == pytest.approx(0.25)  # 2 − 1 in one row of four
    assert result.mean_gap == pytest.approx((2 + 1 + 1) / 3)  # the last row has a single legal action


def test_games_are_played_by_the_players_own_actions(finished_run: Run) -> None:
    agent = flashdqn.load(finished_run.path, "cpu")

    class Straight:
        def answer(self, batch: Any, mask: Any) -> Any:
            return np.zeros(len(batch), np.int64), np.full((len(batch), 3), -1.0, np.float32)

    seed = purpose_seed(agent.config.seed, "judgement")
    games = play_games(agent, Straight(), 12, seed)
    assert games.outcomes["wall"] == 1.0
    assert games.mean_length < 6


def test_the_command_prints_a_table(run_copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.dispatch_command(["export", str(run_copy), "--int8", *QUICK]) == 0
    out = capsys.readouterr().out
    for text in ("PyTorch", "ONNX", "int8 dynamic", "int8 static", "Kept ", "policy-int8.onnx", "0 straight"):
        assert text in out
    made = flashdqn.load_onnx(run_copy / "policy-int8.onnx").description
    assert made.precision in ("int8 dynamic", "int8 static")
    assert not list(run_copy.glob(".*.onnx"))


def test_the_command_prints_json(run_copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["export", str(run_copy), "--to", "torchscript", "--checkpoint", "last", "--json", *QUICK]
    assert cli.dispatch_command(words) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["file"] == str(run_copy / "policy.pt")
    assert [row["name"] for row in data["rows"]] == ["PyTorch", "TorchScript"]
    assert data["rows"][1]["actions"] == 1.0
    assert data["rows"][1]["games"] == data["rows"][0]["games"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--int8", "--to", "torchscript"), "--int8 is made for ONNX"),
        (("--checkpoint", "77"), "has no checkpoint '77'; there are best, last, and these steps: "),
        (("--observations", "0"), "--observations must be at least 1"),
        (("--out", "no/such/folder/p.onnx"), "There is no folder 'no/such/folder'"),
        (("--out", "."), "is a folder"),
        (("--out", "p.pdf"), "--out 'p.pdf' is no name for a file of onnx: end it in .onnx."),
        (("--out", "p.pt"), "add --to torchscript, or end it in .onnx"),
        (("--format", "onnx"), "did you mean '--to'"),
        (("--to", "tensorrt"), "--to"),
        (("--in8",), "did you mean '--int8'"),
    ],
)
def test_mistakes_are_one_sentence(run_copy: Path, words: tuple[str, ...], message: str) -> None:
    with pytest.raises((ConfigError, CheckpointError), match=message):
        cli.dispatch_command(["export", str(run_copy), *words])


def test_a_checkpoint_by_its_step_or_path(run_copy: Path, tmp_path: Path) -> None:
    points = sorted(path.name for path in (run_copy / "checkpoints").glob("[0-9]*"))
    for run, name in ((run_copy, str(int(points[0]))), (run_copy / "checkpoints" / points[0], "best")):
        out = tmp_path / "one.pt"
        done = export_policy(
            Wanted(run, "torchscript", out=out, checkpoint=name, observations=20, episodes=2)
        )
        assert done.description.steps == int(points[0])


@pytest.mark.parametrize("missing", ["onnxscript", "onnxruntime"])
def test_missing_packages_are_named(
    missing: str, run_copy: Path, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=rf"{missing}.*pip install 'flashdqn\[export\]'"):
        export_policy(Wanted(run_copy, observations=20, episodes=2))
    if missing == "onnxruntime":
        with pytest.raises(ConfigError, match="onnxruntime is not installed"):
            flashdqn.load_onnx(file)


def test_the_example_plays_a_game_without_pytorch(tmp_path: Path) -> None:
    small = {"steps": 800, "envs": 4, "learn.starts": 100, "network.hidden": [8], "train_ratio": 0.1}
    quiet = {"log.tensorboard": False, "runtime.warmup": False, "eval.every": 0, "eval.episodes": 2}
    run = flashdqn.train("cartpole", progress=False, out=str(tmp_path), device="cpu", **small, **quiet)
    out = tmp_path / "cartpole.onnx"
    export_policy(Wanted(run.path, out=out, observations=50, episodes=2))
    example = Path(__file__).parents[2] / "examples" / "play_onnx.py"
    code = f"""
import runpy, sys
sys.modules["torch"] = None
sys.argv = ["play_onnx.py", {str(out)!r}]
runpy.run_path({str(example)!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"cartpole, trained for \d+ steps: \d+ points\n", done.stdout)
