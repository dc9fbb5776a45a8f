"""A user's own VNFs, chains and topology from a TOML or JSON file; every mistake is one sentence.

    [[vnf]]
    name = "NAT"
    cpu = 1
    ram = 4
    storage = 7
    processing_ms = 0.06

    [[chain]]
    name = "CG"
    vnfs = ["NAT", "FW"]
    mbps = 4                    # or a range: [1, 50]
    delay_ms = 80
    bundle = [40, 55]           # requests in a bundle

    [[dc]]                      # data centers and links: only for your own topology
    name = "Ottawa"
    x_km = 0
    y_km = 0
    cpu = [12, 120]             # drawn for every episode; or one number
    ram = 256
    storage = 2048

    [[link]]
    between = ["Ottawa", "Montreal"]
    mbps = 1000

A table that the file leaves out is the paper's: a file with only chains may use the paper's VNFs.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashdqn.core.errors import ConfigError
from flashdqn.core.files import parse_json, read_limited_file
from flashdqn.envs.sfc.tables import PAPER, Chain, Link, Site, Tables, Vnf

#: The largest file, in bytes, and the most rows of a table.
MOST_BYTES, MOST_ROWS = 4_000_000, 1000
#: No number in a table is larger. Each column has a range of its own, which is smaller.
LARGEST = 10**15

_COLUMNS: dict[str, tuple[str, ...]] = {
    "vnf": ("name", "cpu", "ram", "storage", "processing_ms"),
    "chain": ("name", "vnfs", "mbps", "delay_ms", "bundle"),
    "dc": ("name", "x_km", "y_km", "cpu", "ram", "storage"),
    "link": ("between", "mbps"),
}


def read_tables(path: Path) -> Tables:
    """Read the tables of a file."""
    data = _read_toml_or_json(path)
    if unknown := sorted(set(data) - set(_COLUMNS)):
        raise ConfigError(f"{path}: unknown table '{shorten(unknown[0])}'; known are {', '.join(_COLUMNS)}.")
    rows = {name: _check_rows(path, name, data.get(name, [])) for name in _COLUMNS}
    try:
        return Tables(
            vnfs=tuple(map(_parse_vnf, rows["vnf"])) or PAPER.vnfs,
            chains=tuple(map(_parse_chain, rows["chain"])) or PAPER.chains,
            sites=tuple(map(_parse_site, rows["dc"])),
            links=tuple(map(_parse_link, rows["link"])),
        )
    except ConfigError as error:
        raise ConfigError(f"{path}{find_line(path, str(error))}: {error}") from None


def find_line(path: Path, message: str) -> str:
    """The line of a file that an error is about, as ":12": the first one with the last name that the error quotes
    and the file has; empty if there is none."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for name in re.findall(r"'([^']+)'", message)[1::-1]:
        for number, line in enumerate(lines, 1):
            if f'"{name}"' in line:
                return f":{number}"
    return ""


def _read_toml_or_json(path: Path) -> dict[str, Any]:
    try:
        text = read_limited_file(path, MOST_BYTES).decode("utf-8")
        data = tomllib.loads(text) if path.suffix == ".toml" else parse_json(text)
    except OSError as error:
        raise ConfigError(f"Cannot read the tables {path}: {error.strerror}.") from None
    except RecursionError:
        raise ConfigError(f"{path} cannot be read: it is nested too deeply.") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not valid {path.suffix.lstrip('.') or 'JSON'}: {error}.") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must hold tables by name, and holds a {type(data).__name__}.")
    return data


def _check_rows(path: Path, table: str, rows: Any) -> list[Mapping[str, Any]]:
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ConfigError(
            f"{path}: '{table}' must be a list of rows, each with {', '.join(_COLUMNS[table])}."
        )
    if len(rows) > MOST_ROWS:
        raise ConfigError(f"{path}: '{table}' has {len(rows)} rows, and {MOST_ROWS} are the most.")
    for number, row in enumerate(rows, 1):
        name = shorten(row.get("name", number))
        for column in _COLUMNS[table]:
            if column not in row:
                raise ConfigError(f"{path}: {table} '{name}' has no column '{column}'. Add it.")
        if extra := sorted(set(row) - set(_COLUMNS[table])):
            known = ", ".join(_COLUMNS[table])
            raise ConfigError(
                f"{path}: {table} '{name}' has an unknown column '{shorten(extra[0])}'; known are {known}."
            )
    return rows


def _parse_vnf(row: Mapping[str, Any]) -> Vnf:
    where = f"VNF '{shorten(row['name'])}'"
    cpu, ram, storage = (
        _require_whole_number(where, column, row[column]) for column in ("cpu", "ram", "storage")
    )
    processing = _require_number(where, "processing_ms", row["processing_ms"])
    return Vnf(_require_text("VNF", row["name"]), cpu, ram, storage, processing)


def _parse_chain(row: Mapping[str, Any]) -> Chain:
    where = f"Chain '{shorten(row['name'])}'"
    vnfs, mbps, bundle = row["vnfs"], _parse_pair(row["mbps"]), _parse_pair(row["bundle"])
    if not isinstance(vnfs, list) or not all(isinstance(name, str) for name in vnfs):
        raise ConfigError(f"{where}: vnfs must be a list of names, and is {shorten(repr(vnfs))}.")
    return Chain(
        _require_text("chain", row["name"]),
        tuple(vnfs),
        (_require_number(where, "mbps", mbps[0]), _require_number(where, "mbps", mbps[1])),
        _require_number(where, "delay_ms", row["delay_ms"]),
        (
            _require_whole_number(where, "bundle", bundle[0]),
            _require_whole_number(where, "bundle", bundle[1]),
        ),
    )


def _parse_site(row: Mapping[str, Any]) -> Site:
    where, cpu = f"Data center '{shorten(row['name'])}'", _parse_pair(row["cpu"])
    return Site(
        _require_text("data center", row["name"]),
        _require_whole_number(where, "x_km", row["x_km"]),
        _require_whole_number(where, "y_km", row["y_km"]),
        (_require_whole_number(where, "cpu", cpu[0]), _require_whole_number(where, "cpu", cpu[1])),
        _require_whole_number(where, "ram", row["ram"]),
        _require_whole_number(where, "storage", row["storage"]),
    )


def _parse_link(row: Mapping[str, Any]) -> Link:
    between = row["between"]
    if not isinstance(between, list) or len(between) != 2:
        raise ConfigError(f"A link's `between` must be two names, and is {shorten(repr(between))}.")
    a, b = (_require_text("data center in a link", name) for name in between)
    return Link((a, b), _require_number(f"Link {a}–{b}", "mbps", row["mbps"]))


def _parse_pair(value: Any) -> tuple[Any, Any]:
    """A range; one number is a range of itself."""
    return (value[0], value[1]) if isinstance(value, list) and len(value) == 2 else (value, value)


def shorten(value: Any) -> str:
    """A value from the file for a message, which it must not fill."""
    text = str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _require_text(what: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > 60:
        raise ConfigError(
            f"The name of a {what} must be a text of 1 to 60 characters, and is {shorten(repr(value))}."
        )
    return value


def _require_whole_number(where: str, column: str, value: Any) -> int:
    if type(value) is not int or abs(value) > LARGEST:
        raise ConfigError(f"{where}: {column} must be a whole number, and is {shorten(repr(value))}.")
    return value


def _require_number(where: str, column: str, value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) <= LARGEST:
        raise ConfigError(f"{where}: {column} must be a number, and is {shorten(repr(value))}.")
    return float(value)
