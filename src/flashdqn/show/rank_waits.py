"""Who waited for whom, in a run of several ranks, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

#: More ranks than this are not listed one by one.
LISTED = 16


def describe_ranks(summary: Mapping[str, Any]) -> Iterator[str]:
    """How long each rank has waited in exchanges, and which one the others waited for; nothing for one process."""
    ranks = summary.get("ranks")
    if not isinstance(ranks, Mapping) or not (waited := read_seconds(ranks.get("waited_seconds"))):
        return
    listed = ", ".join(f"rank {rank} {seconds:.1f} s" for rank, seconds in enumerate(waited[:LISTED]))
    more = f", and {len(waited) - LISTED} more" if len(waited) > LISTED else ""
    yield f"Time in exchanges, mostly waiting for other ranks: {listed}{more}"
    slow = ranks.get("slow_rank")
    if isinstance(slow, int) and 0 <= slow < len(waited) > 1:
        others = max(seconds for rank, seconds in enumerate(waited) if rank != slow)
        yield (
            f"Rank {slow} is the slowest: the others have waited up to {others:.1f} s, mostly for it, and it has "
            f"waited {waited[slow]:.1f} s"
        )


def read_seconds(value: Any) -> list[float]:
    """Numbers of seconds in a summary; empty if they are not such."""
    if not isinstance(value, list) or not all(type(item) in (int, float) for item in value):
        return []
    return [float(item) for item in value] if all(math.isfinite(item) for item in value) else []
