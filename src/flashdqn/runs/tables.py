"""The tables in a run folder: CSV files, and the run's record of their columns.

Whatever a table holds, reading it raises nothing: rows that cannot be read are left out, and counted. A row is
appended only to a file with the same columns; any other is kept under another name (metrics.damaged.csv), and the
rows that can be read go on in a new one.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from flashdqn.core.files import (
    describe_problem,
    open_plain_file,
    open_replacement,
    read_plain_file,
    remove_anything,
    write_text_atomically,
)
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
from flashdqn.runs.records import read_record_or_nothing, write_record
from flashdqn.runs.rows import EvaluationRow, MetricsRow, float_or_nan, parse_row

METRICS_FILE = "metrics.csv"
EVALUATIONS_FILE = "evaluations.csv"
COLUMNS_FILE = "columns.json"
FIXED: dict[str, tuple[Column, ...]] = {METRICS_FILE: METRICS, EVALUATIONS_FILE: EVALUATIONS}
#: More is not read: a table of a million rows has a third of it.
MOST_BYTES = 2**30
MOST_COLUMNS = 10_000
#: A step as a table has it: `int` would also take digits of other scripts, and thousands of them.
WHOLE_NUMBER = re.compile(r"[0-9]{1,19}")
BLOCK = 2**20

Cells = dict[str, str]


@dataclass(frozen=True)
class TableContent:
    """What could be read of a table."""

    names: list[str]
    rows: list[Cells]
    # what could not, to follow the file's name; a last row cut short by a crash is not counted
    problem: str = ""


def read_table(path: Path) -> list[Cells]:
    """The complete rows of a table; what cannot be read is left out."""
    return read_table_content(path).rows


def read_table_content(path: Path) -> TableContent:
    """The complete rows of a table, and what is wrong with it."""
    try:
        text = read_plain_file(path, most=MOST_BYTES).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return TableContent([], [])
    except (OSError, ValueError) as error:
        return TableContent([], [], describe_problem(error))
    lines = iter(text.split("\n")[:-1])  # the last one is empty, or was cut short
    names, problem = _parse_header(f"{line}\n" for line in lines)
    if problem:
        names = [column.name for column in read_recorded_columns(path).all] or names
    found = [_parse_line(line, names) for line in lines if line.strip("\r")]
    rows = [row for row in found if row is not None]
    if problem and not rows:
        return TableContent([], [], problem if text else "")
    if left_out := len(found) - len(rows):
        rows_word = "row" if left_out == 1 else "rows"
        problem += f"{'; ' if problem else ''}has {left_out:,} {rows_word} that cannot be read: left out"
    return TableContent(names, rows, problem)


def _parse_header(lines: Iterable[str]) -> tuple[list[str], str]:
    """The names of the columns, and what is wrong with them."""
    try:
        names = next(csv.reader(lines), [])
    except csv.Error:
        names = []
    if STEP.name not in names or len(set(names)) < len(names) or len(names) > MOST_COLUMNS:
        return [], "has a damaged header"
    return names, ""


def _parse_line(line: str, names: Sequence[str]) -> Cells | None:
    """The cells of a row; None if they are not as many numbers as there are columns."""
    cells = line.removesuffix("\r").split(",")
    if len(cells) != len(names) or not line.isascii() or "_" in line:
        return None
    try:
        for cell in cells:
            float(cell or "nan")
    except ValueError:
        return None
    row = dict(zip(names, cells, strict=True))
    return row if WHOLE_NUMBER.fullmatch(row[STEP.name]) else None


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a table of at least one row, in place of the old one."""
    write_text_atomically(path, format_table(list(rows[0]), rows))


