"""What the user may have meant by an unknown word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggest_nearest(word: str, known: Iterable[str]) -> str:
    """'; did you mean X?', or a list of what is allowed."""
    known = list(known)
    close = difflib.get_close_matches(word[:100], known, n=1)
    return f"; did you mean '{close[0]}'?" if close else f"; known are: {', '.join(known)}."


def suggest_close(word: str, known: Iterable[str]) -> str:
    """'; did you mean X?', or a full stop: for a message that has said what is allowed."""
    hint = suggest_nearest(word, known)
    return hint if "did you mean" in hint else "."
