"""Requests from a CSV file instead of drawn ones: the same in every episode.

    time_ms,chain,source,target,mbps
    0,VoIP,Ottawa,Montreal,0.064
    0.5,CG,Toronto,Ottawa,
    4,MIoT,Montreal,,12

`source` and `target` are names of the topology's data centers, or numbers from 0 where networks are drawn.
Without a target a request leaves where its chain ends. Without `mbps` it has the mean of its chain. Times must
not decrease.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Mapping
from pathlib import Path

from flashdqn.core.errors import ConfigError
from flashdqn.core.files import read_limited_file
from flashdqn.envs.sfc.tables import Tables, TracedRequest

MOST_BYTES = 16_000_000
COLUMNS = ("time_ms", "chain", "source")
OPTIONAL = ("target", "mbps")


def read_trace(path: Path, tables: Tables, dcs: tuple[int, int]) -> Tables:
    """The tables with the requests of a file; `dcs`: the smallest and largest number of data centers."""
    try:
        text = read_limited_file(path, MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"Cannot read the trace {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a text in UTF-8.") from None
    rows = csv.DictReader(io.StringIO(text))
    found = rows.fieldnames or []
    if missing := [name for name in COLUMNS if name not in found]:
        known = ",".join((*COLUMNS, *OPTIONAL))
        raise ConfigError(f"{path}:1: the column '{missing[0]}' is missing. The first line must be: {known}")
    if unknown := [name for name in found if name not in (*COLUMNS, *OPTIONAL)]:
        raise ConfigError(f"{path}:1: unknown column '{str(unknown[0])[:40]}'.")
    names = [site.name for site in tables.sites] or [str(d) for d in range(dcs[0])]
    arrivals: list[TracedRequest] = []
    for row in rows:
        where = f"{path}:{rows.line_num}"
        arrival = parse_arrival(where, row, tables, names)
        if arrivals and arrival.time_us < arrivals[-1].time_us:
            before = arrivals[-1].time_us / 1000
            now = arrival.time_us / 1000
            raise ConfigError(
                f"{where}: time runs backwards, from {before:g} to {now:g} ms. Sort the trace by time."
            )
        arrivals.append(arrival)
    if not arrivals:
        raise ConfigError(f"{path} has no requests: add rows after the first line.")
    return dataclasses.replace(tables, arrivals=tuple(arrivals))


def parse_arrival(
    where: str, row: Mapping[str, str | None], tables: Tables, names: list[str]
) -> TracedRequest:
    """One row; a mistake is one sentence with file and line."""
    chains = [chain.name for chain in tables.chains]
    name = (row["chain"] or "").strip()
    if name not in chains:
        raise ConfigError(f"{where}: there is no chain '{name[:40]}'; there are {', '.join(chains)}.")
    chain = chains.index(name)
    time = parse_number(where, "time_ms", row["time_ms"], 1_000_000)
    source = find_center(where, "source", row["source"], names)
    target = find_center(where, "target", row["target"], names) if (row.get("target") or "").strip() else -1
    if target == source:
        raise ConfigError(f"{where}: source and target are both '{names[source]}': name two data centers.")
    mean = sum(tables.chains[chain].mbps) / 2
    mbps = parse_number(where, "mbps", row["mbps"], 1_000_000) if (row.get("mbps") or "").strip() else mean
    return TracedRequest(round(1000 * time), chain, source, target, max(1, round(1000 * mbps)))


def parse_number(where: str, column: str, text: str | None, most: float) -> float:
    """A number from 0 to `most`."""
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        raise ConfigError(
            f"{where}: {column} must be a number from 0 to {most:g}, and is '{str(text)[:40]}'."
        )
    return value


def find_center(where: str, column: str, text: str | None, names: list[str]) -> int:
    """The number of a data center by its name."""
    name = (text or "").strip()
    if name not in names:
        shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        raise ConfigError(f"{where}: there is no data center '{name[:40]}' ({column}); there are {shown}.")
    return names.index(name)
