"""An ONNX file may be a stranger's: what it says of itself, where its weights lie, and what its graph is."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flashdqn
from flashdqn.agent.description import Description
from flashdqn.core.errors import CheckpointError

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

ABOUT = Description(
    task="snake", preset="snake", env={}, observation_shape=(4,), observation_dtype="float32",
    actions=("left", "right"), first_action=0, masked=False, head="q", precision="float32", score=None, steps=1,
    weights="0" * 16, version="1",
)  # fmt: skip


def write_policy(
    file: Path, texts: Mapping[str, str] | None = None, outside: str = "", q: str = "q", inputs: int = 4
) -> Path:
    """A policy of one layer; its weights may lie in a file outside."""
    make, kinds = onnx.helper, onnx.TensorProto
    weights = make.make_tensor(
        "w", kinds.FLOAT, (inputs, 2), np.zeros(2 * inputs, np.float32).tobytes(), raw=True
    )
    if outside:
        weights.ClearField("raw_data")
        weights.data_location = kinds.EXTERNAL
        for key, value in {"location": outside, "offset": "0", "length": "32"}.items():
            weights.external_data.add(key=key, value=value)
    graph = make.make_graph(
        [
            make.make_node("MatMul", ["obs", "w"], [q]),
            make.make_node("ArgMax", [q], ["action"], axis=1, keepdims=0),
        ],
        "policy",
        [make.make_tensor_value_info("obs", kinds.FLOAT, ["batch", inputs])],
        [
            make.make_tensor_value_info("action", kinds.INT64, ["batch"]),
            make.make_tensor_value_info(q, kinds.FLOAT, ["batch", 2]),
        ],
        [weights],
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)
    for key, value in {**ABOUT.to_texts(), **(texts or {})}.items():
        model.metadata_props.add(key=key, value=value)
    file.write_bytes(model.SerializeToString())
    return file


def test_a_plain_file_plays(tmp_path: Path) -> None:
    agent = flashdqn.load_onnx(write_policy(tmp_path / "a.onnx"))
    assert agent.act(np.ones(4)) == 0
    assert dataclasses.asdict(agent.description) == dataclasses.asdict(ABOUT)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("observation_shape", 5), ("observation_shape", "abcd"), ("observation_shape", [-1]), ("actions", 7),
        ("actions", "xy"), ("actions", [1, 2]), ("actions", []), ("observation_dtype", "object"), ("masked", "yes"),
        ("masked", True), ("observation_dtype", 3), ("env", []), ("score", "x"), ("first_action", 2**70),
        ("steps", -1), ("head", "\x1b[2J"), ("actions", ["a", "b", "c"]), ("observation_shape", [7]),
    ],
)  # fmt: skip
def test_a_description_that_cannot_be(tmp_path: Path, name: str, value: Any) -> None:
    file = write_policy(tmp_path / "a.onnx", {name: json.dumps(value)})
    with pytest.raises(CheckpointError, match=r"a\.onnx"):
        flashdqn.load_onnx(file)


def test_a_description_without_an_end(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nested too deeply"):
        flashdqn.load_onnx(write_policy(tmp_path / "a.onnx", {"env": "[" * 100_000}))


def test_damage_is_one_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = write_policy(tmp_path / "a.onnx")
    whole = file.read_bytes()
    for place in range(0, len(whole), 7):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x80]) + whole[place + 1 :])
        with contextlib.suppress(CheckpointError):
            flashdqn.load_onnx(file).act(np.ones(4))
    assert capfd.readouterr() == ("", "")


def test_no_other_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "near.bin").write_bytes(bytes(32))
    os.mkfifo(tmp_path / "pipe")
    for outside in ("near.bin", "pipe", "../near.bin", str(tmp_path / "near.bin")):
        with pytest.raises(CheckpointError, match="cannot be opened as an ONNX file"):
            flashdqn.load_onnx(write_policy(tmp_path / "a.onnx", outside=outside))


def test_a_graph_with_other_ends(tmp_path: Path) -> None:
    for options in ({"q": "values"}, {"inputs": 9}):
        with pytest.raises(CheckpointError, match="its description and its graph differ"):
            flashdqn.load_onnx(write_policy(tmp_path / "a.onnx", **options))  # type: ignore[arg-type]


def test_pipes_and_folders_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    (tmp_path / "folder.onnx").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(CheckpointError, match=f"is a .*{name}"):
            flashdqn.load_onnx(tmp_path / f"{name}.onnx")
