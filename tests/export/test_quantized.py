"""Int8: which layers stay in float32, and that the file plays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from policies import exported, make, seen

from flashdqn.agent.onnx import load_onnx
from flashdqn.export.flow import Measured, choose_quantization
from flashdqn.export.int8 import Batches, Way, layers_to_keep, quantize_onnx
from flashdqn.export.measure import Agreement, Latency, TorchPlayer, measure_agreement
from flashdqn.export.observations import Observations
from flashdqn.training.evaluate import Evaluation


@st.composite
def graphs(draw: st.DrawFn) -> onnx.GraphProto:
    """Random graphs without loops: node k reads some of the tensors that were made before it."""
    kinds = draw(st.lists(st.sampled_from(["Gemm", "Relu", "Conv"]), min_size=1, max_size=9))
    nodes = []
    for k, kind in enumerate(kinds):
        made = ["in", *(f"t{i}" for i in range(k))]
        reads = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))
        nodes.append(helper.make_node(kind, reads, [f"t{k}"], name=f"n{k}"))
    return helper.make_graph(nodes, "random", [], [])


def naive_ends(graph: onnx.GraphProto, kinds: tuple[str, ...]) -> set[str]:
    """By the definition: a layer is first if no other layer leads to it, last if it leads to no other."""
    by_output = {node.output[0]: node for node in graph.node}

    def before(node: onnx.NodeProto) -> set[str]:
        found: set[str] = set()
        for tensor in node.input:
            if tensor in by_output:
                source = by_output[tensor]
                found |= {source.name} | before(source)
        return found

    layers = {node.name for node in graph.node if node.op_type in kinds}
    ancestors = {node.name: before(node) & layers for node in graph.node if node.name in layers}
    first = {name for name in layers if not ancestors[name]}
    last = {name for name in layers if not any(name in others for others in ancestors.values())}
    for kept in (first | last, last):
        if kept < layers:
            return kept
    return set()


@given(graphs())
def test_the_ends_are_those_of_the_definition(graph: onnx.GraphProto) -> None:
    kinds = ("Gemm", "Conv")
    assert set(layers_to_keep(graph, kinds)) == naive_ends(graph, kinds)
    assert layers_to_keep(graph, kinds, "none") == []


@pytest.mark.parametrize(
    ("kind", "ways"), [("dueling-mlp", ("dynamic", "static")), ("cnn-uint8", ("static",))]
)
def test_int8_files_are_near(kind: str, ways: tuple[Way, ...], tmp_path: Path) -> None:
    one = exported(kind)
    observations, small = one.observations, tmp_path / "p8.onnx"
    calibration = seen(make(kind)[0], steps=11)
    reference = TorchPlayer(one.policy)
    q = reference.answer(observations.obs, observations.mask)[1]
    for way in ways:
        marked = replace(one.about, precision=f"int8 {way}")
        quantize_onnx(one.file, small, way, calibration, marked.to_texts())
        agent = load_onnx(small)
        assert agent.description == marked
        made = {node.op_type for node in onnx.load(small).graph.node}
        assert ("MatMulInteger" if way == "dynamic" else "QuantizeLinear") in made
        result = measure_agreement(agent, reference, observations)
        assert 0 < result.largest_difference < 0.2 * np.abs(q).max() + 0.05


def test_calibration_sees_the_observations_in_order() -> None:
    rows = Observations(np.arange(150, dtype=np.float32)[:, None], None)
    batches = Batches(rows)
    seen_rows = []
    while (inputs := batches.get_next()) is not None:
        seen_rows.append(inputs["obs"])
    assert [len(part) for part in seen_rows] == [64, 64]  # of one size, as the quantizer wants them
    assert np.array_equal(np.concatenate(seen_rows), rows.obs[:128])
    assert len((Batches(rows.part(slice(0, 9))).get_next() or {})["obs"]) == 9


def row(name: str, same: float, seconds: float) -> Measured:
    games = Evaluation(1, 0, 1.0, 0.0, 1.0, 1.0, {})
    return Measured(
        name,
        Agreement(10, same, 0.1, 0.0, 1.0),
        games,
        {1: Latency(seconds, 0.0), 256: Latency(seconds, 0.0)},
        10,
    )


def test_agreement_decides_and_then_speed() -> None:
    assert (
        choose_quantization([row("int8 dynamic", 0.99, 2.0), row("int8 static", 0.98, 1.0)])[0] == "dynamic"
    )
    assert choose_quantization([row("int8 dynamic", 0.97, 1.0), row("int8 static", 0.98, 2.0)])[0] == "static"
    assert choose_quantization([row("int8 dynamic", 0.98, 2.0), row("int8 static", 0.98, 1.0)])[0] == "static"
    assert (
        choose_quantization([row("int8 dynamic", 0.98, 1.0), row("int8 static", 0.98, 2.0)])[0] == "dynamic"
    )
