"""Read the watch's JSON into the classes of `watch/schema.py`, by the types of their fields."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from flashdqn.doctor.watch.schema import WatchRecord


def read_record(text: str) -> WatchRecord:
    """Read a record from the watch's JSON."""
    record = decode_as(WatchRecord, json.loads(text))
    assert isinstance(record, WatchRecord)
    return record


def decode_as(kind: Any, value: Any) -> Any:
    """Turn parsed JSON into a type: dataclasses, enums, tuples, dicts with numbers as keys, and None."""
    origin, parts = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        types = read_field_types(kind)
        return kind(**{name: decode_as(types[name], part) for name, part in value.items()})
    if origin is UnionType:
        return None if value is None else decode_as(next(k for k in parts if k is not NoneType), value)
    if origin is tuple and parts[-1] is Ellipsis:
        return tuple(decode_as(parts[0], part) for part in value)
    if origin is tuple:
        return tuple(decode_as(part, one) for part, one in zip(parts, value, strict=True))
    if origin is dict:
        return {decode_as(parts[0], key): decode_as(parts[1], part) for key, part in value.items()}
    if isinstance(kind, type) and issubclass(kind, Enum | int | float | str) and kind is not bool:
        return kind(value)
    return value


@cache
def read_field_types(kind: type) -> dict[str, Any]:
    """The types of a dataclass's fields, by name."""
    hints = get_type_hints(kind)
    return {part.name: hints[part.name] for part in fields(kind)}
