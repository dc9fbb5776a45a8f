"""Environments that are slow, and acting for one environment at a time."""

from __future__ import annotations

from collections.abc import Iterator

from flashdqn.doctor.evidence import (
    Evidence,
    compute_share,
    estimate_speedup,
    find_innermost_frame,
    find_script_frame,
)
from flashdqn.doctor.findings.rules import LEAST_CALLS, compute_certainty, finding_rule
from flashdqn.doctor.report.contents import Finding, Limit
from flashdqn.doctor.watch.kinds import Phase
from flashdqn.doctor.watch.rows import Frame

COMPILED = 10.0
"""How much faster compiled or vectorized code is than Python's loops over cells: a cautious estimate."""


@finding_rule
def detect_python_env(evidence: Evidence) -> Iterator[Finding]:
    """An environment whose time is spent in Python itself."""
    python, lines, functions = 0.0, dict[tuple[str, int], float](), dict[str, float]()
    for number, seconds in evidence.by_stack.items():
        stack = evidence.frames(number)
        if evidence.names[number] is not Phase.ENVIRONMENT:
            continue
        own, last = find_script_frame(stack), find_innermost_frame(stack)
        if own is None or last is None or not is_plain_python(last):
            continue
        python += seconds
        lines[own.file, own.line] = lines.get((own.file, own.line), 0.0) + seconds
        functions[own.function] = functions.get(own.function, 0.0) + seconds
    share = compute_share(python, evidence.seconds)
    if not lines:
        return
    file, line = max(lines, key=lambda place: lines[place])
    transitions = max(evidence.counts.transitions, 1)
    top = sorted(functions.items(), key=lambda item: -item[1])[:3]
    yield Finding(
        name="python-env",
        title="The environment is slow because it is written in Python",
        file=file,
        line=line,
        share=share,
        speedup=estimate_speedup(share, COMPILED),
        evidence=(
            f"Its own Python takes {share:.0%} of the time: "
            f"{1e6 * share * evidence.watched / transitions:,.0f} µs a transition.",
            "Most of it in " + ", ".join(f"{name} ({s / evidence.seconds:.0%})" for name, s in top) + ".",
        ),
        advice="Compile the inner loops (numba), or step all environments at once with arrays. The gain above "
        "assumes that such code is about ten times faster.",
        example="@numba.njit(cache=True)\ndef flood_fill(walls, row, column):\n    ...",
        limit=Limit.ENVIRONMENT,
        certainty=compute_certainty(evidence, share, 0.15),
    )


def is_plain_python(frame: Frame) -> bool:
    """Whether a frame is the script's own code, or the deque or Counter that it uses."""
    return not frame.plumbing or frame.file.endswith("collections/__init__.py")


@finding_rule
def detect_single_env(evidence: Evidence) -> Iterator[Finding]:
    """A network that is called with one observation at a time."""
    probe = evidence.record.probes.batch
    acting = [f for f in evidence.record.forwards if f.role is Phase.ACTING and f.count >= LEAST_CALLS]
    if not probe or not acting or evidence.record.width != 1:
        return
    site = max(acting, key=lambda f: f.seconds)
    share = evidence.share(Phase.ACTING)
    number = probe.environments
    yield Finding(
        name="single-env-acting",
        title=f"One environment at a time: {site.network} ({site.parameters:,} parameters) is called "
        "for each step alone",
        file=site.file,
        line=site.line,
        share=share,
        speedup=estimate_speedup(share, probe.factor),
        evidence=(
            f"Acting takes {share:.0%} of the time: {1e6 * site.each:,.0f} µs a call, "
            f"batch {site.batch}.",
            f"On a copy of the network: {1e6 * probe.one:,.0f} µs for one observation, "
            f"{1e6 * probe.many:,.0f} µs for {number}.",
        ),
        advice=f"Step {number} environments together and call the network once for all of them. Keep the ratio of "
        "updates to transitions as it is.",
        example=f'envs = gymnasium.make_vec("CartPole-v1", num_envs={number})\n'
        "actions = network(torch.as_tensor(observations)).argmax(1)",
        limit=Limit.ACTING,
        certainty=compute_certainty(evidence, share, 0.15) if probe.factor > 1.5 else 0.0,
    )
