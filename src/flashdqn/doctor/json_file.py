"""A report as JSON: strict, so that any reader takes it, and with a version."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from flashdqn.doctor.report import Report

VERSION = 1
"""Goes up when a field changes its meaning or goes away; new fields leave it as it is."""


def encode_report_json(report: Report) -> str:
    """The whole report; what is no number (NaN, infinity) is null."""
    return (
        json.dumps({"version": VERSION} | _make_json_safe(report.as_dict()), indent=2, allow_nan=False) + "\n"
    )


def write_report_json(report: Report, path: Path) -> Path:
    """Write it to a file."""
    path.write_text(encode_report_json(report), encoding="utf-8")
    return path


def _make_json_safe(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _make_json_safe(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_make_json_safe(inner) for inner in value]
    return str(value)
