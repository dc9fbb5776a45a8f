"""Other processes: who waits for whom, and whether it is worth it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flashdqn.doctor import source
from flashdqn.doctor.evidence import Evidence, Place, SecondsBy, compute_share, estimate_speedup
from flashdqn.doctor.findings.rules import compute_certainty, finding_rule
from flashdqn.doctor.report.contents import Finding, Limit
from flashdqn.doctor.workers import (
    Activity,
    WorkerProcess,
    find_user_place,
    find_workers,
    is_loading,
    iterate_waits,
)

LEAST_WAIT = 0.15
CHEAP = 0.8
"""Workers whose work takes less than this part of the time that the main process waits for it are not worth it."""
UNEVEN = 1.5
CROWDED = 0.25
"""Share of the cores that other programs use on a crowded machine."""
COMPILED = 10.0
"""How much faster compiled or vectorized code is than Python's loops: a cautious estimate."""


@dataclass(frozen=True)
class Meeting:
    """The main process and its workers, without those of a DataLoader."""

    workers: list[WorkerProcess]
    waits: float
    """Seconds that the main process waits for workers."""
    messages: float
    """Seconds in which it packs, sends and unpacks."""
    place: Place
    """The user's line that waits."""
    certain: float

    @property
    def work(self) -> float:
        """Seconds of work in all workers together."""
        return sum(worker.activities[Activity.WORK] for worker in self.workers)

    @property
    def all_messages(self) -> float:
        """Seconds of packing, sending and unpacking, in all processes together."""
        return self.messages + sum(worker.activities[Activity.MESSAGE] for worker in self.workers)

    @property
    def mean(self) -> float:
        """The share of its time that a worker works, on average."""
        return sum(worker.share(Activity.WORK) for worker in self.workers) / len(self.workers)

    @property
    def busiest(self) -> WorkerProcess:
        """The worker that works most."""
        return max(self.workers, key=lambda worker: worker.activities[Activity.WORK])


@finding_rule
def detect_waiting(evidence: Evidence) -> Iterator[Finding]:
    """The main process waits for its workers: because of their work, one slow one, or the messages."""
    meeting = meet_workers(evidence)
    if meeting is None:
        return
    lost = meeting.waits + meeting.messages
    even = meeting.busiest.activities[Activity.WORK] <= UNEVEN * meeting.work / len(meeting.workers)
    # On a crowded machine everybody waits for cores, so that waiting says little about messages.
    crowded = (evidence.others or 0.0) > CROWDED * evidence.record.cores
    working = crowded and meeting.work > meeting.all_messages
    if meeting.work < CHEAP * lost and not working:
        yield report_costly_messages(evidence, meeting)
    elif (
        working
        or not even
        or meeting.mean > 0.5
        or meeting.work > 0.8 * meeting.waits * evidence.record.cores
    ):
        yield report_slow_worker(evidence, meeting, even=even)
    else:
        yield report_waiting(evidence, meeting)


def meet_workers(evidence: Evidence) -> Meeting | None:
    """Who waits for whom; None if the main process hardly waits."""
    workers = [worker for worker in find_workers(evidence) if not worker.loads and not worker.updates]
    places, waits, messages = SecondsBy[Place](), 0.0, 0.0
    for stack, seconds, activity in iterate_waits(evidence):
        if is_loading(stack):
            continue
        if activity is Activity.WAIT:
            waits += seconds
        else:
            messages += seconds
        places[find_user_place(stack) or (evidence.record.script, 0)] += seconds
    share = compute_share(waits, evidence.seconds)
    if not workers or share < LEAST_WAIT:
        return None
    scale = evidence.watched / max(evidence.seconds, 1e-9)  # the calm windows stand for all
    certain = compute_certainty(evidence, share, LEAST_WAIT)
    return Meeting(workers, waits * scale, messages * scale, places.longest(), certain)


