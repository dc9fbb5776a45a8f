"""From a record to a report."""

from __future__ import annotations

import math
from pathlib import Path

from flashdqn.doctor import source
from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.findings.everything import diagnose
from flashdqn.doctor.findings.machine import measure_compilation
from flashdqn.doctor.findings.rows import COPIES
from flashdqn.doctor.phases import LEARNING
from flashdqn.doctor.record import WatchRecord
from flashdqn.doctor.report import CountedLine, Finding, HotLine, PhaseShare, Report, Window

LINES = 15
IMPLICIT = ("bool", "int", "float")
"""Conversions that read no method's name in the source."""
SLOW = 0.25
"""Of what the machine does at best in a matrix product: below, a network's time is not its arithmetic."""

#: A finding that takes much of the time says what the training is limited by.
BOUNDS = {
    "per-row-copies": "copies",
    "host-syncs": "copies",
    "row-loop": "python",
    "list-batches": "python",
    "growing-buffer": "python",
    "python-env": "environment",
    "single-env-acting": "acting",
    "compile-in-training": "compilation",
    "printing": "output",
    "logging": "output",
}


def build_report(record: WatchRecord) -> Report:
    """All that there is to say."""
    evidence = Evidence(record)
    raw = record.raw
    findings = diagnose(evidence)
    bound, because = find_bottleneck(evidence, findings)
    learning = [f for f in record.forwards if f.role == "forward" and f.graded]
    return Report(
        script=raw["script"],
        arguments=tuple(raw["arguments"]),
        ended=raw["ended"],
        error=raw["error"],
        seconds=sum(window["seconds"] for window in record.windows),
        python=raw["python"],
        torch=raw["torch"],
        device=raw["device"],
        cores=raw["cores"],
        threads=raw["threads"],
        transitions=int(record.total("transitions")),
        vector_steps=int(record.total("vector_steps")),
        updates=int(record.total("updates")),
        episodes=int(record.total("episodes")),
        batch_size=max(learning, key=lambda f: f.count).batch if learning else 0,
        environments=record.width,
        bound=bound,
        bound_because=because,
        overhead=compute_overhead(record),
        samples=raw["looks"],
        deep=raw["deep"],
        phases=summarize_phases(evidence),
        lines=find_hot_lines(evidence),
        windows=build_windows(evidence),
        findings=findings,
        notes=collect_notes(evidence, findings),
        copies=list_tensor_copies(record),
        operations=list_operations(record),
        growth=tuple(
            {"name": c.name, "where": c.where, "type": c.type, "sizes": [list(pair) for pair in c.sizes]}
            for c in sorted(record.containers, key=lambda c: -c.sizes[-1][1])
            if c.sizes[-1][1] > 1.2 * c.sizes[0][1]
        )[:10],
    )


def summarize_phases(evidence: Evidence) -> tuple[PhaseShare, ...]:
    """Over the whole time watched, start-up included; the longest first."""
    seconds: dict[str, float] = {}
    for window in evidence.record.windows:
        for name, spent in evidence.phases_of(window).items():
            seconds[name] = seconds.get(name, 0.0) + spent
    whole = sum(seconds.values()) or 1.0
    return tuple(
        PhaseShare(name, spent, spent / whole)
        for name, spent in sorted(seconds.items(), key=lambda item: -item[1])
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
            share=spent[file, line] / evidence.seconds,
            phase=evidence.by_line[file, line].most_common(1)[0][0],
            context=source.read_lines_around(file, line),
        )
        for file, line in hottest
        if spent[file, line] > 0.005 * evidence.seconds
    )


def list_tensor_copies(record: WatchRecord) -> tuple[CountedLine, ...]:
    """Values taken out of tensors and tensors moved, by line."""
    watched = max(record.raw["counted"]["seconds"], 1e-9)
    sites = [site for site in record.kinds(*COPIES) if site.count >= 10 or site.on_device]
    return tuple(
        CountedLine(
            what=f".{site.kind}()" if site.kind not in IMPLICIT else f"{site.kind}(tensor)",
            file=site.file,
            line=site.line,
            count=site.count,
            per_step=record.per_step(site),
            seconds=site.seconds,
            share=site.seconds / watched,
            waits=site.on_device,
        )
        for site in sorted(sites, key=lambda site: -site.seconds)[:LINES]
    )


def list_operations(record: WatchRecord) -> tuple[CountedLine, ...]:
    """Torch's operations by line, from the deeper look."""
    steps = max(record.total("vector_steps") or record.total("updates"), 1.0)
    watched = max(sum(window["seconds"] for window in record.windows), 1e-9)
    return tuple(
        CountedLine(
            what=row["operation"],
            file=row["file"],
            line=row["line"],
            count=row["count"],
            per_step=row["count"] / steps,
            seconds=row["seconds"],
            share=row["seconds"] / watched,
            waits=0,
        )
        for row in record.raw["operations"][: 2 * LINES]
    )


