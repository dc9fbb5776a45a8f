"""Every head, torso and observation dtype gives the same answers in onnxruntime and TorchScript as in PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from policies import KINDS, describe, exported, make, seen

from flashdqn.agent.description import Description
from flashdqn.agent.onnx import OnnxAgent, load_onnx
from flashdqn.core.errors import CheckpointError, ConfigError, FlashDQNError
from flashdqn.export.measure import TorchPlayer
from flashdqn.export.observations import Observations
from flashdqn.export.policy import GreedyPolicy
from flashdqn.export.to_onnx import write_onnx
from flashdqn.export.to_torchscript import TorchScriptPlayer, write_torchscript

MASKED = "noisy-branches-c51-masked"


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_answer_as_pytorch_does(kind: str, tmp_path: Path) -> None:
    one = exported(kind)
    observations, about = one.observations, one.about
    action, q = TorchPlayer(one.policy).answer(observations.read(), observations.mask)
    write_torchscript(one.policy, observations, tmp_path / "p.pt", about.to_texts())
    agent, script = load_onnx(one.file), TorchScriptPlayer(tmp_path / "p.pt")
    assert agent.description == about
    assert Description.from_texts(script.texts, "p.pt") == about
    for player in (agent, script):
        for count in (1, 3, len(observations)):
            part = observations.part(slice(0, count))
            their_action, their_q = player.answer(part.read(), part.mask)
            assert their_action.dtype == np.int64
            assert their_q.dtype == np.float32
            np.testing.assert_allclose(their_q, q[:count], rtol=1e-4, atol=1e-4)
            # the action must be the best legal one of the file's own values, and PyTorch's wherever that is clear
            legal = their_q if part.mask is None else np.where(part.mask, their_q, -np.inf)
            assert (their_action == legal.argmax(1)).all()
            ours = q[:count] if part.mask is None else np.where(part.mask, q[:count], -np.inf)
            best = np.sort(ours, 1)[:, -2:]
            clear = best[:, 1] - best[:, 0] > 1e-3
            assert (their_action == action[:count])[clear].all()


def test_axes_are_named_and_nothing_of_this_machine_is_inside() -> None:
    file = exported(MASKED).file
    graph = onnx.load(file).graph
    shapes = {
        value.name: [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.output)
    }
    assert shapes == {"obs": ["batch", 152], "mask": ["batch", 13], "action": ["batch"], "q": ["batch", 13]}
    assert str(Path.cwd()).encode() not in file.read_bytes()
    assert b"site-packages" not in file.read_bytes()


def test_a_mask_decides_and_may_be_left_out() -> None:
    observations = exported(MASKED).observations
    agent = load_onnx(exported(MASKED).file)
    for only in range(agent.num_actions):
        mask = np.zeros((len(observations), 13), bool)
        mask[:, only] = True
        assert (agent.act(observations.obs, mask) == only).all()
        assert agent.act(observations.obs[0], mask[0]) == only
    assert (agent.act(observations.obs) == agent.q(observations.obs).argmax(1)).all()


class Stubborn(torch.nn.Module):
    """A network that no graph can hold."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs[:, :2] * (2.0 if float(obs.sum()) > 0 else 3.0)


def test_what_cannot_be_exported_is_one_sentence(tmp_path: Path) -> None:
    config, policy = make("quantile")
    with pytest.raises(FlashDQNError, match="The network cannot be exported: ") as caught:
        write_onnx(GreedyPolicy(Stubborn(), policy.head), seen(config), tmp_path / "p.onnx", {})
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not exist"):
        load_onnx(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(CheckpointError, match="cannot be opened as an ONNX file"):
        load_onnx(tmp_path / "text.onnx")
    node = onnx.helper.make_node("Identity", ["obs"], ["q"])
    value = [onnx.helper.make_tensor_value_info(name, 1, ["batch", 2]) for name in ("obs", "q")]
    graph = onnx.helper.make_graph([node], "other", value[:1], value[1:])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9), str(tmp_path / "other.onnx"))
    with pytest.raises(CheckpointError, match="is not a policy that this version can play"):
        load_onnx(tmp_path / "other.onnx")
    with pytest.raises(ConfigError, match="threads must be at least 1"):
        OnnxAgent(tmp_path / "other.onnx", threads=0)


def test_a_description_that_lacks_something_is_refused() -> None:
    observations = Observations(np.zeros((1, 2), np.float32), None)
    texts = describe(observations, 3).to_texts()
    assert Description.from_texts(texts, "f") == describe(observations, 3)
    del texts["actions"]
    with pytest.raises(CheckpointError, match="metadata of f cannot be read: 'actions'"):
        Description.from_texts(texts, "f")
