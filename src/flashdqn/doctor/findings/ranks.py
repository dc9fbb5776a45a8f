"""Several processes that train together, and what the GPU waited for."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from flashdqn.doctor.evidence import Evidence, compute_share, estimate_speedup
from flashdqn.doctor.findings.rules import finding_rule
from flashdqn.doctor.report.contents import Finding, Limit
from flashdqn.doctor.watch.kinds import Phase

UNEVEN = 1.2
LEAST_UPDATES = 20


@finding_rule
def detect_stragglers(evidence: Evidence) -> Iterator[Finding]:
    """One rank that takes longer than the others before gradients are exchanged."""
    records = [evidence.record, *evidence.record.children]
    ranks = [r for r in records if r.process.rank and r.totals.updates >= LEAST_UPDATES]
    if len(ranks) < 2:
        return
    own = {}
    for record in ranks:
        seen = evidence if record is evidence.record else Evidence(record)
        apart = seen.seconds * (
            1.0 - seen.share(Phase.BACKWARD, Phase.WAITING)
        )  # waiting is in the backward pass
        own[record.process.rank] = apart / max(record.totals.updates, 1)
    slowest = max(own, key=lambda rank: own[rank])
    usual = median(own.values()) if len(own) > 2 else min(own.values())
    if usual <= 0 or own[slowest] < UNEVEN * usual:
        return
    whole = evidence.watched / max(evidence.counts.updates, 1)
    share = compute_share(1e3 * (own[slowest] - usual), 1e3 * whole)
    place = evidence.update_call()
    yield Finding(
        name="stragglers",
        title=f"Rank {slowest} takes {own[slowest] / usual:.1f} times as long as the others before gradients are "
        "exchanged",
        file=place[0],
        line=place[1],
        share=share,
        speedup=estimate_speedup(share),
        evidence=(
            "Time for each update outside the backward pass: "
            + ", ".join(f"{1e3 * seconds:,.1f} ms on rank {rank}" for rank, seconds in sorted(own.items()))
            + ".",
        ),
        advice="Give each rank the same work: the same number of environments and rows, and logging, evaluation "
        "and "
        "checkpoints spread out or left to a process of its own.",
        example="",
        limit=Limit.WORKERS,
        certainty=1.0,
    )


@finding_rule
def detect_gpu_gaps(evidence: Evidence) -> Iterator[Finding]:
    """What the GPU waited for, seen by torch's profiler in deep mode."""
    seen = evidence.record.device_time
    if seen is None or seen.seconds <= 0:
        return
    parts = {
        "the host, which does something else": seen.host / seen.seconds,
        "the next launch": seen.launches / seen.seconds,
        "copies": seen.copies / seen.seconds,
    }
    cause = max(parts, key=lambda name: parts[name])
    if seen.computing > 0.7 * seen.seconds:
        return
    place = evidence.update_call()
    yield Finding(
        name="gpu-idle",
        title=f"The GPU computes {seen.computing / seen.seconds:.0%} of the time; most of the rest it waits for "
        f"{cause}",
        file=place[0],
        line=place[1],
        share=0.0,
        speedup=1.0,
        evidence=(
            f"Two seconds of torch's profiler: {seen.operations:,} operations, computing "
            f"{seen.computing / seen.seconds:.0%}, "
            + ", ".join(f"{share:.0%} {name}" for name, share in parts.items())
            + ".",
        ),
        advice="For launches: a CUDA graph or fewer, larger operations. For the host: environments, Python and "
        "logging "
        "beside the GPU's work, not before it. For copies: keep the data on the device.",
        example="",
        certainty=1.0,
    )
