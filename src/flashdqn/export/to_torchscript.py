"""A policy as a TorchScript file: for C++ and for Python with PyTorch, without flashdqn."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from flashdqn.agent.onnx import Array
from flashdqn.core.files import write_output
from flashdqn.export.observations import Observations
from flashdqn.export.policy import GreedyPolicy

#: The description is in the file under this name; `torch.jit.load(…, _extra_files=…)` reads it.
DESCRIPTION = "flashdqn.json"


def write_torchscript(
    policy: GreedyPolicy, sample: Observations, file: Path, texts: Mapping[str, str]
) -> None:
    """Trace on a few observations; the file takes batches of any size."""
    inputs = tuple(torch.from_numpy(array.copy()) for array in sample.part(slice(0, 2)).inputs().values())
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # PyTorch recommends torch.export; C++ programs still load this
        traced = torch.jit.trace(policy.cpu().eval(), inputs, check_trace=False)  # type: ignore[no-untyped-call]
        extra = {DESCRIPTION: json.dumps(dict(texts))}
        data = io.BytesIO()
        torch.jit.save(torch.jit.freeze(traced), data, _extra_files=extra)
    write_output(file, data.getvalue())


class TorchScriptPlayer:
    """A TorchScript file, called like the exported graph."""

    def __init__(self, file: Path) -> None:
        self.module, self.texts = read_torchscript(file)

    def answer(self, batch: Array, mask: Any) -> tuple[Array, Array]:
        """Actions [B] and values [B, A]."""
        inputs = [torch.from_numpy(x) for x in (batch, mask) if x is not None]
        with torch.no_grad():
            action, q = self.module(*inputs)
        return action.numpy(), q.numpy()


def read_torchscript(file: Path) -> tuple[Any, dict[str, str]]:
    """The module and its description's texts."""
    extra = {DESCRIPTION: ""}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.jit.load(str(file), _extra_files=extra)  # type: ignore[no-untyped-call]
    return module, json.loads(extra[DESCRIPTION])
