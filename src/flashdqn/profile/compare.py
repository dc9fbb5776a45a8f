"""Whether one training is faster than another, or whether it only looks so."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from flashdqn.profile.result import RoundSpread, Verdict

#: Fewer rounds say nothing: two rounds agree by chance half of the time.
ENOUGH = 3
#: From this number of rounds on, the best and the worst are not counted: another program may have interfered.
TRIMMED = 7


def compute_spread(values: Sequence[float]) -> RoundSpread:
    """Median, lowest and highest of at least one value; of many, without the two at the ends."""
    ordered = sorted(values)
    kept = ordered[1:-1] if len(ordered) >= TRIMMED else ordered
    return RoundSpread(statistics.median(ordered), kept[0], kept[-1])


def compute_speed_up(rates: Sequence[float], baseline: Sequence[float]) -> RoundSpread | None:
    """The speed-up over the baseline, round by round: whatever slowed the machine in a round slowed both."""
    pairs = [ours / theirs for ours, theirs in zip(rates, baseline, strict=False) if theirs > 0]
    return compute_spread(pairs) if pairs else None


def judge_speed_up(found: RoundSpread | None, rounds: int, noise: RoundSpread | None) -> Verdict:
    """Faster or slower only where all rounds that count say so, and by more than the baseline differs from
    itself."""
    if found is None or rounds < ENOUGH:
        return "too few rounds"
    if found.low <= 1.0 <= found.high:
        return "no difference"
    if noise is not None and noise.low <= found.median <= noise.high:
        return "no difference"
    return "faster" if found.median > 1.0 else "slower"
