"""Turn a record into a report."""

from __future__ import annotations

import math
from pathlib import Path

from flashdqn.doctor import source
from flashdqn.doctor.evidence import Evidence, SecondsBy, compute_share
from flashdqn.doctor.findings.machine import measure_compilation
from flashdqn.doctor.findings.rules import diagnose, diagnose_health
from flashdqn.doctor.libraries.advise import speak_library
from flashdqn.doctor.phases import LEARNING
from flashdqn.doctor.report.contents import (
    CountedLine,
    Finding,
    GrowingContainer,
    HotLine,
    Limit,
    PhaseShare,
    Report,
    Window,
)
from flashdqn.doctor.watch.kinds import COPIES, IMPLICIT_COPIES, Ending, EventKind, Phase
from flashdqn.doctor.watch.schema import WatchRecord
from flashdqn.doctor.workers import summarize_workers

LINES = 15
SLOW = 0.25
"""Share of the machine's best matrix-product speed: below it, a network's time is not its arithmetic."""


def build_report(record: WatchRecord) -> Report:
    """Build the whole report."""
    evidence = Evidence(record)
    totals = record.totals
    findings = speak_library(evidence, diagnose(evidence))
    bound, because = find_bottleneck(evidence, findings)
    learning = [f for f in record.forwards if f.role is Phase.FORWARD and f.graded]
    return Report(
        script=record.script,
        arguments=record.arguments,
        ended=record.ended,
        error=record.error,
        seconds=record.seconds,
        python=record.python,
        torch=record.torch,
        device=record.device,
        cores=record.cores,
        threads=record.threads,
        transitions=totals.transitions,
        vector_steps=totals.vector_steps,
        updates=totals.updates,
        episodes=totals.episodes,
        batch_size=max(learning, key=lambda f: f.count).batch if learning else 0,
        environments=record.width,
        bound=bound,
        bound_because=because,
        overhead=compute_overhead(record),
        samples=record.looks,
        deep=record.deep,
        phases=summarize_phases(evidence),
        lines=find_hot_lines(evidence),
        windows=build_windows(evidence),
        findings=findings,
        notes=collect_notes(evidence, findings),
        copies=list_tensor_copies(record),
        operations=list_operations(record),
        growth=list_growing_containers(record),
        trained=sum(window.seconds for window in record.windows if window.start >= record.began),
        warm_up=count_warm_up(record),
        evaluated=evidence.evaluated,
        health=diagnose_health(evidence),
        workers=summarize_workers(evidence),
        load=math.nan if evidence.others is None else evidence.others,
    )


def count_warm_up(record: WatchRecord) -> int:
    """Transitions before the first update, as far as the windows tell."""
    if record.learning_began is None or record.bursts.number < 2:
        return 0
    before = [window for window in record.windows if window.start < record.learning_began]
    return sum(window.counts.transitions for window in before)


def summarize_phases(evidence: Evidence) -> tuple[PhaseShare, ...]:
    """Seconds and shares by phase over the whole watch, start-up included; the longest first."""
    seconds = SecondsBy[Phase]()
    for window in evidence.record.windows:
        for phase, spent in evidence.phases_of(window).items():
            seconds[phase] += spent
    whole = sum(seconds.values())
    return tuple(
        PhaseShare(phase, spent, compute_share(spent, whole))
        for phase, spent in sorted(seconds.items(), key=lambda item: -item[1])
    )


def find_hot_lines(evidence: Evidence) -> tuple[HotLine, ...]:
    """Where training spent its time, by line."""
    spent = {place: sum(by_phase.values()) for place, by_phase in evidence.by_line.items()}
    hottest = sorted(spent, key=lambda place: -spent[place])[:LINES]
    return tuple(
        HotLine(
            file=file,
            line=line,
            function=evidence.functions.get((file, line), ""),
            source=source.read_line(file, line),
            share=compute_share(spent[file, line], evidence.seconds),
            phase=evidence.by_line[file, line].longest(),
            context=source.read_lines_around(file, line),
            first=first if (first := evidence.first_line_of(file, line)) != line else 0,
        )
        for file, line in hottest
        if spent[file, line] > 0.005 * evidence.seconds
    )


def list_tensor_copies(record: WatchRecord) -> tuple[CountedLine, ...]:
    """Values taken out of tensors and tensors moved, by line."""
    watched = record.counted.seconds or record.seconds
    sites = [site for site in record.kinds(*COPIES) if site.count >= 10 or site.on_device]
    return tuple(
        CountedLine(
            what=f".{site.kind}()" if site.kind not in IMPLICIT_COPIES else f"{site.kind}(tensor)",
            file=site.file,
            line=site.line,
            count=site.count,
            per_step=record.per_step(site),
            seconds=site.seconds,
            share=compute_share(site.seconds, watched),
            waits=site.on_device,
        )
        for site in sorted(sites, key=lambda site: -site.seconds)[:LINES]
    )


def list_growing_containers(record: WatchRecord) -> tuple[GrowingContainer, ...]:
    """What got larger while it was watched, the largest first."""
    return tuple(
        GrowingContainer(c.name, c.where, c.type, c.sizes, "operations" if c.is_graph else "items")
        for c in sorted(record.containers, key=lambda c: -c.sizes[-1][1])
        if c.sizes[-1][1] > 1.2 * c.sizes[0][1]
    )[:10]


def list_operations(record: WatchRecord) -> tuple[CountedLine, ...]:
    """Torch's operations by line, counted in deep mode."""
    steps = max(record.totals.vector_steps or record.totals.updates, 1)
    return tuple(
        CountedLine(
            what=use.operation,
            file=use.file,
            line=use.line,
            count=use.count,
            per_step=use.count / steps,
            seconds=use.seconds,
            share=compute_share(use.seconds, record.seconds),
            waits=0,
        )
        for use in record.operations[: 2 * LINES]
    )