def describe_meeting(evidence: Evidence, meeting: Meeting) -> tuple[str, ...]:
    """Who waits for whom, in numbers."""
    number = len(meeting.workers)
    waiting = sum(worker.share(Activity.WAIT) for worker in meeting.workers) / number
    messages = sum(worker.share(Activity.MESSAGE) for worker in meeting.workers) / number
    steps = evidence.counts.vector_steps
    found = [
        f"The main process waits for {number} workers {compute_share(meeting.waits, evidence.watched):.0%} of "
        "the time, "
        f"and packs or unpacks messages {compute_share(meeting.messages, evidence.watched):.0%}.",
        f"A worker works {meeting.mean:.0%} of its time, waits {waiting:.0%}, and sends or reads messages "
        f"{messages:.0%}.",
    ]
    if steps:
        found.append(
            f"For each step of all environments the main process waits {1e6 * meeting.waits / steps:,.0f} µs; "
            "the work in "
            f"all workers together takes {1e6 * meeting.work / steps:,.0f} µs."
        )
    return tuple(found)


def report_costly_messages(evidence: Evidence, meeting: Meeting) -> Finding:
    """Workers whose steps are cheaper than the messages about them."""
    lost = meeting.waits + meeting.messages
    share = compute_share(lost, evidence.watched)
    return Finding(
        name="costly-messages",
        title="The workers' steps are cheaper than the messages about them",
        file=meeting.place[0],
        line=meeting.place[1],
        share=share,
        speedup=estimate_speedup(share, lost / max(meeting.work, 1e-9)),
        evidence=(*describe_meeting(evidence, meeting), "The gain above is that of doing the same work in the "
        "main process."),
        advice="Step these environments in the main process, one after the other or with arrays; or let each "
        "worker "
        "do more for a message: several environments, or several steps.",
        example='envs = gymnasium.vector.SyncVectorEnv(makers)       # instead of AsyncVectorEnv, SubprocVecEnv',
        limit=Limit.WORKERS,
        certainty=meeting.certain,
    )  # fmt: skip


def report_slow_worker(evidence: Evidence, meeting: Meeting, *, even: bool) -> Finding:
    """Workers that are busy while the main process waits: what they do is what limits it."""
    share = compute_share(meeting.waits, evidence.watched)
    lines = meeting.busiest.work_lines()
    file, line = lines.longest() if lines else meeting.place
    average = meeting.work / len(meeting.workers)
    most = meeting.busiest.activities[Activity.WORK]
    in_python = compute_share(sum(lines.values()), sum(meeting.busiest.stacks.values()))
    factor = COMPILED if even else max(most / max(average, 1e-9), 1.0)
    return Finding(
        name="slow-worker",
        title=f"{len(meeting.workers)} workers are busy, and the main process waits for them"
        if even
        else f"One of {len(meeting.workers)} workers works {most / max(average, 1e-9):.1f} times as long as the "
        "others: "
        "all wait for it",
        file=file,
        line=line,
        share=share,
        speedup=estimate_speedup(share * min(1.0, in_python if even else 1.0), factor),
        evidence=(
            *describe_meeting(evidence, meeting),
            f"Most of their work: {source.read_line(file, line)}"
            if line
            else "What they do could not be seen.",
            f"{len(meeting.workers)} workers share {evidence.record.cores} cores.",
        ),
        advice="Make the workers' step cheaper: compile its inner loops, or step many environments at once with "
        "arrays."
        + (" The gain above assumes that such code is about ten times faster." if even else "")
        + (
            " More workers than cores only wait for one another."
            if len(meeting.workers) > evidence.record.cores
            else ""
        ),
        example="@numba.njit(cache=True)\ndef step_all(states, actions):\n    ...",
        limit=Limit.ENVIRONMENT,
        certainty=meeting.certain,
    )


def report_waiting(evidence: Evidence, meeting: Meeting) -> Finding:
    """Neither the work nor the messages alone: the processes wait for one another in turns."""
    share = compute_share(meeting.waits, evidence.watched)
    # At best, the main process does its own work while the workers do theirs.
    best = estimate_speedup(min(share, 1.0 - share))
    return Finding(
        name="waiting-for-workers",
        title="The main process and its workers wait for one another in turns",
        file=meeting.place[0],
        line=meeting.place[1],
        share=share,
        speedup=best,
        evidence=(
            *describe_meeting(evidence, meeting),
            "The gain above is that of both working at the same time.",
        ),
        advice="Let the workers step while the network learns or acts for another half of them: send the "
        "actions, do "
        "something else, then receive. Or give each worker more environments.",
        example="envs.step_async(actions)\nlearn()                      # while they step\nresult = "
        "envs.step_wait()",
        limit=Limit.WORKERS,
        certainty=meeting.certain,
    )
