"""Environments that are slow, and acting for one environment at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flashdqn.doctor import source
from flashdqn.doctor.evidence import (
    Evidence,
    Place,
    SecondsBy,
    compute_share,
    estimate_speedup,
    find_innermost_frame,
    find_script_frame,
    is_library_file,
)
from flashdqn.doctor.findings.rules import LEAST_CALLS, compute_certainty, finding_rule
from flashdqn.doctor.findings.sleeping import ASLEEP
from flashdqn.doctor.report.contents import Finding, Limit
from flashdqn.doctor.watch.kinds import Phase
from flashdqn.doctor.watch.rows import Frame
from flashdqn.doctor.workers import Activity, classify_stack

FEW = 8
"""Up to this many environments a call for acting costs about as much as for one."""
ENVIRONMENTS, LARGE = 16, 64
"""A gain is computed for at most this many times as many environments, and for at most so many."""
COMPILED = 10.0
"""How much faster compiled or vectorized code is than Python's loops over cells: a cautious estimate."""
RENDERING = re.compile(r"^_?(render|render_\w+|draw|draw_\w+|redraw|update_ui|update_screen|blit)$")
"""Functions that draw a game."""


@finding_rule
def detect_rendering(evidence: Evidence) -> Iterator[Finding]:
    """A game that is drawn while it trains."""
    lines = SecondsBy[Place]()
    for number, seconds in evidence.by_stack.items():
        inside = find_drawing_frame(evidence.frames(number))
        if inside is not None:
            lines[inside.file, inside.line] += seconds
    if not lines:
        return
    share = compute_share(sum(lines.values()), evidence.seconds)
    file, line = lines.longest()
    yield Finding(
        name="rendering",
        title="The game is drawn while it trains",
        file=file,
        line=line,
        share=share,
        speedup=estimate_speedup(share),
        evidence=(
            f"Drawing takes {share:.0%} of the time. Its most expensive line: {source.read_line(file, line)}",
        ),
        advice="Do not draw while it trains; watch a game now and then instead, or record one.",
        example="if episode % 100 == 0:\n    env.render()",
        limit=Limit.ENVIRONMENT,
        certainty=compute_certainty(evidence, share, 0.1),
    )


def find_drawing_frame(stack: tuple[Frame, ...]) -> Frame | None:
    """The user's innermost line where a function draws, unless it sleeps there: `sleeping` reports that."""
    own = [frame for frame in stack if not frame.plumbing and not is_library_file(frame.file)]
    drawing = any(RENDERING.match(frame.function.rpartition(".")[2]) for frame in own)
    if not drawing or ASLEEP.search(source.read_line(own[-1].file, own[-1].line)):
        return None
    return own[-1]


@finding_rule
def detect_python_env(evidence: Evidence) -> Iterator[Finding]:
    """An environment whose time is spent in Python itself."""
    python, lines, functions = 0.0, dict[tuple[str, int], float](), dict[str, float]()
    for number, seconds in evidence.by_stack.items():
        stack = evidence.frames(number)
        if evidence.names[number] is not Phase.ENVIRONMENT:
            continue
        own, last = find_script_frame(stack), find_innermost_frame(stack)
        if (
            own is None
            or last is None
            or not is_plain_python(last)
            or classify_stack(stack) is not Activity.WORK
        ):
            continue
        if ASLEEP.search(source.read_line(own.file, own.line)):
            continue  # `sleeping` reports that
        if find_drawing_frame(stack) is not None:
            continue  # `rendering` does
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
    """A network that is called for one environment, or for a few, at a time."""
    record = evidence.record
    curve = record.probes.acting
    acting = [f for f in record.forwards if f.role is Phase.ACTING and f.count >= LEAST_CALLS]
    if not curve or not acting or record.width > FEW:
        return
    site = max(acting, key=lambda f: f.steady)
    batch = max(site.batch, 1)
    one_by_one = batch == 1 and record.environments > 1
    factor, number = find_best_batch(curve, batch)
    share = evidence.share(Phase.ACTING)
    yield Finding(
        name="few-envs" if max(record.environments, record.width) > 1 else "single-env-acting",
        title=describe_few(record.environments, batch, site.network, site.parameters),
        file=site.file,
        line=site.line,
        share=share,
        speedup=estimate_speedup(share, factor),
        evidence=(
            f"Acting takes {share:.0%} of the time: {1e6 * site.each:,.0f} µs a call, batch {site.batch}.",
            "On a copy of the network, by the number of environments in a call: "
            + ", ".join(f"{1e6 * seconds:,.0f} µs for {size}" for size, seconds in curve.items())
            + ".",
        ),
        advice=f"Step the {record.environments} environments first, stack their observations, and call the "
        "network once "
        f"for all; or take {number}."
        if one_by_one
        else f"Step {number} environments together and call the network once for all of them. Keep the ratio of "
        "updates to transitions as it is.",
        example=f'envs = gymnasium.make_vec("CartPole-v1", num_envs={number})\n'
        "actions = network(torch.as_tensor(observations)).argmax(1)",
        limit=Limit.ACTING,
        certainty=compute_certainty(evidence, share, 0.15) if factor > 1.5 else 0.0,
    )


def find_best_batch(curve: dict[int, float], batch: int) -> tuple[float, int]:
    """How much cheaper acting is for each environment with more of them in a call, and how many to take: beyond
    that, twice as many save less than a quarter."""
    now = seconds_at(curve, batch) / batch
    sizes = [size for size in sorted(curve) if size > batch]
    best = batch
    for size in sizes:
        if curve[size] / size < 0.75 * seconds_at(curve, best) / best:
            best = size
        if size >= ENVIRONMENTS * max(batch, 1) or size >= LARGE:
            break
    return now / (seconds_at(curve, best) / best), best


def seconds_at(curve: dict[int, float], batch: int) -> float:
    """The time for a batch, or for the next measured one."""
    return next((curve[size] for size in sorted(curve) if size >= batch), max(curve.values()))


def describe_few(environments: int, batch: int, network: str, parameters: int) -> str:
    """What is called how."""
    what = f"{network} ({parameters:,} parameters) is called"
    if environments > 1 and batch == 1:
        return f"{environments} environments one after the other: {what} for each of them alone"
    if batch > 1:
        return f"{batch} environments at a time: {what} for so few that starting it costs most"
    return f"One environment at a time: {what} for each step alone"
