"""Time beside the training: evaluation, garbage, a long start, gradients that are filled with zeros."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median

from flashdqn.doctor import source
from flashdqn.doctor.evidence import (
    Evidence,
    Place,
    SecondsBy,
    compute_share,
    estimate_speedup,
    is_evaluation,
)
from flashdqn.doctor.findings.rules import compute_certainty, finding_rule
from flashdqn.doctor.report.contents import Finding

ZEROED = re.compile(r"zero_grad\([^)]*set_to_none\s*=\s*False|zero_grad\(\s*False\s*\)")
JITTER = 3.0
"""How many times longer than usual a window's steps must take."""


@finding_rule
def detect_evaluation(evidence: Evidence) -> Iterator[Finding]:
    """Evaluation that takes much of the training's time."""
    calls, seconds = SecondsBy[Place](), 0.0
    for number, spent in evidence.by_stack.items():
        stack = [f for f in evidence.frames(number) if not f.plumbing]
        inside = next((i for i, f in enumerate(stack) if is_evaluation(f.function)), None)
        if inside:
            seconds += spent
            calls[stack[inside - 1].file, stack[inside - 1].line] += spent
    if not calls:
        return
    share = compute_share(seconds, evidence.seconds)
    file, line = calls.longest()
    yield Finding(
        name="evaluation-share",
        title="Evaluation takes much of the time",
        file=file,
        line=line,
        share=share,
        speedup=estimate_speedup(share),
        evidence=(f"It takes {share:.0%} of the time, called from: {source.read_line(file, line)}",),
        advice="Evaluate less often, on fewer episodes or batches, or in a process of its own. The gain above is "
        "that of "
        "none at all.",
        example="if update % 10_000 == 0:\n    evaluate()",
        cure="no-eval",
        certainty=compute_certainty(evidence, share, 0.15),
    )


@finding_rule
def detect_garbage(evidence: Evidence) -> Iterator[Finding]:
    """Steps that take much longer now and then: because of the garbage collector, or of something rare."""
    settings = evidence.record.settings
    share = compute_share(
        settings.collecting, evidence.record.seconds - min(evidence.record.began, evidence.record.seconds)
    )
    if share >= 0.04:
        yield Finding(
            name="step-jitter",
            title="Python's garbage collector stops the training again and again",
            file=evidence.record.script,
            line=0,
            share=share,
            speedup=estimate_speedup(share),
            evidence=(
                f"Collections took {settings.collecting:.1f} s, {share:.0%} of the training; "
                f"{settings.collections:,} of them went through all objects.",
            ),
            advice="Keep transitions in arrays, not in many small objects; freeze what stays, and collect "
            "between episodes.",
            example="gc.collect(); gc.freeze()      # once, after setting up\ngc.disable()                  # "
            "and gc.collect() now and then",
            cure="gc-freeze",
            certainty=1.0 if settings.collecting > 0.5 else 0.0,
        )
        return
    costs = [
        (w.seconds / w.counts.transitions, w)
        for w in evidence.training_windows
        if w.counts.transitions and w.seconds > 0.3
    ]
    if len(costs) < 20:
        return
    usual = median(cost for cost, _ in costs)
    slow = [w for cost, w in costs if cost > JITTER * usual]
    lost = sum(w.seconds - usual * w.counts.transitions for w in slow)
    busy = sum(w.counts.cpu for w in slow) / max(sum(w.seconds for w in slow), 1e-9)
    if not slow or len(slow) > len(costs) / 4 or busy < 0.5:
        return
    lines = evidence.line_seconds(slow)
    others = evidence.line_seconds([w for _, w in costs if w not in slow])
    whole = [max(sum(part.values()), 1e-9) for part in (lines, others)]
    place = max(
        lines, key=lambda p: lines[p] / whole[0] - others[p] / whole[1], default=(evidence.record.script, 0)
    )
    if lines[place] / whole[0] - others[place] / whole[1] < 0.3:
        return  # nothing of the script's own was different: another program, then
    share = compute_share(lost, evidence.watched)
    yield Finding(
        name="step-jitter",
        title=f"Some steps take more than {JITTER:.0f} times as long as usual",
        file=place[0],
        line=place[1],
        share=share,
        speedup=estimate_speedup(share),
        evidence=(
            f"{len(slow)} of {len(costs)} seconds were slow, and lost {lost:.1f} s; in them, most of the "
            "difference is: "
            f"{source.read_line(*place)}",
        ),
        advice="Checkpoints, evaluation and plots: rarer, smaller, or in the background.",
        example="",
        certainty=compute_certainty(evidence, share, 0.05),
    )


@finding_rule
def detect_zeroed_gradients(evidence: Evidence) -> Iterator[Finding]:
    """Gradients that are filled with zeros, and then added to, instead of being dropped."""
    places = [place for place in evidence.by_line if ZEROED.search(source.read_line(*place))]
    if not places:
        return
    share = evidence.at(places)
    file, line = max(places, key=lambda place: evidence.at([place]))
    yield Finding(
        name="zero-grad-memset",
        title="Gradients are filled with zeros at every update",
        file=file,
        line=line,
        share=share,
        speedup=estimate_speedup(share),
        evidence=(f"It takes {share:.0%} of the time: {source.read_line(file, line)}",),
        advice="Drop them instead: the backward pass then writes where it would have added.",
        example="optimizer.zero_grad(set_to_none=True)",
        cure="set-to-none",
        certainty=compute_certainty(evidence, share, 0.02),
    )


@finding_rule
def detect_slow_start(evidence: Evidence) -> Iterator[Finding]:
    """A start that takes longer than the training that was watched."""
    record = evidence.record
    began = min(record.began, record.seconds)
    share = compute_share(began, record.seconds)
    if share < 0.5 or began < 20.0:
        return
    lines = SecondsBy[Place]()
    for window in record.windows:
        if window.start < record.began:
            for place, spent in evidence.line_seconds([window]).items():
                lines[place] += spent
    file, line = lines.longest() if lines else (record.script, 0)
    yield Finding(
        name="slow-start",
        title=f"It took {began:.0f} s until the first step or update",
        file=file,
        line=line,
        share=0.0,
        speedup=1.0,
        evidence=(
            f"That is {share:.0%} of the watched time.",
            f"The most expensive line of the start: {source.read_line(file, line)}"
            if line
            else "No line stands out.",
        ),
        advice="Load and prepare once and keep the result in a file; import what is needed; evaluate after the "
        "first "
        "updates, not before. For this report: watch longer.",
        example="flashdqn doctor --seconds 3m train.py",
        certainty=1.0,
    )
