"""Small tables in CSV files. A file may come from a stranger."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from flashdqn.core.errors import EnvError
from flashdqn.core.files import read_limited_file

#: The largest file, in bytes, and the most lines.
MOST_BYTES, MOST_LINES = 20_000_000, 200_000


@dataclass(frozen=True)
class TableRow:
    """A line of a table: its cells by the header's names, without spaces around them."""

    path: Path
    line: int  # counted from 1, as an editor does
    cells: dict[str, str]

    def read_number(self, column: str) -> float:
        """The number in a column."""
        text = self.cells[column]
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not abs(number) < 1e12:
            raise EnvError(
                f"In {self.path}, line {self.line}, {column} must be a number, and is {text[:20]!r}."
            )
        return number


def read_table(path: Path, required: tuple[str, ...]) -> list[TableRow]:
    """The lines of a CSV file with a header; refused if it lacks a required column."""
    text = read_table_text(path)
    lines = csv.reader(io.StringIO(text), delimiter=find_delimiter(text))
    try:
        rows = [(lines.line_num, [cell.strip() for cell in line]) for line in lines if any(line)]
    except csv.Error as error:
        raise EnvError(f"{path} cannot be read as a table: {error}.") from None
    if not rows or len(rows) > MOST_LINES:
        raise EnvError(f"{path} must have a header and at most {MOST_LINES:,} lines, and has {len(rows)}.")
    header = rows[0][1]
    if missing := [column for column in required if column not in header]:
        raise EnvError(
            f"{path} lacks the column {missing[0]}: it has {', '.join(header)[:200]}, and must have "
            f"{', '.join(required)}."
        )
    return [make_row(path, line, header, cells) for line, cells in rows[1:]]


def read_table_text(path: Path) -> str:
    """A table's text, also with Windows' mark at its beginning."""
    try:
        return read_limited_file(path, MOST_BYTES).decode("utf-8-sig", errors="replace").replace("\0", "")
    except OSError as error:
        raise EnvError(f"{path} cannot be read as a table: {error.strerror}.") from None


def find_delimiter(text: str) -> str:
    """A comma, or the semicolon that spreadsheets write in many countries."""
    first = text.partition("\n")[0]
    return ";" if first.count(";") > first.count(",") else ","


def make_row(path: Path, line: int, header: list[str], cells: list[str]) -> TableRow:
    """A line by the names of its columns; one that is too short is refused."""
    if len(cells) < len(header):
        raise EnvError(f"{path}, line {line} has {len(cells)} columns, and the header {len(header)}.")
    return TableRow(path, line, dict(zip(header, cells, strict=False)))
