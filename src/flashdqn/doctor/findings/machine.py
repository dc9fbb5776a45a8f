"""How the script uses the machine: compilers at work, threads, waiting for the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from flashdqn.doctor.evidence import (
    Evidence,
    Place,
    SecondsBy,
    compute_share,
    estimate_speedup,
    find_script_frame,
)
from flashdqn.doctor.findings.launches import detect_launches
from flashdqn.doctor.findings.rules import LEAST_CALLS, compute_certainty, finding_rule, format_frequency
from flashdqn.doctor.phases import LEARNING
from flashdqn.doctor.report.contents import Finding, Limit
from flashdqn.doctor.watch.kinds import EventKind, Phase
from flashdqn.doctor.watch.schema import ThreadTimes

COMPUTE = (Phase.ACTING, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.LEARNING_REST)
SLOWER = 1.25
CROWDED = 0.25
"""Share of the cores that other programs must use to be mentioned."""


@finding_rule
def detect_compilation(evidence: Evidence) -> Iterator[Finding]:
    """Something is compiled after training has begun."""
    lines = SecondsBy[Place]()
    for number, seconds in evidence.by_stack.items():
        own = find_script_frame(evidence.frames(number))
        if evidence.names[number] is Phase.COMPILATION and own is not None:
            lines[own.file, own.line] += seconds
    if not lines or compiles_at_start_only(evidence):
        return
    share = compute_share(sum(lines.values()), evidence.seconds)
    file, line = lines.longest()
    _, periods = measure_compilation(evidence)
    yield Finding(
        name="compile-in-training",
        title="Code is compiled in the middle of training",
        file=file,
        line=line,
        share=share,
        speedup=estimate_speedup(share),
        evidence=(
            f"Compilers were at work for {sum(lines.values()):.1f} s, {share:.0%} of the training, in {periods} "
            f"period{'s' * (periods != 1)}.",
        ),
        advice="Compile before the clock starts: call the function once with every shape and type that training "
        "will use. Each new shape is compiled again: pad to a fixed shape, or allow dynamic shapes.",
        example="for batch in (1, 64):           # every shape that training will use\n"
        "    compiled(torch.zeros(batch, features))",
        limit=Limit.COMPILATION,
        certainty=compute_certainty(evidence, share, 0.03) if sum(lines.values()) > 0.3 else 0.0,
    )


def flag_compile_windows(evidence: Evidence) -> list[bool]:
    """Whether a compiler was at work, window by window."""
    return [evidence.phases_of(w)[Phase.COMPILATION] > 0.05 * w.seconds for w in evidence.training_windows]


def measure_compilation(evidence: Evidence) -> tuple[float, int]:
    """Seconds for which compilers were at work while training, and in how many periods."""
    windows = flag_compile_windows(evidence)
    periods = sum(now and not before for before, now in zip([False, *windows], windows, strict=False))
    return evidence.by_phase[Phase.COMPILATION], periods


def compiles_at_start_only(evidence: Evidence) -> bool:
    """Whether compilers worked in one period only, in the first third: a start-up, short beside a longer run."""
    windows = flag_compile_windows(evidence)
    return measure_compilation(evidence)[1] <= 1 and not any(windows[len(windows) // 3 :])


@finding_rule
def detect_excess_threads(evidence: Evidence) -> Iterator[Finding]:
    """More threads than the work can use, or than there are cores."""
    record = evidence.record
    probe, now = record.probes.threads, record.threads
    if not probe or now not in probe:
        return
    best = min(probe, key=lambda number: probe[number].mean)
    share = evidence.share(*COMPUTE)
    factor, least, most = compare_threads(probe[now], probe[best])
    busy = evidence.counts.cpu / max(evidence.watched, 1e-9)
    place = evidence.threads_line() or evidence.update_call()
    crowded = describe_others(evidence, probe[now].others)
    yield Finding(
        name="too-many-threads",
        title=f"{now} threads for work that is faster with {best}",
        file=place[0],
        line=place[1],
        share=share * (1 - 1 / max(factor, 1.0)),
        speedup=estimate_speedup(share, least if crowded else factor),
        least=estimate_speedup(share, least),
        most=estimate_speedup(share, most),
        evidence=(
            "A forward and backward pass on a copy of the network: "
            + ", ".join(
                f"{1e6 * times.mean:,.0f} µs ({1e6 * times.low:,.0f} to {1e6 * times.high:,.0f}) with {number}"
                for number, times in probe.items()
            )
            + " threads.",
            f"The process may use {record.cores} cores and kept {busy:.1f} busy.",
            *crowded,
        ),
        advice="Small matrices do not gain from threads: the threads wait for one another. Set the number once, at "
        "the start.",
        example=f"torch.set_num_threads({best})   # or OMP_NUM_THREADS={best} before the start",
        cure="threads",
        certainty=1.0 if least > 1.0 and factor > SLOWER and best < now else 0.0,
    )


def compare_threads(now: ThreadTimes, best: ThreadTimes) -> tuple[float, float, float]:
    """How many times faster the best is: by the means, and from the cautious ends of their intervals to the
    bold."""
    return now.mean / best.mean, max(now.low / best.high, 1.0), now.high / best.low


def describe_others(evidence: Evidence, probed: float | None) -> tuple[str, ...]:
    """A sentence if other programs own the cores: too many threads cost most when they have to share them."""
    others = max(evidence.others or 0.0, probed or 0.0)
    if others < CROWDED * evidence.record.cores:
        return ()
    return (
        f"Other programs kept {others:.1f} of {evidence.record.cores} cores busy meanwhile: on a machine of its "
        "own the "
        "gain is smaller, so the lower end is what to expect there.",
    )


@finding_rule
def detect_host_syncs(evidence: Evidence) -> Iterator[Finding]:
    """Lines where the host waits for the GPU."""
    sites = [
        site
        for site in evidence.record.sites
        if site.on_device and site.count >= LEAST_CALLS and site.kind is not EventKind.ENV_STEP
    ]
    if not sites:
        return
    counted = evidence.record.counted
    watched = counted.seconds or evidence.watched
    share = compute_share(sum(site.steady for site in sites), watched)
    worst = max(sites, key=lambda site: site.seconds)
    rate = sum(site.on_device for site in sites) / max(counted.vector_steps, counted.updates, 1)
    busy = evidence.record.utilization
    most = 1 / max(busy, 0.05) if busy is not None else estimate_speedup(share)
    yield Finding(
        name="host-syncs",
        title=f"The host waits for the GPU {format_frequency(rate)} times a step",
        file=worst.file,
        line=worst.line,
        share=share,
        speedup=min(estimate_speedup(share), most),
        evidence=tuple(
            f"Line {site.line}: .{site.kind}() {site.on_device:,} times, {1e6 * site.each:,.0f} µs "
            f"each, {compute_share(site.steady, watched):.0%} of the time."
            for site in sorted(sites, key=lambda site: -site.seconds)[:5]
        )
        + ((f"The GPU was busy {busy:.0%} of the time.",) if busy is not None else ()),
        advice="Keep numbers on the GPU: choose actions there, keep the replay there, and copy losses to the host "
        "rarely, many at once. The GPU's own work stays the same; only the waiting goes away.",
        example="losses[update % 1000] = loss.detach()      # on the GPU\n"
        "if update % 1000 == 999:\n    print(losses.mean().item())             # one wait for a thousand",
        limit=Limit.COPIES,
        certainty=compute_certainty(evidence, share, 0.05),
    )


@finding_rule
def detect_idle_gpu(evidence: Evidence) -> Iterator[Finding]:
    """A GPU that has little to do."""
    busy = evidence.record.utilization
    if busy is None or evidence.record.device != "cuda" or busy > 0.3 or list(detect_launches(evidence)):
        return
    place = evidence.update_call()
    batch = max((f.batch for f in evidence.record.forwards if f.role is Phase.FORWARD), default=0)
    yield Finding(
        name="starved-device",
        title=f"The GPU is idle {1 - busy:.0%} of the time",
        file=place[0],
        line=place[1],
        share=1 - busy,
        speedup=1.0,
        evidence=(
            f"Busy {busy:.0%} of the time, with batches of {batch}.",
            f"On the host: environment {evidence.share(Phase.ENVIRONMENT):.0%}, "
            f"acting {evidence.share(Phase.ACTING):.0%}, learning {evidence.share(*LEARNING):.0%}, "
            f"data movement {evidence.share(Phase.DATA_MOVEMENT):.0%}.",
        ),
        advice="Give it more at a time: more environments, larger batches at a lower ratio, several updates as one "
        "CUDA graph. For a network this small the CPU may be faster.",
        example='step = torch.compile(update, mode="reduce-overhead")   # CUDA graphs: few launches, many kernels',
        certainty=1.0,
    )
