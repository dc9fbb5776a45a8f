"""Replays and vectors of environments: habits that only reinforcement learning has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from flashdqn.doctor import source
from flashdqn.doctor.evidence import (
    Evidence,
    Place,
    SecondsBy,
    compute_share,
    estimate_speedup,
    is_library_file,
)
from flashdqn.doctor.findings.rules import compute_certainty, finding_rule
from flashdqn.doctor.report.contents import Finding
from flashdqn.doctor.watch.kinds import EventKind
from flashdqn.doctor.watch.rows import Holding

FLOATS = {"float32": 4, "float64": 8, "float16": 2}
SIDE = 32
"""Frames are at least this wide and high."""
STACKED = (2, 3, 4, 5, 6, 8)
LARGE = 64 * 2**20
#: Steps after an end from which on they are no slip.
LEAST_LATE = 100
TREE = re.compile(r"sum_?tree|segment_?tree|(^|\.)_?(propagate|retrieve)$", re.IGNORECASE)
HANDLES_RESETS = re.compile(
    r"final_obs|autoreset|AutoresetMode|prev_done|previous_done|last_done|needs_reset|_final"
)


def is_frames(holding: Holding) -> bool:
    """Whether an array holds pictures: many of them, large enough to see something."""
    sides = holding.shape[1:]
    return len(holding.shape) >= 3 and holding.shape[0] >= 100 and sum(size >= SIDE for size in sides) >= 2


def count_bytes(holding: Holding) -> int:
    """How large it is."""
    size = FLOATS.get(holding.dtype, 1 if "8" in holding.dtype or holding.dtype == "bool" else 4)
    return prod(holding.shape) * size * holding.copies


@finding_rule
def detect_float_frames(evidence: Evidence) -> Iterator[Finding]:
    """Pictures kept as floats: four times the memory of the bytes they came from."""
    found = [
        h for h in evidence.record.holdings if h.dtype in FLOATS and is_frames(h) and count_bytes(h) > LARGE
    ]
    if evidence.supervised or not found:
        return
    worst = max(found, key=count_bytes)
    place = find_name(evidence, worst.name)
    yield Finding(
        name="float-replay",
        title=f"`{worst.name}` keeps frames as {worst.dtype}: {FLOATS[worst.dtype]} times the memory of bytes",
        file=place[0],
        line=place[1],
        share=0.0,
        speedup=1.0,
        evidence=(f"Its shape is {worst.shape}, {count_bytes(worst) / 2**30:.2f} GB so far.",),
        advice="Keep frames as uint8 and divide by 255 after drawing a batch, on the device.",
        example="frames = np.zeros((capacity, 84, 84), dtype=np.uint8)\nbatch = frames[rows].float() / 255",
        certainty=1.0,
    )


@finding_rule
def detect_repeated_frames(evidence: Evidence) -> Iterator[Finding]:
    """Stacks of frames, each frame in several of them, and again as the next observation."""
    found = [
        h
        for h in evidence.record.holdings
        if is_frames(h) and count_bytes(h) > LARGE and h.shape[1] in STACKED and len(h.shape) >= 4
    ]
    if evidence.supervised or not found:
        return
    worst = max(found, key=count_bytes)
    pairs = worst.copies > 1 or any("next" in h.name and h.shape == worst.shape for h in found)
    times = worst.shape[1] * (2 if pairs else 1)
    place = find_name(evidence, worst.name)
    yield Finding(
        name="frames-kept-k-times",
        title=f"Every frame is kept {times} times in `{worst.name}`",
        file=place[0],
        line=place[1],
        share=0.0,
        speedup=1.0,
        evidence=(
            f"Stacks of {worst.shape[1]} frames, shape {worst.shape}"
            + (", with the next stack beside each." if pairs else "."),
        ),
        advice="Keep each frame once, in the order in which they came, and put the stacks together when a batch "
        "is drawn.",
        example="stack = frames[rows[:, None] - np.arange(k)[::-1]]   # episodes' starts need a mask",
        certainty=1.0,
    )


def find_name(evidence: Evidence, name: str) -> Place:
    """The first line of the script's files that assigns to the last part of a name."""
    word = re.compile(rf"\b{re.escape(name.rpartition('.')[2])}\s*(:[^=]+)?=[^=]")
    files = {f.file for f in evidence.record.frames if not f.plumbing and not is_library_file(f.file)}
    for file in sorted(files, key=lambda f: f != evidence.record.script):
        module = source.parse_file(file)
        for line in range(1, source.last_line_number(module.body[-1]) + 1 if module and module.body else 1):
            if word.search(source.read_line(file, line)):
                return file, line
    return evidence.record.script, 0