def build_windows(evidence: Evidence) -> tuple[Window, ...]:
    """The windows of about a second each, for the charts."""
    return tuple(
        Window(
            start=window.start,
            seconds=window.seconds,
            transitions=counts.transitions,
            vector_steps=counts.vector_steps,
            updates=counts.updates,
            episodes=counts.episodes,
            episode_length=counts.episode_steps / counts.episodes if counts.episodes else math.nan,
            memory=window.memory,
            device_memory=window.device_memory,
            phases=dict(evidence.phases_of(window)),
        )
        for window in evidence.record.windows
        for counts in (window.counts,)
    )


def compute_overhead(record: WatchRecord) -> float:
    """How much watching slowed the script: counting, looking, and the clerk's work."""
    spent, whole = record.costs.total, record.seconds
    return spent / max(whole - spent, 1e-9) if whole else 0.0


def find_bottleneck(evidence: Evidence, findings: tuple[Finding, ...]) -> tuple[Limit, str]:
    """What limits the training, and the reason for saying so."""
    if evidence.seconds < 1.0:
        return Limit.UNKNOWN, "training was not watched for long enough"
    for finding in findings:
        if finding.limit is not Limit.UNKNOWN and finding.share > 0.4:
            return finding.limit, f"{finding.share:.0%} of the training is `{finding.name}`, below"
    record, learning = evidence.record, evidence.share(*LEARNING)
    shares = {
        Limit.ENVIRONMENT: evidence.share(Phase.ENVIRONMENT),
        Limit.ACTING: evidence.share(Phase.ACTING),
        Limit.COPIES: evidence.share(Phase.DATA_MOVEMENT),
        Limit.COMPILATION: evidence.share(Phase.COMPILATION),
        Limit.OUTPUT: evidence.share(Phase.PRINTING, Phase.LOGGING),
        Limit.PYTHON: evidence.share(Phase.PYTHON_REST),
        Limit.LOADING: evidence.share(Phase.LOADING),
        Limit.WORKERS: evidence.share(Phase.WAITING) if record.children else 0.0,
    }
    largest = max(shares, key=lambda limit: shares[limit])
    if shares[largest] >= learning:
        return largest, f"{shares[largest]:.0%} of the training goes there, and {learning:.0%} to learning"
    return find_learning_bottleneck(evidence, learning)


def find_learning_bottleneck(evidence: Evidence, learning: float) -> tuple[Limit, str]:
    """Whether learning is limited by computing, or by the work around it."""
    record = evidence.record
    if record.jax and not record.totals.updates:
        return (
            Limit.UNKNOWN,
            f"learning takes {learning:.0%} of the training, in updates that JAX has compiled",
        )
    around = evidence.share(Phase.LEARNING_REST, Phase.REPLAY)
    if around > 0.5 * learning:
        return (
            Limit.PYTHON,
            f"learning takes {learning:.0%} of the training, and {around:.0%} is spent outside its network",
        )
    updates, each = evidence.counts.updates, "an update"
    if not updates:
        updates, each = sum(site.count for site in record.kinds(EventKind.BACKWARD)), "a backward pass"
    seconds = learning * evidence.watched / max(updates, 1)
    start = f"learning takes {learning:.0%} of the training, {1e6 * seconds:,.0f} µs {each}"
    if record.device == "cuda":
        busy = record.utilization
        if busy is None:
            return Limit.UNKNOWN, start + "; how busy the GPU was is not known (no nvidia-smi)"
        limit = Limit.LAUNCHES if busy < 0.5 else Limit.COMPUTE
        return limit, f"{start}; the GPU was busy {busy:.0%} of the time"
    best = record.probes.flops
    needed = sum(
        2.0 * f.parameters * f.batch * f.count * (3 if f.graded else 1)
        for f in record.forwards
        if f.role is Phase.FORWARD
    )
    if not best or not needed or not evidence.counts.updates:
        return Limit.UNKNOWN, start
    floor = needed / best / max(record.called.updates, 1)  # networks' calls are counted only part of the time
    share = floor / max(seconds, 1e-9)
    because = f"{start}, of which its matrix products need about {1e6 * floor:,.0f} µs on this machine"
    return (Limit.COMPUTE if share > SLOW else Limit.LAUNCHES), because


def collect_notes(evidence: Evidence, findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """Notes on what could not be seen."""
    record = evidence.record
    found = []
    if not record.totals.vector_steps:
        found.append(
            "No environment was recognized: a class with `step` and `reset` whose steps return (observation, "
            "reward, done, …). Figures per transition are missing."
        )
    if not record.totals.updates:
        found.append("No torch optimizer took a step: updates are not counted.")
    if record.jax:
        found.append(
            "JAX computes in the background: its time appears where the script first waits for a result, and its "
            "compiled updates cannot be split into forward, backward and optimizer."
        )
    seconds, periods = measure_compilation(evidence)
    if periods == 1 and not any(f.name == "compile-in-training" for f in findings):
        found.append(
            f"Compilers were at work for {seconds:.1f} s when training began: a one-time start-up cost."
        )
    if record.timer_taken:
        found.append("The script uses the alarm timer itself: after that the doctor could not look.")
    found += [f"A part of the watch failed and was left out: {failure}." for failure in record.failures]
    found += [f"The probe '{failed.part}' did not work: {failed.reason}." for failed in record.probes.failed]
    if record.ended is Ending.KILLED:
        found.append("The script ended without warning; this is what was known a few seconds before.")
    if Path(record.script).suffix == ".py" and evidence.watched < 5.0:
        found.append("Training was watched for less than five seconds: findings need more.")
    return tuple(found)
