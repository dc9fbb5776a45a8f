"""How much is learned for each transition, and what an update costs beyond its mathematics."""

from __future__ import annotations

from collections.abc import Iterator

from flashdqn.doctor.evidence import Evidence, compute_share, estimate_speedup
from flashdqn.doctor.findings.rules import compute_certainty, finding_rule, format_frequency
from flashdqn.doctor.phases import LEARNING
from flashdqn.doctor.report.contents import Finding
from flashdqn.doctor.watch.kinds import EventKind, Phase

USUAL = 1 / 32
"""Updates per transition that are common with many environments."""
NATURE = 1 / 4
"""Updates per transition of the first DQN that played Atari, and of most since."""
MUCH = 0.4
COMPUTE = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


@finding_rule
def detect_many_updates(evidence: Evidence) -> Iterator[Finding]:
    """Many updates for each step of the environments, or one for every single transition."""
    record = evidence.record
    counts = evidence.counts
    transitions, updates, steps = counts.transitions, counts.updates, counts.vector_steps
    share = evidence.share(*LEARNING)
    if not transitions or not updates or not steps:
        return
    # An actor and its critic have an optimizer each, and are one update.
    alone = max((use.steps for use in record.optimizers), default=1)
    ratio = evidence.ratio * alone / max(sum(use.steps for use in record.optimizers), alone)
    many = record.width >= 8 and evidence.updates_per_step >= 8 and ratio > 1.5 * USUAL
    every = record.width < 8 and ratio >= 0.9
    if not many and not every:
        return
    better = USUAL if many else NATURE
    place = evidence.update_loop() if many else evidence.update_call()
    collected = transitions - evidence.evaluated
    cost = 1e6 * share * evidence.watched / updates
    usual = "1/32, common with many environments" if many else "1/4, as in the first DQN that played Atari"
    yield Finding(
        name="many-updates" if many else "train-every-step",
        title=f"{format_frequency(evidence.updates_per_step)} updates after every step of {record.width} "
        "environments"
        if many
        else "An update after every single step",
        file=place[0],
        line=place[1],
        share=share,
        speedup=estimate_speedup(share, ratio / better),
        evidence=(
            f"{updates:,.0f} updates for {collected:,.0f} transitions since the first update: {ratio:.3g} each, "
            f"{cost:,.0f} µs an update.",
            f"Learning takes {share:.0%} of the time. The gain above assumes a ratio of {usual}.",
        ),
        advice="Choose the ratio of updates to transitions on purpose, and report it with every speed. Fewer "
        "updates make a run faster because it learns less from each transition. Test whether it needs them, at "
        "the same number of transitions and at the same number of seconds.",
        example="updates_due += ratio * number_of_environments\n"
        "while updates_due >= 1:\n    train_step()\n    updates_due -= 1",
        changes_learning=True,
        certainty=compute_certainty(evidence, share, MUCH),
    )


@finding_rule
def detect_unfused_optimizer(evidence: Evidence) -> Iterator[Finding]:
    """An optimizer that loops over its tensors in Python, although torch has one kernel for all of them."""
    probe = evidence.record.probes.optimizer
    sites = evidence.record.kinds(EventKind.OPTIMIZER)
    if not probe or not sites or not evidence.record.optimizers:
        return
    share = compute_share(sum(site.steady for site in sites), evidence.watched)
    # The smaller of two estimates, by share and by probe: on a busy machine steps seem longer than they are.
    steps = sum(site.count for site in sites)
    saved = min(share * (1 - 1 / probe.factor), steps * (probe.now - probe.cured) / evidence.watched)
    used = max(evidence.record.optimizers, key=lambda use: use.steps)
    site = max(sites, key=lambda site: site.count)
    yield Finding(
        name="unfused-optimizer",
        title=f"{used.name} steps through {used.tensors} tensors in Python",
        file=site.file,
        line=site.line,
        share=share,
        speedup=estimate_speedup(max(saved, 0.0)),
        evidence=(
            f"Its steps take {share:.0%} of the time, {1e6 * site.each:,.0f} µs each.",
            f"On a copy of its state: {1e6 * probe.now:,.0f} µs as it is, {1e6 * probe.cured:,.0f} µs fused.",
        ),
        advice="Use the fused kernel: the same mathematics in one call.",
        example=f"optimizer = torch.optim.{used.name}(network.parameters(), lr=lr, fused=True)",
        cure="fused",
        certainty=compute_certainty(evidence, max(saved, 0.0), 0.03) if probe.factor > 1.2 else 0.0,
    )


@finding_rule
def detect_subnormals(evidence: Evidence) -> Iterator[Finding]:
    """Numbers below the smallest normal one: the CPU is many times slower with them."""
    counts, probe = evidence.record.subnormals, evidence.record.probes.flush
    if not counts or not probe or counts[-1].flushed or counts[-1].count < 100:
        return
    share = evidence.share(*COMPUTE)
    last = counts[-1]
    site = max(evidence.record.kinds(EventKind.OPTIMIZER), key=lambda site: site.count)
    yield Finding(
        name="subnormals",
        title="Parameters and moments have become subnormal numbers, which slow the CPU down",
        file=site.file,
        line=site.line,
        share=share * (1 - 1 / probe.factor),
        speedup=estimate_speedup(share, probe.factor),
        evidence=(
            f"{last.count:,} of {last.of:,} values are subnormal"
            + (f", {counts[0].count:,} at first." if len(counts) > 1 else "."),
            f"An update on a copy of them: {1e6 * probe.now:,.0f} µs as they are, "
            f"{1e6 * probe.cured:,.0f} µs when they are flushed to zero.",
        ),
        advice="Let the CPU treat such numbers as zero: one call at the start, in every thread that computes.",
        example="torch.set_flush_denormal(True)",
        cure="flush",
        certainty=1.0 if probe.factor > 1.1 else 0.0,
    )
