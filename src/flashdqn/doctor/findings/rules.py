"""What all rules share: how they are known, how sure a share of looks makes one, and the order of the findings."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Iterator

from flashdqn.doctor import findings
from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.report.contents import Finding

Rule = Callable[[Evidence], Iterator[Finding]]

CERTAIN = 0.95
"""Nothing that is less sure than this is reported."""
LEAST_GAIN = 1.05
"""A finding about time that would gain less than five percent is none."""

_rules: list[Rule] = []


def finding_rule(rule: Rule) -> Rule:
    """Let the doctor ask this function what it finds. A file in this folder is enough: all of them are imported."""
    _rules.append(rule)
    return rule


def list_rules() -> tuple[Rule, ...]:
    """Every rule of every file in this folder."""
    for module in pkgutil.iter_modules(findings.__path__):
        importlib.import_module(f"{findings.__name__}.{module.name}")
    return tuple(_rules)


def diagnose(evidence: Evidence) -> tuple[Finding, ...]:
    """The findings, ranked. Nothing is said of a script that never trained."""
    if evidence.seconds < 1.0:
        return ()
    return rank_findings([finding for rule in list_rules() for finding in rule(evidence)])


def compute_certainty(evidence: Evidence, share: float, least: float) -> float:
    """How sure one can be that a share of the time is more than `least`, by the number of looks."""
    looks = max(evidence.looks, 1)
    spread = math.sqrt(max(share * (1.0 - share), 1e-4) / looks)
    return 0.5 * (1.0 + math.erf((share - least) / spread / math.sqrt(2.0)))


def rank_findings(found: list[Finding]) -> tuple[Finding, ...]:
    """Those that are certain and worth it: the largest gain first, then what is not a matter of time."""
    kept = [f for f in found if f.certainty >= CERTAIN and (f.speedup >= LEAST_GAIN or f.speedup == 1.0)]
    return tuple(sorted(kept, key=lambda f: (-f.speedup, -f.share, f.name)))


def format_frequency(number: float) -> str:
    """1,234 or 0.25."""
    return f"{number:,.0f}" if number >= 20 else f"{number:.3g}"
