"""A stranger's checkpoint whose checksums fit and whose numbers cannot be: compiled code would use them as indices.

Without the checks most of these end the process (a write outside of an array), or never return.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import flashdqn
from flashdqn.cli import main as cli
from flashdqn.core.contract import ObsSpec
from flashdqn.core.errors import CheckpointError
from flashdqn.core.files import read_signed_json, write_signed_json
from flashdqn.envs.sfc import layout
from flashdqn.envs.snake import rules
from flashdqn.replay.demonstrations import DemonstrationBuffer
from flashdqn.replay.ring import Ring
from flashdqn.runs import checkpoint
from flashdqn.runs.checkpoint import MANIFEST, STATE, WEIGHTS

CPU = torch.device("cpu")


def sign_file(point: Path, name: str) -> None:
    """Write the checksum of a changed file into its manifest."""
    data = (point / name).read_bytes()
    manifest = read_signed_json(point / MANIFEST)
    manifest["files"][name], manifest["bytes"][name] = hashlib.sha256(data).hexdigest(), len(data)
    write_signed_json(point / MANIFEST, manifest)


def forge_tensor(point: Path, key: str, change: Callable[[Tensor], Any]) -> None:
    state = load_file(point / STATE)
    change(state[key])
    save_file(state, point / STATE)
    sign_file(point, STATE)


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("ring.head", lambda x: x.fill_(2**40)),
        ("ring.head", lambda x: x.fill_(-5)),
        ("ring.filled", lambda x: x.fill_(2**62)),
        ("ring.action", lambda x: x.fill_(250)),
        ("ring.kind", lambda x: x.fill_(9)),
        ("env.state", lambda x: x[:, rules.HEAD].fill_(2**30)),
        ("env.state", lambda x: x[0, rules.LENGTH].zero_()),
        ("env.state", lambda x: x[:, rules.FOOD].fill_(-7)),
        ("env.body", lambda x: x.fill_(-30_000)),
        ("env.bits", lambda x: x.fill_(-1)),
        ("metrics.sums", lambda x: x.fill_(float("nan"))),
        ("learner.optimizer.steps", lambda x: x.fill_(float("nan"))),
    ],
)
def test_numbers_that_no_training_has_are_refused(
    run_copy: Path, key: str, change: Callable[[Tensor], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    point = checkpoint.list_checkpoints(run_copy / "checkpoints", with_state=True)[-1]
    forge_tensor(point, key, change)
    assert cli.answer_command(["train", "--resume", str(run_copy), "--steps", "1000000"]) == 2
    assert "state is damaged" in capsys.readouterr().err


def test_an_honest_state_still_fits(run_copy: Path) -> None:
    point = checkpoint.list_checkpoints(run_copy / "checkpoints", with_state=True)[-1]
    forge_tensor(point, "ring.head", lambda x: None)
    done = read_signed_json(point / MANIFEST)["step"]
    assert cli.answer_command(["train", "--resume", str(run_copy), "--steps", str(done + 100)]) == 0


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}},
        {"a": {"dtype": "F32", "shape": [0, 2**62, 2**60], "data_offsets": [0, 0]}},
    ],
)
def test_a_header_that_only_the_library_understands(run_copy: Path, header: dict[str, Any]) -> None:
    point = checkpoint.list_checkpoints(run_copy / "checkpoints")[-1]
    words = json.dumps(header).encode()
    body = b"x" * header["a"]["data_offsets"][1]
    (point / WEIGHTS).write_bytes(struct.pack("<Q", len(words)) + words + body)
    sign_file(point, WEIGHTS)
    with pytest.raises(CheckpointError, match="cannot be read"):
        flashdqn.load(point)


# ---- the games


def play(env: Any, steps: int) -> None:
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        legal = torch.ones(env.num_envs, env.num_actions) if env.mask is None else env.mask.float()
        env.step(torch.multinomial(legal, 1, generator=generator)[:, 0])


@pytest.mark.parametrize(
    ("name", "steps"), [("snake", 300), ("snake-grid", 60), ("sfc", 800), ("sfc-paper", 60)]
)
def test_what_a_game_saves_it_loads(name: str, steps: int) -> None:
    env = flashdqn.make_env(name, 8)
    for _ in range(steps // 20):
        env.load_state_dict(env.state_dict())
        play(env, 20)


def forge_request(field: int, value: int) -> Callable[[dict[str, Tensor]], Any]:
    return lambda state: state["request"][..., field].fill_(value)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state["state"][:, layout.DCS].fill_(2**20),
        lambda state: state["state"][:, layout.TURN].fill_(99),
        lambda state: state["state"][:, layout.ARRIVED].fill_(10**6),
        lambda state: state["state"][:, layout.REQUESTS].fill_(10**6),
        lambda state: state["state"][:, layout.LEFT].fill_(10**6),
        lambda state: state["hop"].fill_(-(10**6)),
        lambda state: state["hop"].zero_(),
        lambda state: state["order"].fill_(77),
        lambda state: state["head"].fill_(10**6),
        lambda state: state["tail"].fill_(3),
        lambda state: state["wheel"].fill_(0),
        lambda state: state["places"].fill_(-100),
        lambda state: state["busy"].fill_(-(10**6)),
        lambda state: state["idle"].fill_(-(10**6)),
        lambda state: state["demand"].fill_(-(10**6)),
        lambda state: state["unfinished"].fill_(-(10**6)),
        *(
            forge_request(field, 10**6)
            for field in (layout.CHAIN, layout.POSITION, layout.PLACE, layout.NEXT)
        ),
        *(forge_request(field, -9) for field in (layout.SOURCE, layout.TARGET, layout.BUNDLE)),
        forge_request(layout.NEXT, 0),
        lambda state: state["mask"].fill_(True),
        lambda state: state["mask"].logical_not_(),
    ],
)
def test_networks_that_cannot_be(change: Callable[[dict[str, Tensor]], Any]) -> None:
    env = flashdqn.make_env("sfc", 4)
    play(env, 40)
    state = env.state_dict()
    change(state)
    with pytest.raises(CheckpointError, match="state is damaged"):
        env.load_state_dict(state)


@pytest.mark.parametrize(
    ("part", "value"), [("scene", 10**6), ("scene", -1), ("ignition", 10**6), ("obs", 255)]
)
def test_fires_that_cannot_be(part: str, value: int) -> None:
    env = flashdqn.make_env("fuelbreaks-small", 2)
    state = env.state_dict()
    state[part].fill_(value)
    with pytest.raises(CheckpointError, match="state is damaged"):
        env.load_state_dict(state)


@pytest.mark.parametrize("name", ["explore", "replay"])
def test_a_generator_is_missing(run_copy: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    point = checkpoint.list_checkpoints(run_copy / "checkpoints", with_state=True)[-1]
    state = load_file(point / STATE)
    del state[f"generator.{name}"]
    save_file(state, point / STATE)
    sign_file(point, STATE)
    assert cli.answer_command(["train", "--resume", str(run_copy), "--steps", "1000000"]) == 2
    assert f"lacks random generators ({name})" in capsys.readouterr().err


def test_an_older_run_may_lack_a_generator(run_copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    point = checkpoint.list_checkpoints(run_copy / "checkpoints", with_state=True)[-1]
    state = load_file(point / STATE)
    del state["generator.replay"]
    save_file(state, point / STATE)
    sign_file(point, STATE)
    manifest = read_signed_json(point / MANIFEST)
    write_signed_json(point / MANIFEST, manifest | {"format": 1})
    command = ["train", "--resume", str(run_copy), "--steps", str(manifest["step"] + 100)]
    assert cli.answer_command(command) == 0
    assert "lacks random generators (replay): these begin anew" in capsys.readouterr().out


def test_terabytes_of_nothing_are_not_read(run_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point = checkpoint.list_checkpoints(run_copy / "checkpoints")[-1]
    size = 2**37
    with (point / WEIGHTS).open("r+b") as file:
        file.truncate(size)
    manifest = read_signed_json(point / MANIFEST)
    manifest["bytes"][WEIGHTS] = size
    write_signed_json(point / MANIFEST, manifest)
    monkeypatch.setattr(checkpoint, "hash_plain_file", lambda *_: pytest.fail("it was read"))
    with pytest.raises(CheckpointError, match="almost empty"):
        flashdqn.load(point)


def test_a_ring_takes_only_its_own_rows() -> None:
    ring = Ring(64, 4, ObsSpec((3,), torch.float32), 2, CPU)
    for change in ({"head": torch.tensor([40])}, {"kind": torch.zeros(1, 1, dtype=torch.uint8)}):
        with pytest.raises(CheckpointError, match="state is damaged"):
            ring.load_state_dict(ring.state_dict() | change)


def test_demonstrations_are_actions_of_the_game() -> None:
    kept = DemonstrationBuffer(8, ObsSpec((3,), torch.float32), 2, CPU)
    kept.filled.fill_(4)
    for change in ({"expert": torch.full((4,), 9)}, {"filled": torch.tensor(10**9)}):
        with pytest.raises(CheckpointError, match="state is damaged"):
            kept.load_state_dict(kept.state_dict() | change)
