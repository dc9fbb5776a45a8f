"""What a script prints, how often, and what it claims about its own speed."""

from __future__ import annotations

import builtins
import functools
import re
import sys
from time import perf_counter
from types import FrameType
from typing import Any

from . import counters as tally
from .counters import COUNT, counters, note_event, note_failure
from .frames import stand_in_for
from .kinds import EventKind, Phase
from .rows import SpeedClaim

NUMBER = r"(\d[\d,]*\.?\d*)\s*([kKM]?)"
UNIT = (
    r"(?:env(?:ironment)?[ _-]?)?(?:steps|transitions|frames)\s*(?:/|per|_per_)\s*s(?:ec(?:ond)?)?\b"
    r"|\bfps\b|\bsps\b"
)
BEFORE = re.compile(rf"{NUMBER}\s*(?:{UNIT})", re.IGNORECASE)
AFTER = re.compile(rf"(?:{UNIT})\s*[:=|]\s*{NUMBER}", re.IGNORECASE)
LOOSE = re.compile(rf"(?:{UNIT})\s*{NUMBER}", re.IGNORECASE)
HINT = re.compile(r"/ ?s|per.?s|fps|sps", re.IGNORECASE)
SIGNS = ("/s", "/ s", "per", "ps")
"""Every hint contains one of these."""
SCALE = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6}

MOST = 1000
OFTEN, SELDOM = 100, 16
LONGEST = 2000

claims: list[SpeedClaim] = []


def watch_prints() -> None:
    """Replace `print` with a counting stand-in."""
    original = builtins.print

    @stand_in_for(Phase.PRINTING)
    @functools.wraps(original)
    def printed(*args: Any, **kwargs: Any) -> None:
        start = perf_counter()
        original(*args, **kwargs)
        note_print(args, sys._getframe(1), perf_counter() - start)

    builtins.print = printed


def note_print(args: tuple[Any, ...], frame: FrameType, seconds: float) -> None:
    """Count a print, and read it if it may claim a speed; a line that prints often is read now and then."""
    try:
        count = note_event(EventKind.PRINT, frame, seconds)[COUNT]
        if (count > OFTEN and count % SELDOM) or len(claims) >= MOST:
            return
        if any(isinstance(part, str) and may_claim_speed(part[:LONGEST]) for part in args):
            parts = [str(part)[:LONGEST] for part in args if isinstance(part, (str, int, float))]
            note_claim(" ".join(parts), frame)
    except Exception as error:
        note_failure(note_print, error)


def may_claim_speed(text: str) -> bool:
    """Whether a text is worth reading. Most prints are about something else, and this is quick to see."""
    small = text.lower()
    return any(sign in small for sign in SIGNS) and HINT.search(text) is not None


def note_claim(text: str, frame: FrameType) -> None:
    """Note the transitions per second that the script claims, with the number counted so far."""
    value = parse_claimed_speed(text)
    if value is not None:
        code, line = tally.locate_event(frame)
        seconds = perf_counter() - tally.started
        claims.append(SpeedClaim(seconds, code.co_filename, line, text[:200], value, counters.transitions))


def parse_claimed_speed(text: str) -> float | None:
    """The number in 'SPS: 1,234', '1234 steps/s' or '12.5k fps'."""
    match = AFTER.search(text) or BEFORE.search(text) or LOOSE.search(text)
    return float(match[1].replace(",", "")) * SCALE[match[2]] if match else None
