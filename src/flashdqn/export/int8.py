"""Eight-bit weights and activations, by onnxruntime's quantizer.

There are two ways, and the caller keeps the better one: *dynamic* measures the range of each layer's input again in
every call; *static* fixes the ranges beforehand, from observations of the agent's own games.

The last layers stay in float32 if there are others: their values differ by less than a step of eight bits. With
dynamic ranges the first layers stay, too: they read different kinds of numbers side by side, and one range does not
fit them all. Both are narrow: most weights lie between them. `benchmarks/export.py` shows what each choice does.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from flashdqn.agent.onnx import Array
from flashdqn.export.observations import Observations
from flashdqn.export.to_onnx import save_onnx_model

Way = Literal["dynamic", "static"]
WAYS: tuple[Way, ...] = get_args(Way)
Keep = Literal["none", "last", "ends"]

#: Layers worth quantizing; onnxruntime's integer convolution without fixed ranges is slower than the float one.
LAYERS = {"dynamic": ("Gemm", "MatMul"), "static": ("Gemm", "MatMul", "Conv")}
KEEP: dict[Way, Keep] = {"dynamic": "ends", "static": "last"}
CALIBRATION_BATCH = 64


def quantize_onnx(
    source: Path,
    file: Path,
    way: Way,
    calibration: Observations,
    texts: Mapping[str, str],
    keep: Keep | None = None,
    kinds: tuple[str, ...] | None = None,
) -> None:
    """Write an int8 copy of an ONNX file. `keep` says which layers stay in float32, `kinds` which are quantized:
    both are for the benchmarks that show why the defaults are as they are."""
    import onnx
    from onnxruntime.quantization import CalibrationMethod, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory() as folder, silence_quantizer():
        prepared, result = Path(folder) / "prepared.onnx", Path(folder) / "int8.onnx"
        quant_pre_process(source, prepared)
        kinds = kinds or LAYERS[way]
        kept = layers_to_keep(onnx.load(prepared).graph, kinds, keep or KEEP[way])
        if way == "dynamic":
            # a Gemm is split in two first, and its product gets this name
            names = kept + [f"{name}_MatMul" for name in kept]
            quantize_dynamic(prepared, result, list(kinds), per_channel=True, nodes_to_exclude=names)
        else:
            quantize_static(
                prepared,
                result,
                Batches(calibration),
                op_types_to_quantize=list(kinds),
                per_channel=True,
                activation_type=QuantType.QUInt8,
                nodes_to_exclude=kept,
                calibrate_method=CalibrationMethod.Percentile,
            )
        save_onnx_model(onnx.load(result), file, texts)


class Batches:
    """The calibration's observations, in the batches that the quantizer asks for."""

    def __init__(self, observations: Observations) -> None:
        size = min(CALIBRATION_BATCH, len(observations))
        starts = range(0, len(observations) - size + 1, size)  # the quantizer wants batches of one size
        self._rest = iter(observations.part(slice(i, i + size)) for i in starts)

    def get_next(self) -> dict[str, Array] | None:
        """A batch, or None when there are no more."""
        part = next(self._rest, None)
        return None if part is None else part.inputs()


def layers_to_keep(graph: Any, kinds: tuple[str, ...], keep: Keep = "ends") -> list[str]:
    """The names of the last layers, and of the first (`ends`); fewer of them if no other would remain."""
    layers = {node.name for node in graph.node if node.op_type in kinds}
    last = set(find_outermost_layers(reversed(graph.node), kinds, True))
    first = set(find_outermost_layers(graph.node, kinds, False))
    choices = {"none": [], "last": [last], "ends": [first | last, last]}[keep]
    return next((sorted(kept) for kept in choices if kept < layers), [])


def find_outermost_layers(nodes: Any, kinds: tuple[str, ...], backwards: bool) -> list[str]:
    """The layers that no other layer comes before, going through the graph in this direction."""
    behind: set[str] = set()  # tensors on the far side of some layer
    found = []
    for node in nodes:
        into, out = (node.output, node.input) if backwards else (node.input, node.output)
        layer = node.op_type in kinds
        reached = not behind.isdisjoint(into)
        if layer and not reached:
            found.append(node.name)
        if layer or reached:
            behind.update(out)
    return found


@contextlib.contextmanager
def silence_quantizer() -> Iterator[None]:
    """Hide the quantizer's progress and advice: they do not help the user."""
    root, before = logging.getLogger(), logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root.manager.disable = before
