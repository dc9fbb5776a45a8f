"""Time in which the script asked to be left asleep, or waited for a disk."""

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
    is_library_file,
)
from flashdqn.doctor.findings.rules import compute_certainty, finding_rule
from flashdqn.doctor.report.contents import Finding, Limit
from flashdqn.doctor.watch.kinds import Phase
from flashdqn.doctor.watch.rows import Frame

LEAST_SHARE = 0.1
ASLEEP = re.compile(r"\b(sleep|tick|tick_busy_loop|waitKey|wait_for_input|pause)\(")
"""Calls that do nothing for a while: a clock for a game's frames, a window that is to be seen, a pause."""
FILES = re.compile(
    r"/torch/serialization\.py$|/numpy/lib/(npyio|_npyio_impl|format)\.py$|/pickle\.py$|/h5py/|/PIL/ImageFile\.py$"
)
READS = re.compile(r"\b(open|read|readline|readlines|load|imread|read_csv|loadtxt|fromfile|read_image)\(")


@finding_rule
def detect_sleeping(evidence: Evidence) -> Iterator[Finding]:
    """A line that sleeps: often a frame rate, for eyes that do not watch."""
    lines = collect_lines(evidence, ASLEEP)
    if not lines:
        return
    file, line = lines.longest()
    share = compute_share(sum(lines.values()), evidence.seconds)
    yield Finding(
        name="sleeping",
        title="The script sleeps in its loop",
        file=file,
        line=line,
        share=share,
        speedup=estimate_speedup(share),
        evidence=(
            f"It sleeps {share:.0%} of the time: {source.read_line(file, line)}",
            f"The process used {evidence.counts.cpu / max(evidence.watched, 1e-9):.1f} cores meanwhile.",
        ),
        advice="Leave out the clock, the pause or the window while it trains; show a game now and then instead.",
        example="if render:\n    clock.tick(speed)",
        limit=Limit.SLEEP,
        certainty=compute_certainty(evidence, share, LEAST_SHARE),
    )


def collect_lines(evidence: Evidence, pattern: re.Pattern[str]) -> SecondsBy[Place]:
    """Seconds of the user's innermost lines whose text matches."""
    lines = SecondsBy[Place]()
    for number, seconds in evidence.by_stack.items():
        own = [f for f in evidence.frames(number) if not f.plumbing and not is_library_file(f.file)]
        if own and pattern.search(source.read_line(own[-1].file, own[-1].line)):
            lines[own[-1].file, own[-1].line] += seconds
    return lines


@finding_rule
def detect_io_wait(evidence: Evidence) -> Iterator[Finding]:
    """Files that are read or written in the training's own process, while it could compute."""
    lines = SecondsBy[Place]()
    for number, seconds in evidence.by_stack.items():
        stack = evidence.frames(number)
        own = [f for f in stack if not f.plumbing and not is_library_file(f.file)]
        if own and evidence.names[number] is not Phase.LOGGING and touches_files(stack, own[-1]):
            lines[own[-1].file, own[-1].line] += seconds
    if not lines:
        return
    file, line = lines.longest()
    share = compute_share(sum(lines.values()), evidence.seconds)
    yield Finding(
        name="io-wait",
        title="Files are read in the middle of training",
        file=file,
        line=line,
        share=share,
        speedup=estimate_speedup(share),
        evidence=(f"Reading takes {share:.0%} of the time: {source.read_line(file, line)}",),
        advice="Read once, and keep it in memory; or map the file, or let a DataLoader's workers read ahead.",
        example="data = np.load('data.npy', mmap_mode='r', allow_pickle=False)   # before the loop",
        limit=Limit.LOADING,
        certainty=compute_certainty(evidence, share, LEAST_SHARE),
    )


def touches_files(stack: tuple[Frame, ...], own: Frame) -> bool:
    """Whether a stack is inside a function that reads or writes files."""
    if any(FILES.search(frame.file) for frame in stack):
        return True
    return bool(READS.search(source.read_line(own.file, own.line))) and stack[-1] is own