@finding_rule
def detect_python_tree(evidence: Evidence) -> Iterator[Finding]:
    """Priorities in a sum tree that Python walks node by node."""
    lines = SecondsBy[Place]()
    for number, seconds in evidence.by_stack.items():
        own = next((f for f in reversed(evidence.frames(number)) if not f.plumbing), None)
        if own is not None and TREE.search(own.function):
            lines[own.file, own.line] += seconds
    if not lines:
        return
    share = compute_share(sum(lines.values()), evidence.seconds)
    file, line = lines.longest()
    yield Finding(
        name="python-sumtree",
        title="Priorities are kept in a tree that Python walks node by node",
        file=file,
        line=line,
        share=share,
        speedup=estimate_speedup(share, 20.0),
        evidence=(
            f"The tree takes {share:.0%} of the time. Its most expensive line: {source.read_line(file, line)}",
        ),
        advice="Walk the tree for the whole batch at once, level by level, with arrays: log2(n) operations for "
        "any batch.",
        example="node = np.zeros(batch, int)\nfor _ in range(depth):\n    left = 2 * node + 1\n"
        "    right = value > tree[left]; value -= right * tree[left]; node = left + right",
        certainty=compute_certainty(evidence, share, 0.05),
    )


@finding_rule
def detect_ratio_by_envs(evidence: Evidence) -> Iterator[Finding]:
    """Updates that are counted per step of all environments: more environments then mean less learning."""
    record, bursts = evidence.record, evidence.record.bursts
    if record.width < 2 or bursts.number < 200 or not bursts.vector_steps:
        return
    steps = bursts.vector_steps / (bursts.number - 1)
    if abs(steps - 1.0) > 0.02 or evidence.updates_per_step > 4.1:
        return
    place = evidence.update_call()
    yield Finding(
        name="ratio-depends-on-envs",
        title=f"{evidence.updates_per_step:.3g} updates for each step of {record.width} environments: with more "
        "of them, it "
        "learns less from each transition",
        file=place[0],
        line=place[1],
        share=0.0,
        speedup=1.0,
        evidence=(f"The ratio is {evidence.ratio:.3g} updates a transition now, and would be half of that with "
        f"{2 * record.width}.",),
        advice="Say the ratio in updates per transition, and derive the number of updates from it. Then the "
        "number of "
        "environments is a matter of speed alone.",
        example="updates_due += ratio * number_of_environments\nwhile updates_due >= 1:\n    train_step(); "
        "updates_due -= 1",
        certainty=1.0,
    )  # fmt: skip


@finding_rule
def detect_autoreset(evidence: Evidence) -> Iterator[Finding]:
    """Vectors that reset in the step after an episode's end: that step is no transition of any episode."""
    record = evidence.record
    if record.autoreset != "NextStep" or not record.totals.episodes:
        return
    site = max(record.kinds(EventKind.ENV_STEP), key=lambda s: s.count, default=None)
    if site is None or is_library_file(site.file):
        return
    module = source.parse_file(site.file)
    last = source.last_line_number(module.body[-1]) if module and module.body else 0
    if any(HANDLES_RESETS.search(source.read_line(site.file, line)) for line in range(1, last + 1)):
        return
    yield Finding(
        name="vector-autoreset-wrong",
        title="After an episode's end, a step that only resets is taken for a transition",
        file=site.file,
        line=site.line,
        share=0.0,
        speedup=1.0,
        evidence=(
            "The environments reset in the step after an end (autoreset mode NextStep), and "
            f"{record.totals.episodes:,} "
            "episodes ended; nothing in this file looks at it.",
        ),
        advice="Leave out the transitions that begin where the step before has ended; or ask for the other mode, "
        "in which "
        "the last observation is in `infos`.",
        example="valid = ~done_before                     # done_before = terminated | truncated of the last step\n"
        "gym.make_vec(..., vector_kwargs={'autoreset_mode': gym.vector.AutoresetMode.SAME_STEP})",
        certainty=1.0,
    )


@finding_rule
def detect_steps_after_end(evidence: Evidence) -> Iterator[Finding]:
    """Steps after an episode has ended, before the next reset: often because `truncated` is not looked at."""
    record = evidence.record
    steps = record.totals.vector_steps
    site = max(record.kinds(EventKind.ENV_STEP), key=lambda s: s.count, default=None)
    if site is None or record.late_steps < LEAST_LATE or record.late_steps < 0.01 * steps:
        return
    yield Finding(
        name="steps-after-end",
        title="An environment is stepped on after its episode has ended",
        file=site.file,
        line=site.line,
        share=0.0,
        speedup=1.0,
        evidence=(
            f"{record.late_steps:,} of {steps:,} steps came after an end and before the next reset.",
            "An episode ends when `terminated` or `truncated` is true; a time limit says the latter.",
        ),
        advice="Reset as soon as either is true. Learn from the last transition as from any other if it was "
        "truncated: only a terminated state is worth nothing.",
        example="next_obs, reward, terminated, truncated, info = env.step(action)\n"
        "done = terminated or truncated              # the loop ends; mask the bootstrap by `terminated` alone",
        certainty=1.0,
    )
