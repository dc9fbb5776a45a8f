"""Printing and logging in the loop, and what a script says about its own speed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from itertools import pairwise

from flashdqn.doctor import source
from flashdqn.doctor.evidence import Evidence, estimate_speedup
from flashdqn.doctor.findings.rules import compute_certainty, finding_rule, format_frequency
from flashdqn.doctor.report.contents import Finding, Limit
from flashdqn.doctor.watch.kinds import EventKind, Phase
from flashdqn.doctor.watch.rows import SpeedClaim

WRONG = 1.4
"""The factor by which claims must differ from what was counted, again and again."""


@finding_rule
def detect_printing(evidence: Evidence) -> Iterator[Finding]:
    """Lines printed in the hot loop: building their text, and writing it."""
    sites = [site for site in evidence.record.kinds(EventKind.PRINT) if site.count >= 50]
    places = {
        (site.file, line)
        for site in sites
        for line in range(
            source.find_statement_lines(site.file, site.line)[0],
            source.find_statement_lines(site.file, site.line)[1] + 1,
        )
    }
    share = evidence.at(places) if sites else evidence.share(Phase.PRINTING)
    if not sites:
        return
    worst = max(sites, key=lambda site: (evidence.at([(site.file, site.line)]), site.count))
    count = sum(site.count for site in sites)
    steps = max(evidence.record.totals.vector_steps, 1)
    yield Finding(
        name="printing",
        title=f"{format_frequency(count / steps)} lines are printed for every step",
        file=worst.file,
        line=worst.line,
        share=share,
        speedup=estimate_speedup(share),
        evidence=(
            f"print() was called {count:,} times from {len(sites)} lines; with building their text they take "
            f"{share:.0%} of the time.",
            f"Writing alone: {sum(site.seconds for site in sites):.2f} s.",
        ),
        advice="Print every few seconds, not every step. On a slow terminal it costs even more.",
        example="if time.time() - last > 5:\n    print(summary)\n    last = time.time()",
        cure="no-print",
        limit=Limit.OUTPUT,
        certainty=compute_certainty(evidence, share, 0.03),
    )


@finding_rule
def detect_logging(evidence: Evidence) -> Iterator[Finding]:
    """Loggers, writers and plots in the hot loop."""
    share = evidence.share(Phase.LOGGING)
    lines = {
        place: phases[Phase.LOGGING] for place, phases in evidence.by_line.items() if phases[Phase.LOGGING]
    }
    if not lines:
        return
    file, line = max(lines, key=lambda place: lines[place])
    yield Finding(
        name="logging",
        title="Logging, saving or plotting takes much of the time",
        file=file,
        line=line,
        share=share,
        speedup=estimate_speedup(share),
        evidence=(
            f"It takes {share:.0%} of the time. The most expensive line: {source.read_line(file, line)}",
        ),
        advice="Write less often: means over many steps say as much.",
        example="if update % 1000 == 0:\n    writer.add_scalar('loss', loss, update)",
        cure="no-log",
        limit=Limit.OUTPUT,
        certainty=compute_certainty(evidence, share, 0.05),
    )


@finding_rule
def detect_wrong_claims(evidence: Evidence) -> Iterator[Finding]:
    """A printed number of steps per second that differs from what was counted."""
    by_line: dict[tuple[str, int], list[SpeedClaim]] = {}
    for claim in evidence.record.claims:
        by_line.setdefault((claim.file, claim.line), []).append(claim)
    for (file, line), made in by_line.items():
        errors = [
            error
            for before, claim in pairwise(made)
            if (error := compute_claim_error(evidence, before, claim))
        ]
        if len(errors) < 3:
            continue
        middle = statistics.median(errors)
        agree = sum(abs(error) > math.log(WRONG) and error * middle > 0 for error in errors) / len(errors)
        factor = math.exp(abs(middle))
        last, true = made[-1], compute_true_rates(evidence, made[-2], made[-1])
        yield Finding(
            name="throughput-claim",
            title=f"The script says it is {factor:.1f} times {'faster' if middle > 0 else 'slower'} than it is",
            file=file,
            line=line,
            share=0.0,
            speedup=1.0,
            evidence=(
                f"It printed: {last.text}",
                f"Counted: {true[1]:,.0f} transitions per second since its last such line, "
                f"{true[0]:,.0f} since the start.",
                f"{len(errors)} such lines were compared.",
            ),
            advice="Count each transition of every environment once, and divide by the time in which they were "
            "made.",
            example="transitions += number_of_environments\nprint(transitions / (time.perf_counter() - start))",
            certainty=agree if factor > WRONG else 0.0,
        )


def compute_true_rates(evidence: Evidence, before: SpeedClaim, claim: SpeedClaim) -> tuple[float, float]:
    """Transitions per second from the start of training to a claim, and since the claim before it."""
    whole = claim.transitions / max(claim.time - evidence.record.began, 1e-3)
    since = (claim.transitions - before.transitions) / max(claim.time - before.time, 1e-3)
    return whole, since


def compute_claim_error(evidence: Evidence, before: SpeedClaim, claim: SpeedClaim) -> float:
    """The logarithm of claimed over counted, against the closer of the two rates."""
    if claim.value <= 0:
        return 0.0
    return min(
        (math.log(claim.value / rate) for rate in compute_true_rates(evidence, before, claim) if rate > 0),
        key=abs,
        default=0.0,
    )
