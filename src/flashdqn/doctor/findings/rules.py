"""What all rules share: their list, how certain a share of looks is, and the order of the findings."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace

from flashdqn.doctor import findings
from flashdqn.doctor.evidence import Evidence, is_library_file
from flashdqn.doctor.report.contents import Finding
from flashdqn.doctor.watch.health_rows import HealthRecord
from flashdqn.doctor.watch.kinds import Ending

Rule = Callable[[Evidence], Iterator[Finding]]

CERTAIN = 0.95
"""Findings that are less certain than this are not reported."""
LEAST_CALLS = 20
"""A time per call needs this many calls; the first one is left out."""
LEAST_STEPS = 10
"""Steps of the environments, or updates, without which nothing is said about speed."""
EARLY = 10.0
"""A script that fails within this many seconds of training gets no findings about speed."""
LEAST_GAIN = 1.05
"""A finding about time is reported only if it would gain at least five percent."""

_rules: list[Rule] = []


def finding_rule(rule: Rule) -> Rule:
    """Register a rule. A file in this folder is enough: all of them are imported."""
    _rules.append(rule)
    return rule


HealthRule = Callable[[Evidence, HealthRecord], Iterator[Finding]]
_health_rules: list[HealthRule] = []


def health_rule(rule: HealthRule) -> HealthRule:
    """Register a rule about learning."""
    _health_rules.append(rule)
    return rule


def diagnose_health(evidence: Evidence) -> tuple[Finding, ...] | None:
    """The findings about learning; None if nobody asked for them."""
    list_rules()
    health = evidence.record.health
    if health is None:
        return None
    return tuple(
        point_to_user(evidence, finding) for rule in _health_rules for finding in rule(evidence, health)
    )


def list_rules() -> tuple[Rule, ...]:
    """Every rule of every file in this folder."""
    for module in pkgutil.iter_modules(findings.__path__):
        importlib.import_module(f"{findings.__name__}.{module.name}")
    return tuple(_rules)


def diagnose(evidence: Evidence) -> tuple[Finding, ...]:
    """The ranked findings; none for a script that trained for less than a second. Speed needs more than that: some
    steps or updates, and a script that does not fail at once."""
    if evidence.seconds < 1.0:
        return ()
    found = [finding for rule in list_rules() for finding in rule(evidence)]
    if not has_speed(evidence):
        found = [finding for finding in found if finding.speedup == 1.0 and not finding.share]
    return rank_findings([point_to_user(evidence, finding) for finding in found])


def has_speed(evidence: Evidence) -> bool:
    """Whether the script did enough for its speed to be judged."""
    counts = evidence.counts
    if evidence.record.ended is Ending.FAILED and evidence.watched < EARLY:
        return False
    return max(counts.vector_steps, counts.updates, evidence.worker_steps) >= LEAST_STEPS


def point_to_user(evidence: Evidence, finding: Finding) -> Finding:
    """The finding at the user's own line: where that calls the library in whose code the time is spent."""
    if not finding.line or not is_library_file(finding.file):
        return finding
    place = evidence.find_user_line(finding.file, finding.line)
    if place is None:
        return finding
    return replace(finding, file=place[0], line=place[1], within=f"{finding.file}:{finding.line}")


def compute_certainty(evidence: Evidence, share: float, least: float) -> float:
    """How certain it is, by the number of looks, that a share of the time is more than `least`."""
    looks = max(evidence.looks, 1)
    spread = math.sqrt(max(share * (1.0 - share), 1e-4) / looks)
    return 0.5 * (1.0 + math.erf((share - least) / spread / math.sqrt(2.0)))


def rank_findings(found: list[Finding]) -> tuple[Finding, ...]:
    """The certain and worthwhile findings: the largest gain first, then those that are not about speed."""
    kept = [f for f in found if f.certainty >= CERTAIN and (f.speedup >= LEAST_GAIN or f.speedup == 1.0)]
    launches = any(f.name == "launch-bound" for f in kept)  # fewer updates hide it, they do not cure it
    return tuple(sorted(kept, key=lambda f: (launches and f.changes_learning, -f.speedup, -f.share, f.name)))


def format_frequency(number: float) -> str:
    """A number as 1,234 or 0.25."""
    return f"{number:,.0f}" if number >= 20 else f"{number:.3g}"
