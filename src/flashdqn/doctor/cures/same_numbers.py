"""Whether a cured run computes the same as the untouched one: by the parameters after equally many updates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from flashdqn.doctor.watch.trial_rows import Digest, TrialRecord

ROUNDING = 1e-5
"""Relative difference, where two runs part, that the order of additions alone can make."""

Key = tuple[int, int]


class Sameness(StrEnum):
    """How the numbers of a cured run compare with the untouched ones."""

    EQUAL = "equal"
    """Bit by bit."""
    ROUNDED = "rounded"
    """The same but for rounding, at first; training then carries such differences on."""
    DIFFERENT = "different"
    UNKNOWN = "unknown"
    """The untouched script differs from itself, or nothing was learned."""


@dataclass(frozen=True)
class Numbers:
    """The judgment on one cure."""

    sameness: Sameness
    words: str


def compare_numbers(untouched: Sequence[TrialRecord], cured: Sequence[TrialRecord]) -> Numbers:
    """Compare the digests at the first, second, fourth … update of each optimizer."""
    tables = [index_digests(run) for run in untouched]
    if not tables or not any(tables) or not any(run.digests for run in cured):
        return Numbers(Sameness.UNKNOWN, "not judged: no update was seen")
    reference = max(tables, key=len)
    own = [find_first_difference(reference, table) for table in tables if table is not reference]
    parted = min((key for key in own if key is not None), key=lambda key: key[1], default=None)
    if parted is not None and parted[1] <= 1:
        return Numbers(
            Sameness.UNKNOWN,
            "cannot be judged: the untouched script differs from itself from its first update on",
        )
    if len(tables) < 2:
        return Numbers(Sameness.UNKNOWN, "cannot be judged: the untouched script was run once only")
    trusted = {key: d for key, d in reference.items() if parted is None or key[1] < parted[1]}
    return judge(trusted, [index_digests(run) for run in cured])


def judge(trusted: dict[Key, Digest], tables: list[dict[Key, Digest]]) -> Numbers:
    """Compare the runs of a cure with what the untouched script always computes."""
    common = [key for key in trusted if all(key in table for table in tables)]
    if not common:
        return Numbers(Sameness.UNKNOWN, "cannot be judged: too few updates")
    wrong = [key for key in common if any(table[key].code != trusted[key].code for table in tables)]
    if not wrong:
        return Numbers(Sameness.EQUAL, f"equal bit by bit through update {max(key[1] for key in common):,}")
    first = min(wrong, key=lambda key: key[1])
    apart = max(measure_distance(trusted[first], table[first]) for table in tables)
    if apart <= ROUNDING:
        size = f"{apart:.0e}" if apart else "less than 1e-9"
        return Numbers(Sameness.ROUNDED, f"equal but for rounding: {size} apart at update {first[1]:,}")
    return Numbers(Sameness.DIFFERENT, f"different: {apart:.0e} apart at update {first[1]:,}")


def index_digests(run: TrialRecord) -> dict[Key, Digest]:
    """Digests by optimizer and number of updates."""
    return {(digest.optimizer, digest.updates): digest for digest in run.digests}


def find_first_difference(one: dict[Key, Digest], other: dict[Key, Digest]) -> Key | None:
    """The first update after which two runs differ; None if they never do."""
    wrong = [key for key in one if key in other and one[key].code != other[key].code]
    return min(wrong, key=lambda key: key[1], default=None)


def measure_distance(one: Digest, other: Digest) -> float:
    """How far the sampled values are apart, relative to their size; infinite if they do not fit."""
    if len(one.sample) != len(other.sample):
        return math.inf
    apart = math.dist(one.sample, other.sample)
    size = math.hypot(*one.sample)
    if not math.isfinite(apart):
        return math.inf
    return apart / size if size else (0.0 if not apart else math.inf)
