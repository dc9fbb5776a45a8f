"""An agent in one file, and games on other environments."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

import flashdqn
from flashdqn import Agent, CheckpointError, ConfigError, EnvError, Run
from flashdqn.agent.judge import join_evaluations
from flashdqn.compute.device import free_bytes
from flashdqn.core.archive import write_archive
from flashdqn.core.files import compute_checksum
from flashdqn.training.evaluate import Evaluation


@pytest.fixture(scope="module")
def agent(finished_run: Run) -> Agent:
    return finished_run.agent("cpu")


def read_parts(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def test_it_comes_back_whole(agent: Agent, tmp_path: Path) -> None:
    path = agent.save(tmp_path / "agent.zip")
    again = flashdqn.load(path, "cpu")
    assert again.steps == agent.steps > 0
    assert again.config.env == agent.config.env
    assert all(
        torch.equal(tensor, again.network.state_dict()[name])
        for name, tensor in agent.network.state_dict().items()
    )
    obs = np.random.default_rng(1).random((20, *agent.obs_spec.shape), dtype=np.float32)
    assert again.act(obs).tolist() == agent.act(obs).tolist()
    assert flashdqn.evaluate(path, episodes=5) == flashdqn.evaluate(agent, episodes=5)
    parts = read_parts(path)
    assert set(parts) == {"agent.json", "weights.safetensors"}
    assert json.loads(parts["agent.json"])["config"]["out"] == "runs"  # no folder of this machine


def test_saving_says_where_it_cannot(agent: Agent, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it is a folder"):
        agent.save(tmp_path)
    with pytest.raises(ConfigError, match="no folder"):
        agent.save(tmp_path / "nowhere" / "agent.zip")


def sign(about: dict[str, Any]) -> bytes:
    about.pop("checksum", None)
    return json.dumps(about | {"checksum": compute_checksum(about)}).encode()


def spoil_weights(parts: dict[str, bytes]) -> None:
    parts["weights.safetensors"] = parts["weights.safetensors"][:-1] + b"\x7f"


def spoil_settings(parts: dict[str, bytes]) -> None:
    parts["agent.json"] = parts["agent.json"].replace(b'"envs": 16', b'"envs": 17')


def change_weights(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[dict[str, bytes]], None]:
    """Weights that are changed, with a checksum that fits them."""

    def spoil(parts: dict[str, bytes]) -> None:
        weights = {name: change(tensor) for name, tensor in load(parts["weights.safetensors"]).items()}
        exchange_weights(save(weights))(parts)

    return spoil


def exchange_weights(data: bytes) -> Callable[[dict[str, bytes]], None]:
    def spoil(parts: dict[str, bytes]) -> None:
        parts["weights.safetensors"] = data
        change_about(lambda about: about.update(weights=hashlib.sha256(data).hexdigest()))(parts)

    return spoil


def write_tensor_header(kind: str) -> bytes:
    header = json.dumps({"x": {"dtype": kind, "shape": [1], "data_offsets": [0, 1]}}).encode()
    return len(header).to_bytes(8, "little") + header + b"0"


def change_about(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, bytes]], None]:
    def spoil(parts: dict[str, bytes]) -> None:
        about = json.loads(parts["agent.json"])
        change(about)
        parts["agent.json"] = sign(about)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_weights, "does not match its checksum"),
        (spoil_settings, "does not match its own checksum"),
        (change_about(lambda about: about.update(format="flashdqn-agent-9")), "must say format"),
        (change_about(lambda about: about.pop("steps")), "lacks a part"),
        (change_about(lambda about: about.update(config=[])), "lacks a part"),
        (change_about(lambda about: about["config"].update(envs="x")), "envs"),
        (change_about(lambda about: about["config"]["env"].update(features="flood")), "do not fit"),
        (change_weights(lambda x: x * torch.nan), "holds NaN"),
        (change_weights(lambda x: x.half()), "must be torch.float32, and is torch.float16"),
        (exchange_weights(write_tensor_header("F8_E8M0")), "cannot be read: weights.safetensors"),
        (change_about(lambda about: about["config"]["explore"].update(over="1e-999999999")), "whole number"),
        (lambda parts: parts.update({"agent.json": b"[" * 100_000}), "not an agent"),
        (lambda parts: parts.update({"agent.json": b"\xff"}), "not an agent"),
        (lambda parts: parts.update({"more.py": b"print(1)"}), "nothing else"),
    ],
)
def test_damage_is_one_sentence(
    agent: Agent, tmp_path: Path, spoil: Callable[[dict[str, bytes]], None], message: str
) -> None:
    path = agent.save(tmp_path / "agent.zip")
    parts = read_parts(path)
    spoil(parts)
    write_archive(path, parts)
    with pytest.raises(flashdqn.FlashDQNError, match=message) as caught:
        flashdqn.load(path, "cpu")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_larger_than_the_memory_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "agent.zip"
    with path.open("wb") as file:
        file.truncate(free_bytes(torch.device("cpu")) // 2)  # takes no space on the disk
    with pytest.raises(CheckpointError, match="bytes of free memory that is too much"):
        flashdqn.load(path)


def test_code_that_it_names_is_not_imported(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil_torso.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    path = agent.save(tmp_path / "agent.zip")
    parts = read_parts(path)
    change_about(lambda about: about["config"]["network"].update(torso="evil_torso:Net"))(parts)
    write_archive(path, parts)
    for given in ({}, {"env": "snake"}, {"env": {"size": 6}}):
        with pytest.raises(ConfigError, match=r"asks to import 'evil_torso:Net'.*trust=True"):
            flashdqn.load(path, "cpu", **given)


def test_what_is_no_agent(tmp_path: Path) -> None:
    (tmp_path / "agent.zip").write_text("hello")
    with pytest.raises(CheckpointError, match="not an agent that can be read"):
        flashdqn.load(tmp_path / "agent.zip")


def test_exploring_draws_legal_actions(agent: Agent) -> None:
    obs = torch.zeros(300, *agent.obs_spec.shape)
    mask = torch.tensor([True, False, True]).expand(300, 3)
    assert set(agent.act(obs, mask, eps=1.0).tolist()) == {0, 2}
    assert len(set(agent.act(obs, eps=0.5).tolist())) == 3
    assert agent.act(obs, eps=0.0).tolist() == agent.act(obs).tolist()
    assert type(agent.act(obs[0], eps=1.0)) is int
    with pytest.raises(ConfigError, match="between 0 and 1"):
        agent.act(obs, eps=1.5)


def test_masks_of_the_wrong_form(agent: Agent) -> None:
    obs = np.zeros(agent.obs_spec.shape, dtype=np.float32)
    with pytest.raises(EnvError, match=r"must have the shape \[3\] here, and has \[2\]"):
        agent.act(obs, [True, False])
    with pytest.raises(EnvError, match="at least one legal action"):
        agent.act(obs, [False, False, False])


def test_other_boards_and_boards_that_do_not_fit(agent: Agent) -> None:
    own = flashdqn.evaluate(agent, episodes=10)
    assert flashdqn.evaluate(agent, env={"size": 6}, episodes=10) == own
    assert flashdqn.evaluate(agent, env={"size": 12}, episodes=10) != own
    with pytest.raises(
        EnvError, match=r"shape \[11\] and has 3 actions.*does not fit snake, with \[14\] and 3"
    ):
        flashdqn.evaluate(agent, env={"features": "flood"}, episodes=2)
    with pytest.raises(EnvError, match="does not fit CartPole-v1"):
        flashdqn.evaluate(agent, env="CartPole-v1", episodes=2)
    with pytest.raises(ConfigError, match="did you mean 'size'"):
        flashdqn.evaluate(agent, env={"sise": 3})
    with pytest.raises(ConfigError, match="episodes must be a whole number of at least 1"):
        flashdqn.evaluate(agent, episodes=0)


def test_games_one_after_the_other_add_up() -> None:
    one = [Evaluation(1, 0, score, 0.0, score, 4.0, {"won": score > 1}) for score in (1.0, 2.0, 6.0)]
    cut = Evaluation(0, 1, float("nan"), 0.0, float("nan"), float("nan"), {"won": float("nan")})
    joined = join_evaluations([*one, cut])
    assert (joined.episodes, joined.unfinished, joined.mean_score, joined.mean_length) == (3, 1, 3.0, 4.0)
    assert joined.score_error == pytest.approx(np.std([1, 2, 6], ddof=1) / 3**0.5)
    assert joined.outcomes["won"] == pytest.approx(2 / 3)
    assert join_evaluations([cut, cut]).unfinished == 2
