"""A policy as an ONNX file, by PyTorch's exporter, with open batch axes and its description as metadata."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from flashdqn.core.errors import ConfigError, FlashDQNError
from flashdqn.core.files import write_output
from flashdqn.export.observations import Observations
from flashdqn.export.policy import GreedyPolicy

OPSET = 20  # the lowest that the exporter writes by itself, for old runtimes


def write_onnx(policy: GreedyPolicy, sample: Observations, file: Path, texts: Mapping[str, str]) -> None:
    """Export on a few observations: from `obs` (and `mask`) to `action` and `q`, all with an open `batch` axis."""
    require_packages()
    few = sample.part(slice(0, 2)).inputs()
    inputs = {name: torch.from_numpy(array.copy()) for name, array in few.items()}
    batch = torch.export.Dim("batch")
    try:
        with silence_exporter():
            program = torch.onnx.export(
                policy.cpu().eval(),
                tuple(inputs.values()),
                dynamo=True,
                input_names=list(inputs),
                output_names=["action", "q"],
                dynamic_shapes=tuple({0: batch} for _ in inputs),
                opset_version=OPSET,
                external_data=False,
                verbose=False,
            )
    except Exception as error:  # the exporter's own, or the user's network cannot be a graph
        raise FlashDQNError(f"The network cannot be exported: {format_root_cause(error)}") from error
    assert program is not None
    save_onnx_model(program.model_proto, file, texts)


def save_onnx_model(model: Any, file: Path, texts: Mapping[str, str]) -> None:
    """Write an ONNX model with metadata, checked."""
    import onnx

    onnx.helper.set_model_props(model, dict(texts))
    model.producer_name = "flashdqn"
    for node in model.graph.node:
        del node.metadata_props[:]  # stack traces with the paths of this machine
        node.doc_string = ""
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer):
        del value.metadata_props[:]
    del model.graph.metadata_props[:]
    onnx.checker.check_model(model)
    write_output(file, model.SerializeToString())


def format_root_cause(error: BaseException) -> str:
    """The first line of the original error: the exporter wraps it in pages of text."""
    while (cause := error.__cause__) is not None:
        error = cause
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


@contextmanager
def silence_exporter() -> Iterator[None]:
    """Hide the exporter's remarks about itself: deprecations, and packages that it could use."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def require_packages() -> None:
    """Raise an error that names the missing packages."""
    missing = []
    for name in ("onnx", "onnxscript", "onnxruntime"):
        try:
            __import__(name)
        except ImportError:
            missing.append(name)
    if missing:
        raise ConfigError(
            f"Export to ONNX needs {', '.join(missing)}: pip install 'flashdqn[export]' (or --to torchscript)."
        )