def format_table(names: Sequence[str], rows: Sequence[Mapping[str, Any]], header: bool = True) -> str:
    """A table as text; cells that a row does not have are NaN."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names, restval="nan", extrasaction="ignore")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def append_row(path: Path, cells: Mapping[str, Any]) -> None:
    """Append a row; the first one also writes the header. After an OSError nothing of the row is there."""
    names = list(cells)
    if not os.path.lexists(path):
        _create_table(path, names, cells)
        return
    if not _continues(path, names):
        _rewrite_table(path, names)
    with os.fdopen(open_plain_file(path, os.O_WRONLY | os.O_APPEND), "ab", buffering=0) as file:
        size, left = (
            os.fstat(file.fileno()).st_size,
            format_table(names, [cells], header=False).encode("utf-8"),
        )
        try:
            while left:
                left = left[file.write(left) :]
        except OSError:
            with suppress(OSError):
                file.truncate(size)
            raise


def _create_table(path: Path, names: Sequence[str], cells: Mapping[str, Any]) -> None:
    try:
        write_text_atomically(path, format_table(names, [cells]))
    except OSError:
        with suppress(OSError):  # it is there, but its folder was not synced
            path.unlink(missing_ok=True)
        raise


def _continues(path: Path, names: Sequence[str]) -> bool:
    """Whether a row can be appended: a plain file with this header and whole rows, and no second name elsewhere."""
    header = format_table(names, []).encode("utf-8")
    try:
        with os.fdopen(open_plain_file(path), "rb") as file:
            if os.fstat(file.fileno()).st_nlink > 1 or file.read(len(header)) != header:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except (OSError, ValueError):
        return False


def _rewrite_table(path: Path, names: Sequence[str]) -> None:
    """Write the rows that can be read into a new file with these columns."""
    content = read_table_content(path)
    if content.problem or content.names != list(names):
        keep_aside(path)
    write_text_atomically(path, format_table(names, content.rows))


def keep_aside(path: Path) -> Path:
    """Give a damaged table another name, so that nothing of it is lost."""
    for number in range(1, 1000):
        aside = path.with_name(f"{path.stem}.damaged{'' if number == 1 else f'-{number}'}{path.suffix}")
        if not os.path.lexists(aside):
            break
    path.replace(aside)
    return aside


def describe_table(path: Path) -> dict[str, Any]:
    """The length of a table and its checksum, for a manifest: later rows may follow."""
    try:
        with os.fdopen(open_plain_file(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return {"bytes": size, "sha256": _hash_start(file, size)}
    except OSError:
        return {"bytes": 0, "sha256": hashlib.sha256().hexdigest()}


def begins_as_described(path: Path, described: Mapping[str, Any]) -> bool:
    """Whether a table still begins with what `describe_table` saw."""
    size = described.get("bytes")
    if not isinstance(size, int) or size < 0:
        return False
    try:
        with os.fdopen(open_plain_file(path), "rb") as file:
            long_enough = os.fstat(file.fileno()).st_size >= size
            return long_enough and _hash_start(file, size) == described.get("sha256")
    except FileNotFoundError:
        return size == 0
    except OSError:
        return False


def _hash_start(file: BinaryIO, size: int) -> str:
    digest = hashlib.sha256()
    while size > 0 and (block := file.read(min(size, BLOCK))):
        digest.update(block)
        size -= len(block)
    return digest.hexdigest()


def rewind_table(path: Path, last: int, described: Mapping[str, Any] | None) -> str | None:
    """Keep only the rows up to the step `last`, which are those that a checkpoint's manifest has described. Returns
    a sentence if the file was changed since then, or cannot be read; it is then kept under another name."""
    if described is not None and begins_as_described(path, described):
        _cut_table(path, described["bytes"])
        rows = read_table(path)
        if any(int(row[STEP.name]) > last for row in rows):  # written, but the disk failed right after it
            _keep_rows(path, rows, last)
        return None
    content, said = read_table_content(path), None
    if described is not None or content.problem:
        problem = content.problem or "was changed after it was written"
        said = f"{path.name} {problem}. Its readable rows go on"
        if os.path.lexists(path):
            said += f"; what was there is kept in {keep_aside(path).name}"
        said += "."
    _keep_rows(path, content.rows, last)
    return said


def _keep_rows(path: Path, rows: Sequence[Cells], last: int) -> None:
    kept = [row for row in rows if int(row[STEP.name]) <= last]
    if kept:
        write_table(path, kept)
    else:
        remove_anything(path)


def _cut_table(path: Path, size: int) -> None:
    """Keep the first `size` bytes, in a new file: the old one may have a second name elsewhere."""
    if size == 0:
        remove_anything(path)
        return
    with os.fdopen(open_plain_file(path), "rb") as old, open_replacement(path) as new:
        while size > 0 and (block := old.read(min(size, BLOCK))):
            new.write(block)
            size -= len(block)


def write_columns(run: Path, metrics: Columns, evaluations: Columns) -> None:
    """Record the kinds of all columns in the run folder."""
    tables = {METRICS_FILE: metrics.to_json(), EVALUATIONS_FILE: evaluations.to_json()}
    write_record(run / COLUMNS_FILE, tables)


def read_recorded_columns(path: Path) -> Columns:
    """The columns of a table as the run recorded them; none if it did not, or if the record is damaged."""
    try:
        return parse_columns(read_record_or_nothing(path.parent / COLUMNS_FILE).get(path.name))
    except ValueError:
        return Columns(())


def read_columns(path: Path, rows: Sequence[Cells]) -> Columns:
    """The columns of a table with these rows, as the run recorded them; inferred if it did not record them."""
    names, fixed = list(rows[0]) if rows else [], FIXED[path.name]
    if recorded := read_recorded_columns(path).all:
        return complete_columns(names, Columns(recorded), fixed)
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