def build_windows(evidence: Evidence) -> tuple[Window, ...]:
    """Second by second, for the charts."""
    return tuple(
        Window(
            start=window["start"],
            seconds=window["seconds"],
            transitions=int(window["transitions"]),
            vector_steps=int(window["vector_steps"]),
            updates=int(window["updates"]),
            episodes=int(window["episodes"]),
            episode_length=window["episode_steps"] / window["episodes"] if window["episodes"] else math.nan,
            memory=int(window["memory"]),
            device_memory=int(window["device_memory"]),
            phases=evidence.phases_of(window),
        )
        for window in evidence.record.windows
    )


def compute_overhead(record: WatchRecord) -> float:
    """What watching cost the script: counting, looking, and the clerk's work."""
    own = record.raw["own"]
    spent = sum(own[name] for name in own if name.endswith("_seconds"))
    whole = sum(window["seconds"] for window in record.windows)
    return float(spent / max(whole - spent, 1e-9)) if whole else 0.0


def find_bottleneck(evidence: Evidence, findings: tuple[Finding, ...]) -> tuple[str, str]:
    """What the training is bound by, and why one may say so."""
    if evidence.seconds < 1.0:
        return "unknown", "training was not seen long enough"
    for finding in findings:
        if finding.name in BOUNDS and finding.share > 0.4:
            return BOUNDS[finding.name], f"{finding.share:.0%} of the training is `{finding.name}`, below"
    learning = evidence.share(*LEARNING)
    shares = {
        "environment": evidence.share("environment"),
        "acting": evidence.share("acting"),
        "copies": evidence.share("data movement"),
        "compilation": evidence.share("compilation"),
        "output": evidence.share("printing", "logging"),
        "python": evidence.share("python (rest)"),
    }
    largest = max(shares, key=lambda name: shares[name])
    if shares[largest] >= learning:
        return largest, f"{shares[largest]:.0%} of the training goes there, and {learning:.0%} to learning"
    return find_learning_bottleneck(evidence, learning)


def find_learning_bottleneck(evidence: Evidence, learning: float) -> tuple[str, str]:
    """Whether the learner computes, or mostly gets ready to."""
    raw = evidence.record.raw
    if raw["jax"] and not evidence.record.total("updates"):
        return "unknown", f"learning takes {learning:.0%} of the training, in updates that JAX has compiled"
    around = evidence.share("learning (rest)", "replay")
    if around > 0.5 * learning:
        return (
            "python",
            f"learning takes {learning:.0%} of the training, and {around:.0%} goes by outside of its network",
        )
    updates = max(evidence.record.total("updates"), 1.0)
    seconds = learning * evidence.watched / updates
    start = f"learning takes {learning:.0%} of the training, {1e6 * seconds:,.0f} µs an update"
    if raw["device"] == "cuda":
        busy = raw.get("utilization")
        if busy is None:
            return "unknown", start + "; how busy the GPU was is not known (no nvidia-smi)"
        return ("launches" if busy < 0.5 else "compute"), f"{start}; the GPU was busy {busy:.0%} of the time"
    best = raw["probes"].get("matmul", {}).get("flops")
    needed = sum(
        2.0 * f.parameters * f.batch * f.count * (3 if f.graded else 1)
        for f in evidence.record.forwards
        if f.role == "forward"
    )
    if not best or not needed:
        return "unknown", start
    floor = needed / best / max(raw["called"]["updates"], 1.0)  # networks' calls are counted by turns
    share = floor / seconds
    because = f"{start}, of which its products need about {1e6 * floor:,.0f} µs on this machine"
    return ("compute" if share > SLOW else "launches"), because


def collect_notes(evidence: Evidence, findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """What could not be seen."""
    record, raw = evidence.record, evidence.record.raw
    found = []
    if not record.total("vector_steps"):
        found.append(
            "No environment was recognised: a class with `step` and `reset` whose steps return (observation, "
            "reward, done, …). Figures per transition are missing."
        )
    if not record.total("updates"):
        found.append("No optimizer of torch was stepped: updates are not counted.")
    if raw["jax"]:
        found.append(
            "JAX computes in the background: its time shows where a result is first waited for, and its compiled "
            "updates cannot be taken apart into forward, backward and optimizer."
        )
    seconds, spells = measure_compilation(evidence)
    if spells == 1 and not any(f.name == "compile-in-training" for f in findings):
        found.append(f"Compilers were at work for {seconds:.1f} s when training began: a start-up, once.")
    if raw["timer_taken"]:
        found.append("The script uses the alarm timer itself: from then on the doctor could not look.")
    found += [f"A part of the watch failed and was left out: {failure}." for failure in raw["failures"]]
    found += [
        f"The probe '{name}' did not work: {why}." for name, why in raw["probes"].get("failed", {}).items()
    ]
    if raw["ended"] == "killed":
        found.append("The script ended without warning; this is what was known a few seconds before.")
    if Path(raw["script"]).suffix == ".py" and evidence.watched < 5.0:
        found.append("Training was watched for less than five seconds: findings need more.")
    return tuple(found)
