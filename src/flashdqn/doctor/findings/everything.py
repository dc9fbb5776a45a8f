"""All rules."""

from __future__ import annotations

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.findings import environment, growth, learning, machine, output, rows
from flashdqn.doctor.findings.rules import Rule, rank_findings
from flashdqn.doctor.report import Finding

RULES: tuple[Rule, ...] = (
    rows.detect_row_copies,
    rows.detect_row_loops,
    rows.detect_list_batches,
    learning.detect_many_updates,
    learning.detect_unfused_optimizer,
    learning.detect_subnormals,
    learning.detect_missing_no_grad,
    environment.detect_python_env,
    environment.detect_single_env,
    output.detect_printing,
    output.detect_logging,
    output.detect_wrong_claims,
    growth.detect_graph_leaks,
    growth.detect_growing_containers,
    growth.detect_slow_down,
    growth.detect_memory_growth,
    growth.detect_longer_episodes,
    machine.detect_compilation,
    machine.detect_excess_threads,
    machine.detect_host_syncs,
    machine.detect_idle_gpu,
)


def diagnose(evidence: Evidence) -> tuple[Finding, ...]:
    """The findings, ranked. Nothing is said of a script that never trained."""
    if evidence.seconds < 1.0:
        return ()
    return rank_findings([finding for rule in RULES for finding in rule(evidence)])
