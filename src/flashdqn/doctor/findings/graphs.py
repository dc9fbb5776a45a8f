"""Graphs for gradients that nobody needs: of networks that act, and of networks that compute targets."""

from __future__ import annotations

from collections.abc import Iterator

from flashdqn.doctor.evidence import Evidence, compute_share, estimate_speedup
from flashdqn.doctor.findings.rules import finding_rule
from flashdqn.doctor.report.contents import Finding
from flashdqn.doctor.watch.kinds import EventKind, Phase
from flashdqn.doctor.watch.rows import ForwardSite

LEAST_CALLS = 100


@finding_rule
def detect_missing_no_grad(evidence: Evidence) -> Iterator[Finding]:
    """Networks that act, or compute targets, while torch builds a graph for gradients. Where weights are changed by
    hand, nobody knows which networks are trained."""
    if evidence.record.kinds(EventKind.BACKWARD) and not evidence.record.optimizers:
        return
    wasted = find_wasted_graphs(evidence)
    acting = [site for site in wasted if site.role is Phase.ACTING]
    targets = [site for site in wasted if site.role is not Phase.ACTING]
    if acting:  # with the targets: one habit, one cure
        yield report_graphs(
            evidence,
            wasted,
            "no-grad-forgotten",
            "A network that only acts builds a graph for gradients at every call",
        )
    elif targets:
        yield report_graphs(
            evidence,
            targets,
            "target-with-grad",
            "A network that only computes targets builds a graph for gradients",
        )


def find_wasted_graphs(evidence: Evidence) -> list[ForwardSite]:
    """Lines that call a network with a graph from which nothing is learned."""
    forwards = evidence.record.forwards
    wasted = [f for f in forwards if f.graded > 0.5 * f.count and f.count >= LEAST_CALLS]
    wasted = [f for f in wasted if f.role is Phase.ACTING or not f.trained]
    if any(f.role is Phase.FORWARD and f.graded and f.trained for f in forwards):
        return wasted
    # Nothing else is learned from: policy gradients keep the graph of what was chosen, on purpose.
    return [f for f in wasted if not f.trained]


def report_graphs(evidence: Evidence, wasted: list[ForwardSite], name: str, title: str) -> Finding:
    """What these graphs cost: in the calls, and in the backward passes that go through them."""
    probe = evidence.record.probes.no_grad
    factor = probe.factor if probe else 1.0
    trained = sum(
        f.seconds for f in evidence.record.forwards if f.role is Phase.FORWARD and f.graded > 0.5 * f.count
    )
    counted = evidence.record.called.seconds or evidence.watched
    share = 0.0
    for site in wasted:
        share += compute_share(site.steady, counted) * max(0.0, 1 - 1 / factor)
        if site.role is Phase.FORWARD and site.given_gradients:
            share += evidence.share(Phase.BACKWARD) * compute_share(site.seconds, trained)
    worst = max(wasted, key=lambda site: site.seconds)
    acts = worst.role is Phase.ACTING
    return Finding(
        name=name,
        title=title,
        file=worst.file,
        line=worst.line,
        share=share,
        speedup=estimate_speedup(share) if share > 0.02 else 1.0,
        evidence=(
            *(f"Line {f.line}: {f.graded:,} of {f.count:,} results carry a graph." for f in wasted),
            f"Acting on a copy of the network: {factor:.2f} times as long with a graph as without."
            if acts
            else "The backward pass goes through this network, too, although no optimizer trains it.",
        ),
        advice="Act and compute targets without gradients: it takes less time and less memory, and no gradient "
        "can flow back where it should not.",
        example="with torch.no_grad():\n    action = network(obs).argmax(1)"
        if acts
        else "with torch.no_grad():\n    target = reward + gamma * (1 - done) * target_network(next_obs).amax(1)",
        cure="no-grad" if acts else "",
        certainty=1.0,
    )
