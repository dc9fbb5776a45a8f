"""Compare two reports of a script: what changed, whether it is more than chance, which findings went and came."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashdqn.core.errors import ConfigError
from flashdqn.core.files import MOST_JSON, open_plain_file
from flashdqn.doctor.cures.same_work import STUDENT, Interval
from flashdqn.doctor.report.contents import JSON_VERSION

BLOCK = 4
"""Windows of about a second that count as one value: neighbors are alike, and each alone would count too much."""
LEAST_BLOCKS = 3
RATIO = 1.05
"""Updates per transition that differ by more than this are another training."""
SETTINGS = ("arguments", "python", "torch", "device", "cores", "threads", "batch_size", "environments")

Row = dict[str, Any]


@dataclass(frozen=True)
class PhaseChange:
    """Microseconds for each transition (or update) that a phase took before and after."""

    name: str
    before: float
    after: float


@dataclass(frozen=True)
class FindingChange:
    """A finding that is in one of the reports or in both."""

    name: str
    before: Row | None
    after: Row | None


@dataclass(frozen=True)
class Comparison:
    """What two reports say beside each other."""

    before: Row
    after: Row
    unit: str
    """`transitions` or `updates`."""
    rates: tuple[float, float]
    """Per second of training."""
    speed: Interval | None
    """How many times as fast it is now; None if that cannot be said."""
    phases: tuple[PhaseChange, ...]
    findings: tuple[FindingChange, ...]
    warnings: tuple[str, ...]
    """Why the two may not be comparable."""

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.speed is None:
            return "Whether it is faster cannot be said: too little training was watched."
        change = describe_change(self.speed.middle)
        if self.speed.is_faster or self.speed.is_slower:
            return f"{change}, which is more than chance."
        return f"No difference beyond chance ({change.lower()})."

    def is_slower_than(self, share: float) -> bool:
        """Whether it is slower by more than a share, and by more than chance."""
        return self.speed is not None and self.speed.is_slower and self.speed.middle < 1.0 - share


def describe_change(factor: float) -> str:
    """A factor in words: 12% faster, 1.8 times as fast, 7% slower."""
    if factor >= 1.5:
        return f"{factor:.2f} times as fast"
    return f"{factor - 1:.1%} faster" if factor >= 1 else f"{1 - factor:.1%} slower"


def read_report(path: Path) -> Row:
    """A report that `--json` has written."""
    try:
        with open(open_plain_file(path, follow=True), encoding="utf-8") as file:  # noqa: PTH123 (a handle)
            report = json.loads(file.read(MOST_JSON))
    except OSError as error:
        raise ConfigError(f"'{path}' cannot be read: {error.strerror or error}.") from None
    except ValueError:
        raise ConfigError(f"'{path}' is not a report: it is not JSON.") from None
    needed = {"version", "windows", "findings", "seconds", "transitions", "updates"}
    if not isinstance(report, dict) or not needed <= set(report):
        raise ConfigError(
            f"'{path}' is not a report of the doctor: write one with `flashdqn doctor --json {path} train.py`."
        )
    if report["version"] != JSON_VERSION:
        raise ConfigError(
            f"'{path}' has version {report['version']} of the report, and this doctor reads version {JSON_VERSION}."
        )
    return report


def compare_reports(before: Row, after: Row) -> Comparison:
    """Compare two reports."""
    both = (before, after)
    unit = "transitions" if all(report["transitions"] for report in both) else "updates"
    windows = [list_training_windows(report, unit) for report in both]
    blocks = [measure_blocks(rows, unit) for rows in windows]
    return Comparison(
        before=before,
        after=after,
        unit=unit,
        rates=(compute_rate(windows[0], unit), compute_rate(windows[1], unit)),
        speed=compute_speed(*blocks),
        phases=compare_phases(windows, unit),
        findings=compare_findings(before["findings"], after["findings"]),
        warnings=tuple(list_warnings(before, after)),
    )


def list_training_windows(report: Row, unit: str) -> list[Row]:
    """The windows in which it trained, from its first update on; the first and the last are not whole."""
    windows = report["windows"]
    if any(window["updates"] for window in windows):
        first = next(i for i, window in enumerate(windows) if window["updates"])
        windows = windows[first:]
    return [window for window in windows[1:-1] if window["seconds"] > 0]


def compute_rate(windows: list[Row], unit: str) -> float:
    """Work per second; NaN without windows."""
    seconds = sum(window["seconds"] for window in windows)
    return float(sum(window[unit] for window in windows)) / seconds if seconds else math.nan


def measure_blocks(windows: list[Row], unit: str) -> list[float]:
    """The logarithm of the rate in each block of windows."""
    blocks = [windows[i : i + BLOCK] for i in range(0, len(windows) - BLOCK + 1, BLOCK)]
    rates = [compute_rate(block, unit) for block in blocks]
    return [math.log(rate) for rate in rates if rate > 0]


def compute_speed(before: list[float], after: list[float]) -> Interval | None:
    """After over before, with an interval of 95% (Welch's t on logarithms of blocks)."""
    if min(len(before), len(after)) < LEAST_BLOCKS:
        return None
    middle = statistics.fmean(after) - statistics.fmean(before)
    parts = [statistics.variance(values) / len(values) for values in (before, after)]
    spread = math.sqrt(sum(parts))
    if not spread:
        return Interval(math.exp(middle), math.exp(middle), math.exp(middle))
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (before, after), strict=True) if part
    )
    reach = get_student(freedom) * spread
    return Interval(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))


