"""What an exported file says about itself, as texts by name: the metadata of an ONNX file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from flashdqn.core.errors import CheckpointError

FORMAT = "flashdqn-policy-1"


@dataclass(frozen=True)
class Description:
    """Where a policy comes from, what it reads and what it answers.

    Bytes are scaled to 0 … 1 inside the graph: observations go in as the task gives them.
    """

    task: str  # snake, sfc, gym, …
    preset: str
    env: dict[str, Any]  # the task's settings
    observation_shape: tuple[int, ...]  # without the batch axis
    observation_dtype: str  # float32 or uint8
    actions: tuple[str, ...]  # their names, in order
    first_action: int  # the environment's number for action 0: 1 for Gymnasium's Discrete(n, start=1)
    masked: bool  # whether the task has legal actions: then the graph has a second input, `mask`
    head: str
    precision: str  # float32, or int8 and the method of quantization
    score: float | None  # mean score over fresh games when the run ended; None if it is not known
    steps: int  # transitions that the weights were trained on
    weights: str  # sixteen digits that change when any weight changes
    version: str  # of flashdqn
    #: choices in each part of an action; empty where an action is a single choice
    branches: tuple[int, ...] = ()

    def to_texts(self) -> dict[str, str]:
        """Every field as JSON, by its name."""
        return {"format": FORMAT} | {name: json.dumps(value) for name, value in asdict(self).items()}

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], file: str) -> Description:
        """Read the description back; files that flashdqn did not write are refused."""
        if texts.get("format") != FORMAT:
            raise CheckpointError(
                f"{file} is not a policy that this version can play: its metadata must say format {FORMAT}, and "
                f"says {texts.get('format')!r}. Make one with `flashdqn export RUN`."
            )
        try:
            given = [field.name for field in fields(cls) if field.name in texts or field.default is MISSING]
            values = {name: json.loads(texts[name]) for name in given}
        except (KeyError, ValueError) as error:
            raise CheckpointError(f"The metadata of {file} cannot be read: {error}.") from None
        values |= {name: tuple(values.get(name, ())) for name in ("observation_shape", "actions", "branches")}
        return cls(**values)
