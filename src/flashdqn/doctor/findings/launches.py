"""Updates on a GPU that are limited by starting small operations."""

from __future__ import annotations

from collections.abc import Iterator

from flashdqn.doctor.evidence import Evidence, compute_share, estimate_speedup
from flashdqn.doctor.findings.rules import compute_certainty, finding_rule
from flashdqn.doctor.report.contents import Finding, Limit
from flashdqn.doctor.watch.kinds import COPIES, Phase
from flashdqn.doctor.watch.schema import LaunchTimes

UPDATE = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.LEARNING_REST)
LEAST_SHARE = 0.15
LEAST_FACTOR = 1.3
GRAPHED = """graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):      # once, on tensors that stay where they are
    update(batch)                  # an optimizer with capturable=True
batch.copy_(next_batch); graph.replay()"""


@finding_rule
def detect_launches(evidence: Evidence) -> Iterator[Finding]:
    """An update whose operations take longer to start than to run."""
    probe = evidence.record.probes.launches
    share = evidence.share(*UPDATE) + compute_waiting(evidence)
    if probe is None or share < LEAST_SHARE:
        return
    gains = compute_gains(evidence, probe, share)
    if not gains:
        return
    best = max(gains, key=lambda way: gains[way])
    place = evidence.update_call()
    busy = evidence.record.utilization
    needed = probe.graph / probe.now if probe.graph else None
    yield Finding(
        name="launch-bound",
        title="An update is many small operations: starting them takes longer than their work on the GPU",
        file=place[0],
        line=place[1],
        share=share,
        speedup=gains[best],
        least=min(gains.values()),
        most=gains[best],
        evidence=(
            f"Updates take {share:.0%} of the time. On copies of the network and its optimizer, an update takes "
            f"{1e6 * probe.now:,.0f} µs as it is.",
            *describe_ways(probe, gains),
            *((f"Replayed as a graph, it needs {needed:.0%} of its time on the GPU: the rest is "
            "launching.",) if needed else ()),
            *((f"The GPU was busy {busy:.0%} of the time.",) if busy is not None else ()),
        ),
        advice=ADVICE[best],
        example=GRAPHED if best == "graph" else EXAMPLES[best],
        cure="compile" if best == "compiled" else "",
        limit=Limit.LAUNCHES,
        certainty=compute_certainty(evidence, share, LEAST_SHARE) if gains[best] > 1.05 else 0.0,
    )  # fmt: skip


ADVICE = {
    "graph": "Capture the update once as a CUDA graph and replay it: one launch instead of hundreds. The replay "
    "has "
    "to stay on the device, in tensors that do not move.",
    "compiled": "Compile the update: fewer and larger kernels. With mode='reduce-overhead' it becomes a graph, "
    "too.",
    "cpu": "Train on the CPU: for a network this small it is faster than this GPU, in updates and in acting.",
}
EXAMPLES = {
    "compiled": 'update = torch.compile(update, mode="reduce-overhead")',
    "cpu": 'device = torch.device("cpu")',
}


def compute_waiting(evidence: Evidence) -> float:
    """The share in which the host waits for the update's results: `.item()` on the loss in the code of an
    update."""
    blocks = evidence.namer.learning_blocks
    spent = sum(
        site.steady
        for site in evidence.record.kinds(*COPIES)
        if site.on_device and any(site.file == f and a <= site.line <= b for f, a, b in blocks)
    )
    return compute_share(spent, evidence.record.counted.seconds or evidence.watched)


def compute_gains(evidence: Evidence, probe: LaunchTimes, share: float) -> dict[str, float]:
    """How many times faster the whole would be, by way."""
    gains = {}
    for way in ("graph", "compiled"):
        seconds = getattr(probe, way)
        if seconds and probe.now / seconds > LEAST_FACTOR:
            gains[way] = estimate_speedup(share, probe.now / seconds)
    if probe.cpu:
        gain = compute_cpu_gain(evidence, probe, share)
        if gain > 1.1:
            gains["cpu"] = gain
    return gains


def compute_cpu_gain(evidence: Evidence, probe: LaunchTimes, share: float) -> float:
    """The whole on the CPU: updates and acting, each at its own speed."""
    assert probe.cpu
    acting = evidence.share(Phase.ACTING)
    whole = share * evidence.watched / max(evidence.counts.updates, 1)
    part = min(probe.now / max(whole, 1e-9), 1.0)  # the rest of an update: targets, indexing, the loss
    small = probe.small_cpu / probe.small if probe.small and probe.small_cpu else 1.0
    time = 1.0 - share + share * (part * probe.cpu / probe.now + (1.0 - part) * min(small, 1.0))
    if probe.acting and probe.acting_cpu:
        time += acting * (probe.acting_cpu / probe.acting - 1.0)
    return 1.0 / max(time, 0.01)


def describe_ways(probe: LaunchTimes, gains: dict[str, float]) -> Iterator[str]:
    """A sentence for each way that was tried."""
    names = {"graph": "Captured as a CUDA graph", "compiled": "Compiled", "cpu": "On the CPU"}
    for way, name in names.items():
        seconds = getattr(probe, way)
        if seconds:
            whole = (
                f"the whole would be {gains[way]:.1f}x faster" if way in gains else "no gain for the whole"
            )
            yield f"{name}: {1e6 * seconds:,.0f} µs an update; {whole}."
    if probe.acting and probe.acting_cpu:
        yield f"Acting: {1e6 * probe.acting:,.0f} µs a call on the GPU, {1e6 * probe.acting_cpu:,.0f} µs on the "
        "CPU."
    for failure in probe.failed:
        yield f"One way did not work ({failure})."