def get_student(freedom: float) -> float:
    """Student's t for 95%, rounded to the safe side."""
    if freedom > 30:
        return 2.05
    index = max(int(freedom), 1) - 1
    return STUDENT[index] if index < len(STUDENT) else 2.26


def compare_phases(windows: list[list[Row]], unit: str) -> tuple[PhaseChange, ...]:
    """Each phase for each transition, the largest change first."""
    tables = []
    for rows in windows:
        work = sum(window[unit] for window in rows) or math.nan
        names = {name for window in rows for name in window["phases"]}
        tables.append(
            {n: 1e6 * sum(w["phases"].get(n) or 0.0 for w in rows) / work for n in names},
        )
    every = {**tables[0], **tables[1]}
    changes = [PhaseChange(name, tables[0].get(name, 0.0), tables[1].get(name, 0.0)) for name in every]
    return tuple(sorted(changes, key=lambda change: (-abs(change.after - change.before), change.name)))


def compare_findings(before: list[Row], after: list[Row]) -> tuple[FindingChange, ...]:
    """Findings by name: gone, come, and still there."""
    old, new = ({finding["name"]: finding for finding in reversed(report)} for report in (before, after))
    names = dict.fromkeys([*old, *new])
    changes = [FindingChange(name, old.get(name), new.get(name)) for name in names]
    order = {(True, False): 0, (False, True): 1, (True, True): 2}
    return tuple(sorted(changes, key=lambda c: (order[c.before is not None, c.after is not None], c.name)))


def list_warnings(before: Row, after: Row) -> list[str]:
    """What else differs, so that the speeds are of two different things."""
    found = []
    for name in SETTINGS:
        if before.get(name) != after.get(name):
            words = name.replace("_", " ")
            found.append(
                f"{words}: {format_setting(before.get(name))} before, {format_setting(after.get(name))} after"
            )
    ratios = [
        report["updates"] / report["transitions"] for report in (before, after) if report["transitions"]
    ]
    if len(ratios) == 2 and min(ratios) > 0 and max(ratios) / min(ratios) > RATIO:
        found.append(
            f"updates per transition: {ratios[0]:.3g} before, {ratios[1]:.3g} after. A faster run that learns less "
            "for each transition is not a faster training"
        )
    for name, report in (("before", before), ("after", after)):
        if report.get("ended") == "failed":
            found.append(f"the script failed in the run {name}")
    return found


def format_setting(value: object) -> str:
    """A setting as text."""
    return " ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
