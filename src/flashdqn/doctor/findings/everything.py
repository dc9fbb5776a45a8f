"""All rules."""

from __future__ import annotations

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.findings import environment, growth, learning, machine, output, rows
from flashdqn.doctor.findings.rules import Rule, ranked
from flashdqn.doctor.report import Finding

RULES: tuple[Rule, ...] = (
    rows.row_copies,
    rows.row_loops,
    rows.list_batches,
    learning.updates_per_step,
    learning.optimizer,
    learning.subnormals,
    learning.no_grad,
    environment.python_env,
    environment.single_env,
    output.printing,
    output.logging,
    output.claims,
    growth.graph_leak,
    growth.growing,
    growth.slow_down,
    growth.memory,
    growth.longer_episodes,
    machine.compilation,
    machine.threads,
    machine.syncs,
    machine.starved,
)


def diagnose(evidence: Evidence) -> tuple[Finding, ...]:
    """The findings, ranked. Nothing is said of a script that never trained."""
    if evidence.seconds < 1.0:
        return ()
    return ranked([finding for rule in RULES for finding in rule(evidence)])
