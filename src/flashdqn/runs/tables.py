"""The tables in a run folder: CSV files, and the run's record of their columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashdqn.core.files import read_json_object, write_json_atomically
from flashdqn.runs.columns import (
    EVALUATIONS,
    METRICS,
    STEP,
    Column,
    ColumnKind,
    Columns,
    complete_columns,
    infer_columns,
    parse_columns,
)
from flashdqn.runs.rows import EvaluationRow, MetricsRow, float_or_nan, parse_row

METRICS_FILE = "metrics.csv"
EVALUATIONS_FILE = "evaluations.csv"
COLUMNS_FILE = "columns.json"
FIXED: dict[str, tuple[Column, ...]] = {METRICS_FILE: METRICS, EVALUATIONS_FILE: EVALUATIONS}

Cells = dict[str, str]


def read_table(path: Path) -> list[Cells]:
    """The complete rows of a table; one cut short by a crash is left out."""
    if not path.exists():
        return []
    text = path.read_bytes().decode("utf-8", errors="replace")
    whole = text[: text.rfind("\n") + 1]
    rows = list(csv.DictReader(io.StringIO(whole, newline="")))
    whole_rows = [row for row in rows if None not in row.values() and None not in row]
    return [row for row in whole_rows if row.get(STEP.name, "").isdigit()]


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a table of at least one row, in place of the old one."""
    temporary = path.with_suffix(".writing")
    with temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    temporary.replace(path)


def append_row(path: Path, cells: Mapping[str, Any]) -> None:
    """Append a row; the first one also writes the header."""
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(cells))
        if new:
            writer.writeheader()
        writer.writerow(cells)


def write_columns(run: Path, metrics: Columns, evaluations: Columns) -> None:
    """Record the kinds of all columns in the run folder."""
    tables = {METRICS_FILE: metrics.to_json(), EVALUATIONS_FILE: evaluations.to_json()}
    write_json_atomically(run / COLUMNS_FILE, tables)


def read_columns(path: Path, rows: Sequence[Cells]) -> Columns:
    """The columns of a table with these rows, as the run recorded them; inferred if it did not record them."""
    names, fixed = list(rows[0]) if rows else [], FIXED[path.name]
    try:
        recorded = parse_columns(read_json_object(path.parent / COLUMNS_FILE).get(path.name))
        return complete_columns(names, recorded, fixed)
    except ValueError:  # there is no record, or it is damaged
        return infer_columns({name: [float_or_nan(row[name]) for row in rows] for name in names}, fixed)


def read_metrics(run: Path) -> list[MetricsRow]:
    """The metrics of a run, one row per window."""
    rows = read_table(run / METRICS_FILE)
    columns = read_columns(run / METRICS_FILE, rows)
    return [parse_row(MetricsRow, row, columns) for row in rows]


def read_evaluations(run: Path) -> list[EvaluationRow]:
    """The evaluations of a run."""
    rows = read_table(run / EVALUATIONS_FILE)
    columns = read_columns(run / EVALUATIONS_FILE, rows)
    return [parse_row(EvaluationRow, row, columns) for row in rows]


def read_cause_names(run: Path) -> list[str]:
    """The outcomes that say how a game ended."""
    rows = read_table(run / EVALUATIONS_FILE)
    return [column.name for column in read_columns(run / EVALUATIONS_FILE, rows).of_kind(ColumnKind.CAUSE)]
