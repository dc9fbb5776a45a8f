"""Figures in a page, and the result files that they come from.

A figure is followed by a comment that says where it comes from and how it is written:

    5.4<!-- figure: throughput-2cores.json results[name=sb3].ours_over_theirs {:.1f} -->

The file lies in benchmarks/results. The path walks through the JSON: `.key`, `[key=value;key=value]` (the entries
of a list with these values) and `[*]` (every entry). It must lead to one value, unless `mean`, `median`, `least` or
`most` before it sums up several. `*0.001` behind it scales. The last part is a Python format.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doc_pages import FENCE, ROOT, SPAN

RESULTS = ROOT / "benchmarks" / "results"
MARK = re.compile(r"(?P<shown>\S*?)<!--\s*figure:\s*(?P<source>.*?)\s*-->", re.S)
SOURCE = re.compile(
    r"(?P<file>\S+\.json)\s+(?:(?P<summary>mean|median|least|most)\s+)?(?P<path>(?:\[[^\]]*\]|\S)+)"
    r"(?:\s+\*(?P<scale>\S+))?\s+(?P<written>\{.*\}\S*)"
)
STEP = re.compile(r"\[(?P<wanted>[\w-]+=[^\]]*)\]|\[(?P<every>\*)\]|\.?(?P<name>[^.\[\]]+)")
SUMMARIES: dict[str, Callable[[Iterable[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "least": min,
    "most": max,
}

#: A number that somebody measured: with a unit behind it, with an error, as a score, or large and not round.
NUMBER = r"(?:\d[\d,.]*\d|\d)"
UNITS = (
    r"%|percent|times|x\b|s\b|sec\b|seconds?|min\b|minutes?|hours?|ms\b|µs\b|ns\b|[kMG]B|[GT]FLOP|million|billion"
    r"|/s\b|\w+/s\b|\w+ (?:per|a) second"
)
MEASURED = re.compile(
    rf"(?<![\w.,-]){NUMBER}\s*(?:{UNITS}|±)|\bscores?(?: of)? {NUMBER}|(?<![\w.,-])\d[\d,]*,(?!000)\d{{3}}(?![\d,])"
)


class WrongFigure(Exception):  # noqa: N818 - it is what a test says
    """What a mark says cannot be found."""


@dataclass(frozen=True)
class Figure:
    """A figure as it is shown, and where it comes from."""

    shown: str
    source: str

    def expected(self, results: Path = RESULTS) -> str:
        """The text that the result file asks for."""
        read = SOURCE.fullmatch(self.source)
        if not read:
            raise WrongFigure(f"cannot read 'figure: {self.source}'")
        file = results / read["file"]
        if not file.is_file():
            raise WrongFigure(f"there is no result file {read['file']}")
        values = [float(value) for value in walk(json.loads(file.read_text(encoding="utf-8")), read["path"])]
        if not read["summary"] and len(values) != 1:
            raise WrongFigure(f"{read['path']} in {read['file']} has {len(values)} values, and must have one")
        value = SUMMARIES[read["summary"]](values) if read["summary"] else values[0]
        return read["written"].format(value * float(read["scale"] or 1))


def walk(data: Any, path: str) -> list[Any]:
    """Every value that the path leads to."""
    found = [data]
    for step in STEP.finditer(path):
        try:
            if step["every"]:
                found = [entry for part in found for entry in part]
            elif step["wanted"]:
                wanted = [pair.split("=", 1) for pair in step["wanted"].split(";")]
                entries = [entry for part in found for entry in part]
                found = [entry for entry in entries if all(str(entry[key]) == value for key, value in wanted)]
            else:
                found = [part[step["name"]] for part in found]
        except (KeyError, TypeError) as error:
            raise WrongFigure(f"there is no {step[0]} on the path {path}") from error
    if not found:
        raise WrongFigure(f"nothing is at {path}")
    return found


def figures(text: str) -> list[Figure]:
    """Every marked figure of a page."""
    return [Figure(mark["shown"].lstrip("(*|"), mark["source"]) for mark in MARK.finditer(text)]


def unmarked(text: str) -> list[str]:
    """Measured numbers without a mark, in the text and in the comments of its commands."""
    prose = MARK.sub(" marked ", text)
    prose = FENCE.sub(lambda fence: "\n".join(re.findall(r"#.*", fence[4])), prose)
    prose = re.sub(r"<!--.*?-->", "", SPAN.sub(" code ", prose), flags=re.S)
    prose = re.sub(r"\]\([^)]*\)", "]", prose)
    return [found[0].strip() for found in MEASURED.finditer(prose)]
