"""What changes as a training goes on: things that grow, steps that slow down, episodes that get longer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from flashdqn.doctor import source
from flashdqn.doctor.evidence import Evidence, Place, estimate_speedup
from flashdqn.doctor.findings.rules import compute_certainty, finding_rule
from flashdqn.doctor.report.contents import Finding, Limit
from flashdqn.doctor.watch.kinds import EventKind, Phase
from flashdqn.doctor.watch.rows import Container, WatchWindow, WindowCounts
from flashdqn.doctor.watch.schema import sum_counts

GROWN = 1.5
MANY = 5_000
"""A growing list is reported from this many elements on."""
EVERYWHERE = 1.15
"""If what did not grow most became this much slower too, the machine did, not the script."""
MEGABYTE = 2**20
EPISODE_RATE = re.compile(
    r"\b(episodes?|eps?|games?)\s*(/|per)\s*(s|sec|second|min|minute|h|hour)\b", re.IGNORECASE
)
STEP_RATE = re.compile(r"\b(steps|transitions|frames)\s*(/|per)\s*s|\b[fs]ps\b", re.IGNORECASE)


@dataclass(frozen=True)
class Stretch:
    """Some windows of the training, taken together."""

    windows: list[WatchWindow]
    counts: WindowCounts

    @property
    def seconds(self) -> float:
        """Its length in seconds."""
        return sum(window.seconds for window in self.windows)


@finding_rule
def detect_graph_leaks(evidence: Evidence) -> Iterator[Finding]:
    """Losses that are kept with their graphs."""
    places: dict[Place, Container] = {}
    for container in sorted(evidence.record.containers, key=lambda c: c.sizes[-1][1]):
        if container.holds_graph and is_growing(container, least=200):
            places[find_append_line(evidence, container)] = container  # one object may have several names
    for (file, line), container in places.items():
        first, last = container.sizes[0][1], container.sizes[-1][1]
        growth = compute_memory_growth(evidence)
        what = "The sum" if container.is_graph else "The list"
        yield Finding(
            name="graph-leak",
            title=f"{what} `{container.name}` keeps the graph behind every value it was given",
            file=file,
            line=line,
            share=0.0,
            speedup=1.0,
            evidence=(
                f"`{container.name}` ({container.type} in {container.where}) grew from {first:,} to {last:,}, and "
                "what it holds has a graph for gradients behind it.",
                f"Memory of the process: {growth / MEGABYTE:+,.0f} MB while training was watched.",
            ),
            advice="Keep numbers, not tensors with a history: `.item()` now and then, or `.detach()` on a GPU.",
            example="losses.append(loss.detach())   # or loss.item(), rarely",
            certainty=1.0,
        )


@finding_rule
def detect_growing_containers(evidence: Evidence) -> Iterator[Finding]:
    """Lists that grow without end, above all those that the script loops over at every step."""
    containers = [c for c in evidence.record.containers if not c.holds_graph and is_growing(c, least=MANY)]
    slower = find_slower_lines(evidence)
    if not containers or (not slower and compute_memory_growth(evidence) < 100 * MEGABYTE):
        return
    container = max(containers, key=lambda c: c.sizes[-1][1])
    share = evidence.at(slower)
    file, line = (
        max(slower, key=lambda p: evidence.at([p])) if slower else find_append_line(evidence, container)
    )
    yield Finding(
        name="growing-buffer",
        title=f"`{container.name}` grows without end"
        + (", and the script loops over it again and again" if slower else ""),
        file=file,
        line=line,
        share=share,
        speedup=estimate_speedup(share) if slower else 1.0,
        evidence=(
            *(
                f"`{c.name}` ({c.type} in {c.where}): {c.sizes[0][1]:,} elements at first, "
                f"{c.sizes[-1][1]:,} at the end."
                for c in containers[:3]
            ),
            *(
                f"Line {p[1]} took {1e6 * slower[p][0]:,.0f} µs a step at first, "
                f"{1e6 * slower[p][1]:,.0f} at the end."
                for p in list(slower)[:3]
            ),
            f"Memory of the process: {compute_memory_growth(evidence) / MEGABYTE:+,.0f} MB "
            "while training was watched.",
        ),
        advice="Limit its length, or keep a running mean instead of the whole history.",
        example="returns = collections.deque(maxlen=100)\nmean += (reward - mean) / count",
        limit=Limit.PYTHON,
        certainty=compute_certainty(evidence, share, 0.03) if slower else 1.0,
    )


@finding_rule
def detect_slow_down(evidence: Evidence) -> Iterator[Finding]:
    """Steps that cost more and more, when no growing container explains it."""
    thirds = first_and_last_third(evidence)
    if thirds is None or list(detect_growing_containers(evidence)):
        return
    early, late = thirds
    before, after = (part.seconds / max(part.counts.transitions, 1) for part in thirds)
    work = [part.counts.cpu / max(part.counts.transitions, 1) for part in thirds]
    # On a machine that others also use, steps take longer, but they do not take more CPU time.
    if not before or after / before < 1.3 or not work[0] or work[1] / work[0] < 1.3:
        return
    phases = {
        phase: phase_seconds_per_transition(evidence, late, phase)
        - phase_seconds_per_transition(evidence, early, phase)
        for phase in Phase
    }
    worst = max(phases, key=lambda phase: phases[phase])
    if slows_everywhere(evidence, early, late, worst):
        return  # a busier machine, or a slower clock: nothing in the script grows everywhere
    file, line = find_slowed_line(evidence, early, late)
    lost = 1 - before * sum_counts(evidence.training_windows).transitions / evidence.watched
    yield Finding(
        name="slow-down",
        title=f"A transition costs {after / before:.1f} times what it cost at first",
        file=file,
        line=line,
        share=max(lost, 0.0),
        speedup=estimate_speedup(max(lost, 0.0)),
        evidence=(
            f"{1e6 * before:,.0f} µs a transition in the first third, {1e6 * after:,.0f} µs in the last.",
            f"Most of the difference is {worst}: {1e6 * phases[worst]:+,.0f} µs a transition.",
        ),
        advice="If updates begin late, or come more often later, this is normal; otherwise look at what that "
        "phase loops over at every step.",
        example="",
        certainty=compute_certainty(evidence, max(lost, 0.0), 0.1) if has_steady_ratio(early, late) else 0.0,
    )


def slows_everywhere(evidence: Evidence, early: Stretch, late: Stretch, worst: Phase) -> bool:
    """Whether all the other phases together also got slower, by more than a little."""
    rest = [
        sum(phase_seconds_per_transition(evidence, part, phase) for phase in Phase if phase is not worst)
        for part in (early, late)
    ]
    return rest[0] > 0 and rest[1] / rest[0] > EVERYWHERE


def find_slowed_line(evidence: Evidence, early: Stretch, late: Stretch) -> Place:
    """The line whose seconds for each transition grew most."""
    before, after = (evidence.line_seconds(part.windows) for part in (early, late))
    steps = [max(part.counts.transitions, 1) for part in (early, late)]
    growth = {place: after[place] / steps[1] - before[place] / steps[0] for place in after}
    return max(growth, key=lambda place: growth[place], default=(evidence.record.script, 0))


@finding_rule
def detect_memory_growth(evidence: Evidence) -> Iterator[Finding]:
    """Memory that keeps growing, on the host or on the GPU."""
    named = {f.name for rule in (detect_graph_leaks, detect_growing_containers) for f in rule(evidence)}
    windows = evidence.training_windows
    for sizes, where in (
        ([window.memory for window in windows], "The process"),
        ([window.device_memory for window in windows], "The GPU"),
    ):
        late = sizes[len(sizes) // 3 :]
        if len(late) < 6 or named:
            continue
        steps = [b - a for a, b in pairwise(late)]
        if late[-1] - late[0] < 64 * MEGABYTE or sum(step > 0 for step in steps) < 0.8 * len(steps):
            continue
        yield Finding(
            name="memory-growth",
            title=f"{where} holds more and more memory",
            file=evidence.record.script,
            line=0,
            share=0.0,
            speedup=1.0,
            evidence=(
                f"{late[0] / MEGABYTE:,.0f} MB after a third of the time, "
                f"{late[-1] / MEGABYTE:,.0f} MB at the end.",
            ),
            advice="A replay that fills up is normal. Otherwise look for tensors that are kept with their "
            "graphs, figures that are never closed, and caches.",
            example="",
            certainty=1.0,
        )


@finding_rule
def detect_longer_episodes(evidence: Evidence) -> Iterator[Finding]:
    """Episodes per second that fall because episodes get longer, not because anything gets slower."""
    thirds = first_and_last_third(evidence)
    if thirds is None or not all(part.counts.episodes >= 5 for part in thirds):
        return
    episodes = [part.counts.episodes / part.seconds for part in thirds]
    steps = [part.counts.transitions / part.seconds for part in thirds]
    lengths = [part.counts.episode_steps / part.counts.episodes for part in thirds]
    if episodes[1] > episodes[0] / GROWN or lengths[1] < lengths[0] * GROWN or steps[1] < steps[0] / 1.25:
        return
    place = find_episode_rate_line(evidence)
    if place is None:
        return
    yield Finding(
        name="longer-episodes",
        title="Episodes per second fall because episodes get longer: nothing got slower",
        file=place[0],
        line=place[1],
        share=0.0,
        speedup=1.0,
        evidence=(
            f"Episodes per second: {episodes[0]:,.1f} in the first third, {episodes[1]:,.1f} in the last.",
            f"Steps per episode: {lengths[0]:,.0f}, then {lengths[1]:,.0f}.",
            f"Transitions per second: {steps[0]:,.0f}, then {steps[1]:,.0f}.",
        ),
        advice="Measure speed in transitions per second. A budget of episodes takes longer as the agent gets "
        "better; a budget of transitions does not.",
        example="print(f'{transitions / seconds:.0f} transitions/s, {episodes / seconds:.1f} episodes/s')",
        certainty=1.0,
    )


def find_episode_rate_line(evidence: Evidence) -> Place | None:
    """A line that prints episodes per time without transitions per time."""
    for site in evidence.record.kinds(EventKind.PRINT):
        first, last = source.find_statement_lines(site.file, site.line)
        text = " ".join(source.read_line(site.file, line) for line in range(first, last + 1))
        if EPISODE_RATE.search(text) and not STEP_RATE.search(text):
            return site.file, site.line
    return None


def is_growing(container: Container, least: int) -> bool:
    """Whether it grew to the end and was never emptied."""
    sizes = [size for _, size in container.sizes]
    if len(sizes) < 3 or sizes[-1] < least or sizes[-1] < GROWN * sizes[0]:
        return False
    half = sizes[len(sizes) // 2]
    return all(a <= b for a, b in pairwise(sizes)) and sizes[-1] > 1.1 * half


def find_append_line(evidence: Evidence, container: Container) -> Place:
    """Where the source adds something to a container."""
    name = container.name.rpartition(".")[2]
    files = {frame.file for frame in evidence.record.frames if not frame.plumbing}
    for file in sorted(files, key=lambda f: f != evidence.record.script):
        module = source.parse_file(file)
        for node in ast.walk(module) if module else ():
            if adds_to_name(node, name):
                return file, source.first_line_number(node)
    return evidence.record.script, 0


def adds_to_name(node: ast.AST, name: str) -> bool:
    """Whether this is `name.append(…)`, `name += …` or `name = name + …`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("append", "extend", "add", "appendleft", "setdefault") and refers_to_name(
            node.func.value, name
        )
    if isinstance(node, ast.AugAssign):
        return refers_to_name(node.target, name)
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.BinOp)
        and refers_to_name(node.value.left, name)
    )


