"""A machine that does not give the script its time."""

from __future__ import annotations

from collections.abc import Iterator

from flashdqn.doctor.evidence import Evidence, compute_share
from flashdqn.doctor.findings.rules import finding_rule
from flashdqn.doctor.report.contents import Finding

LEAST_SHARE = 0.15


@finding_rule
def detect_throttling(evidence: Evidence) -> Iterator[Finding]:
    """The script is ready to run and gets no core: other programs, or a container's quota."""
    windows = evidence.training_windows
    # The first window holds what was waited for before the thread was known.
    known = windows[1:]
    seconds = sum(window.seconds for window in known)
    queued = compute_share(sum(window.counts.queued for window in known), seconds)
    quota = compute_share(sum(window.counts.throttled for window in known), seconds)
    share = max(queued, quota)
    if share < LEAST_SHARE or len(known) < 3:
        return
    others = evidence.others
    cores = evidence.record.cores
    crowd = (f"Other programs kept {others:.1f} of {cores} cores busy.",) if others is not None else ()
    yield Finding(
        name="throttled",
        title="The container has used up its share of CPU time, again and again"
        if quota > queued
        else "The script waits for a core: other programs use them",
        file=evidence.record.script,
        line=0,
        share=0.0,
        speedup=1.0,
        evidence=(
            f"The training was ready to run, and waited for a core, {queued:.0%} of the time."
            if queued >= quota
            else f"The quota of CPU time was used up {quota:.0%} of the time.",
            *crowd,
        ),
        advice="Times and gains in this report hold for the machine as it was. Measure again when it is quiet, "
        "or give "
        "the script cores of its own."
        if queued >= quota
        else "Ask for more CPU, or use fewer threads and workers than the quota has cores.",
        example="taskset -c 0,1 python train.py",
        certainty=1.0,
    )  # fmt: skip
