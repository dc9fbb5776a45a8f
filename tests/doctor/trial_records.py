"""Trials made by hand: how far a script came, and what it computed."""

from __future__ import annotations

from collections.abc import Iterable

from flashdqn.doctor.watch.kinds import Ending
from flashdqn.doctor.watch.trial_rows import Digest, TrialProgress, TrialRecord


def make_series(
    rate: float, seconds: float = 10.0, start: float = 1.0, ratio: float = 0.25
) -> list[TrialProgress]:
    """Steady progress: `rate` transitions a second from `start` on, noted every fiftieth of a second."""
    rows = []
    for k in range(int((start + seconds) * 50) + 1):
        time = k / 50
        done = rate * max(0.0, time - start)
        rows.append(TrialProgress(time, int(done), int(ratio * done), 0.9 * time))
    return rows


def make_digests(codes: Iterable[str], sample: tuple[float, ...] = (1.0, 2.0)) -> tuple[Digest, ...]:
    """The digests at the first, second, fourth … update."""
    return tuple(Digest(0, 2**k, code, sample) for k, code in enumerate(codes))


def make_trial(
    rate: float = 1000.0,
    codes: Iterable[str] = ("a", "b", "c"),
    ended: Ending = Ending.STOPPED,
    applied: tuple[str, ...] = ("something",),
    **more: float,
) -> TrialRecord:
    return TrialRecord(
        ended, "", tuple(make_series(rate, **more)), make_digests(codes), applied, (), 0.0, 1.0
    )