def refers_to_name(node: ast.AST, name: str) -> bool:
    """Whether this is `name` or `something.name`."""
    return (isinstance(node, ast.Name) and node.id == name) or (
        isinstance(node, ast.Attribute) and node.attr == name
    )


def compute_memory_growth(evidence: Evidence) -> float:
    """Bytes by which the process grew from the first training window to the last."""
    windows = evidence.training_windows
    return float(windows[-1].memory - windows[0].memory) if windows else 0.0


def first_and_last_third(evidence: Evidence) -> tuple[Stretch, Stretch] | None:
    """The first and the last third of the training windows; None if there are too few."""
    windows = [w for w in evidence.training_windows if w.seconds > 0.3 and w.counts.transitions]
    size = len(windows) // 3
    if size < 2:
        return None
    early, late = windows[:size], windows[-size:]
    return Stretch(early, sum_counts(early)), Stretch(late, sum_counts(late))


def has_steady_ratio(early: Stretch, late: Stretch) -> bool:
    """Whether updates per transition are about the same at the start and at the end."""
    first, last = (part.counts.updates / max(part.counts.transitions, 1) for part in (early, late))
    return first == last or (first > 0 and 0.8 < last / first < 1.25)


def phase_seconds_per_transition(evidence: Evidence, part: Stretch, phase: Phase) -> float:
    """Seconds of a phase for each transition."""
    spent = sum(evidence.phases_of(window)[phase] for window in part.windows)
    return spent / max(part.counts.transitions, 1)


def find_slower_lines(evidence: Evidence) -> dict[Place, tuple[float, float]]:
    """Lines that matter and whose seconds per step grew: the seconds before and after."""
    thirds = first_and_last_third(evidence)
    if thirds is None or not has_steady_ratio(*thirds):
        return {}  # work that began late, or is done more often, is not slower
    groups = [evidence.line_seconds(part.windows) for part in thirds]
    progress = [sum(w.counts.vector_steps or w.counts.updates for w in part.windows) or 1 for part in thirds]
    found = {}
    for place in evidence.by_line:
        before, after = (seconds[place] / steps for seconds, steps in zip(groups, progress, strict=True))
        if after > GROWN * before and evidence.at([place]) > 0.05:
            found[place] = before, after
    return found
