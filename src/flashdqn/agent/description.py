"""What an exported file says about itself, as texts by name: the metadata of an ONNX file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from flashdqn.core.errors import CheckpointError
from flashdqn.core.files import parse_json
from flashdqn.core.text import CONTROL, clean_line

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
            values = {name: parse_json(texts[name]) for name in given}
        except (KeyError, ValueError) as error:
            raise CheckpointError(
                f"The metadata of {file} cannot be read: {clean_line(str(error), 200)}."
            ) from None
        for name, fits in RULES.items():
            if name in values and not fits(values[name]):
                raise CheckpointError(f"The metadata of {file} cannot be right: look at '{name}'.")
        values |= {name: tuple(values.get(name, ())) for name in ("observation_shape", "actions", "branches")}
        if values["branches"] and sum(values["branches"]) != len(values["actions"]):
            raise CheckpointError(f"The metadata of {file} cannot be right: look at 'branches'.")
        return cls(**values)


def is_whole(value: Any, low: int = 0) -> bool:
    """Whether a value is a whole number that NumPy can hold."""
    return type(value) is int and low <= value < 2**63


def is_text(value: Any) -> bool:
    """Whether a value is a text that controls no terminal."""
    return isinstance(value, str) and not CONTROL.search(value)


#: What every field must be: the file may be a stranger's.
RULES: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("task", "preset", "head", "precision", "weights", "version"), is_text),
    "env": lambda value: isinstance(value, dict),
    "observation_shape": lambda value: isinstance(value, list) and all(is_whole(x, 1) for x in value),
    "observation_dtype": lambda value: value in ("float32", "uint8"),
    "actions": lambda value: (
        isinstance(value, list) and bool(value) and all(isinstance(x, str) for x in value)
    ),
    "branches": lambda value: isinstance(value, list) and all(is_whole(x, 1) for x in value),
    "first_action": lambda value: is_whole(value, -(2**63)),
    "masked": lambda value: isinstance(value, bool),
    "score": lambda value: value is None or type(value) in (int, float),
    "steps": is_whole,
}
