"""Learning health: signs that a script computes, and does not learn. Only with `--health`."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from statistics import median

from flashdqn.doctor import source
from flashdqn.doctor.evidence import Evidence, Place, is_library_file
from flashdqn.doctor.findings.rules import health_rule
from flashdqn.doctor.report.contents import Finding
from flashdqn.doctor.watch.health_rows import HealthRecord
from flashdqn.doctor.watch.kinds import EventKind

LEAST_LOOKS = 5
DEAD, DIED = 0.4, 0.2
"""Shares of the units behind a ReLU: zero for every row, and of these at least so many more than at random."""
EXPLODED, VANISHED = 1e3, 1e-6
DIVERGED = 100.0
"""How many times as large as at first outputs become when they diverge, and how large at least."""
COPIES_TARGET = re.compile(
    r"load_state_dict|\.copy_\(|lerp_|soft_update|polyak|tau\b|update_target|sync", re.IGNORECASE
)


def make_health_finding(
    name: str, title: str, place: Place, evidence: tuple[str, ...], advice: str, example: str = ""
) -> Finding:
    """A finding about learning: it has no share of the time, and no gain."""
    return Finding(name, title, place[0], place[1], 0.0, 1.0, evidence, advice, example, health=True)


@health_rule
def detect_dead_units(evidence: Evidence, health: HealthRecord) -> Iterator[Finding]:
    """Units that are zero for every input, far more than with new random weights."""
    if health.dead is None or not health.units or health.dead < DEAD * health.units:
        return
    if health.dead - health.dead_at_first < DIED * health.units:
        return
    yield make_health_finding(
        "dead-units",
        f"{health.dead / health.units:.0%} of the units behind a ReLU are zero for every row of a batch",
        evidence.update_call(),
        (
            f"{health.dead:,} of {health.units:,} units were zero for all rows, on a copy of the network; with new "
            f"random weights {health.dead_at_first:,} are.",
        ),
        "Such units get no gradient and stay as they are. Lower the learning rate, scale the inputs, use "
        "LayerNorm or a "
        "leaky activation.",
        "nn.Linear(n, 256), nn.LayerNorm(256), nn.ReLU()",
    )


@health_rule
def detect_gradients(evidence: Evidence, health: HealthRecord) -> Iterator[Finding]:
    """Gradients that explode, vanish, or are not numbers."""
    norms = [look.gradient for look in health.looks]
    if len(norms) < LEAST_LOOKS:
        return
    bad = sum(not math.isfinite(norm) for norm in norms)
    finite = [norm for norm in norms if math.isfinite(norm)]
    late = median(finite[len(finite) // 2 :]) if finite else math.nan
    place = evidence.update_call()
    said = (
        f"The norm of all gradients: {norms[0]:.3g} at first, {norms[-1]:.3g} at the end, {len(norms)} looks."
    )
    if bad or late > EXPLODED:
        yield make_health_finding(
            "exploding-gradients",
            "Gradients are not numbers any more" if bad else "Gradients are very large",
            place,
            (said,),
            "Clip their norm, lower the learning rate, and look at the scale of rewards and inputs.",
            "torch.nn.utils.clip_grad_norm_(network.parameters(), 10.0)",
        )
    elif late < VANISHED:
        yield make_health_finding(
            "vanishing-gradients",
            "Gradients are almost zero: nothing is learned",
            place,
            (said,),
            "Look for outputs that are saturated (tanh, sigmoid), losses that were multiplied by almost nothing, "
            "masks "
            "that are always zero, and rewards that never come.",
        )


@health_rule
def detect_divergence(evidence: Evidence, health: HealthRecord) -> Iterator[Finding]:
    """Values that grow without end."""
    outputs = [look.output for look in health.looks]
    if len(outputs) < LEAST_LOOKS:
        return
    first, last = max(outputs[0], 1.0), outputs[-1]
    scale = max(abs(health.outer.least), abs(health.outer.most), 1e-3)
    if math.isfinite(last) and (last < DIVERGED * first or last < 1000 * scale):
        return
    yield make_health_finding(
        "diverging-values",
        "The network's values grow without end",
        evidence.update_call(),
        (
            f"Its largest output: {outputs[0]:.3g} at first, {last:.3g} at the end. Rewards are between "
            f"{health.outer.least:.3g} and {health.outer.most:.3g}.",
        ),
        "No return can be that large. Check the discount, the mask of ended episodes, and the target network; "
        "lower the "
        "learning rate; use a Huber loss and double Q-learning.",
        "target = reward + gamma * (1 - terminated) * next_value",
    )


@health_rule
def detect_exploration(evidence: Evidence, health: HealthRecord) -> Iterator[Finding]:
    """A chance of exploring that never falls."""
    values = [look.epsilon for look in health.looks if look.epsilon is not None]
    if len(values) < LEAST_LOOKS or min(values) < max(values) or not 0.3 <= values[-1] <= 1.0:
        return
    if health.looks[-1].updates - health.looks[0].updates < 500:
        return
    yield make_health_finding(
        "epsilon-stays",
        f"The chance of exploring stays at {values[-1]:.3g}",
        find_word(evidence, re.compile(r"\b(eps|epsilon|exploration_rate)\w*\s*=[^=]")),
        (f"{values[-1]:.3g} at each of {len(values)} looks, over {health.looks[-1].updates:,} updates.",),
        "Let it fall over the first tenth of the training, to 0.05 or less; look whether the line that lowers it "
        "is ever "
        "reached.",
        "epsilon = max(0.05, 1.0 - step / 50_000)",
    )


@health_rule
def detect_frozen_target(evidence: Evidence, health: HealthRecord) -> Iterator[Finding]:
    """A target network that is never updated."""
    looks = [look for look in health.looks if look.targets]
    if len(looks) < LEAST_LOOKS or looks[-1].updates - looks[0].updates < 1000:
        return
    if any(a != looks[0].targets[0] for a in (look.targets[0] for look in looks)):
        return
    if copies_again(evidence):
        return  # the line is there, and may only be rare
    site = next((f for f in evidence.record.forwards if not f.trained and f.learning), None)
    yield make_health_finding(
        "frozen-target",
        "The target network never changes",
        (site.file, site.line) if site else evidence.update_call(),
        (f"The same weights at {len(looks)} looks, over {looks[-1].updates - looks[0].updates:,} updates.",),
        "Copy the network into the target every few hundred updates, or a little at every one.",
        "target.load_state_dict(network.state_dict())",
    )


def copies_again(evidence: Evidence) -> bool:
    """Whether a line copies a network's weights where it could be reached again: in a loop, or in a function
    that is not a constructor. A copy before training is not enough."""
    for file in list_user_files(evidence):
        for line, text in read_numbered(file):
            if COPIES_TARGET.search(text):
                function = source.find_function(file, line)
                if source.find_loops(file, line) or (function is not None and function.name != "__init__"):
                    return True
    return False


@health_rule
def detect_mixed_ends(evidence: Evidence, health: HealthRecord) -> Iterator[Finding]:
    """Episodes that were cut off, learned from as if they had ended."""
    if not health.truncated:
        return
    for file in list_user_files(evidence):
        names = find_joined_ends(file)
        place = next(((file, line) for line, text in read_numbered(file) if uses_as_end(text, names)), None)
        if place is not None:
            ended = health.truncated + health.terminated
            yield make_health_finding(
                "ends-mixed-up",
                "Episodes that were cut off count as ended: their last value is learned as zero",
                place,
                (
                    f"{health.truncated:,} of {ended:,} episodes were truncated; "
                    f"`{sorted(names)[0]}` joins both ends, and is used here: {source.read_line(*place)}",
                ),
                "Store `terminated` alone for the target; use both only to know when to reset.",
                "replay.add(obs, action, reward, next_obs, terminated)",
            )
            return


def find_joined_ends(file: str) -> set[str]:
    """Names that are `terminated or truncated`."""
    names = set()
    module = source.parse_file(file)
    for node in ast.walk(module) if module else ():
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = ast.unparse(node.value)
            if (
                re.search(r"\bterm\w*", text)
                and re.search(r"\btrunc\w*", text)
                and re.search(r"\bor\b|\||logical_or", text)
            ):
                names.add(node.targets[0].id)
    return names


def uses_as_end(text: str, names: set[str]) -> bool:
    """Whether a line stores such a name, or masks a value with it."""
    return any(
        re.search(
            rf"(\.(add|push|append|store|remember|put|store_transition)\(.*\b{name}\b)|(1(\.0)?\s*-\s*{name}\b)",
            text,
        )
        for name in names
    )


@health_rule
def detect_small_replay(evidence: Evidence, health: HealthRecord) -> Iterator[Finding]:
    """A replay that cannot hold an episode."""
    totals = evidence.record.totals
    known = [replay for replay in health.replays if replay.capacity]
    if not known or totals.episodes < 5:
        return
    replay, length = max(known, key=lambda r: r.capacity), totals.episode_steps / totals.episodes
    if replay.capacity >= length:
        return
    yield make_health_finding(
        "small-replay",
        f"The replay holds {replay.capacity:,} transitions, and an episode has {length:,.0f}",
        find_word(evidence, re.compile(rf"\b{re.escape(replay.name)}\(")),
        (
            f"`{replay.name}` with room for {replay.capacity:,}; {totals.episodes:,} episodes, {length:,.0f} "
            "steps on average.",
        ),
        "Batches then come from a part of one episode, and are almost the same. Keep at least some dozen episodes.",
        f"{replay.name}(capacity=100_000)",
    )


@health_rule
def detect_lost_rewards(evidence: Evidence, health: HealthRecord) -> Iterator[Finding]:
    """Rewards that are clipped, rounded or scaled to nothing."""
    outer, inner = health.outer, health.inner
    if outer.count < 500 or outer.zero < outer.count or evidence.record.totals.episodes < 5:
        return
    site = max(evidence.record.kinds(EventKind.ENV_STEP), key=lambda s: s.count, default=None)
    lost = inner.count and inner.zero < inner.count
    yield make_health_finding(
        "rewards-lost",
        "All rewards are zero: they were clipped or rounded away" if lost else "All rewards are zero",
        (site.file, site.line) if site else (evidence.record.script, 0),
        (
            f"{outer.count:,} rewards, all zero, in {evidence.record.totals.episodes:,} episodes.",
            *((f"Inside the wrappers they were between {inner.least:.3g} and {inner.most:.3g}.",) if lost else ()),
        ),
        "Scale rewards before they are clipped or made integers; or look for a reward that is reached by chance "
        "at first.",
        "reward = np.clip(reward / scale, -1, 1)",
    )  # fmt: skip


def list_user_files(evidence: Evidence) -> list[str]:
    """The script's own files, the script first."""
    files = {f.file for f in evidence.record.frames if not f.plumbing and not is_library_file(f.file)}
    return sorted(files, key=lambda f: (f != evidence.record.script, f))


def read_numbered(file: str) -> Iterator[tuple[int, str]]:
    """A file's lines with their numbers."""
    module = source.parse_file(file)
    last = source.last_line_number(module.body[-1]) if module and module.body else 0
    return ((line, source.read_line(file, line)) for line in range(1, last + 1))


def find_word(evidence: Evidence, pattern: re.Pattern[str]) -> Place:
    """The first line of the script's files that matches; line 0 if none does."""
    for file in list_user_files(evidence):
        for line, text in read_numbered(file):
            if pattern.search(text):
                return file, line
    return evidence.record.script, 0
