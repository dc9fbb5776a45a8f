"""Texts that may be a stranger's: characters that control a terminal, or hide what a line says."""

from __future__ import annotations

import re

#: Control characters (escape sequences start with one), those that change the direction or end a line, and halves
#: of characters, which UTF-8 cannot write.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
#: The same without the tab and the end of a line.
_INSIDE = re.compile(r"(?![\t\n])" + CONTROL.pattern)
#: What stands for such a character.
INSTEAD = "\ufffd"
#: The most characters of a line.
MOST = 4000


def clean_text(text: str) -> str:
    """A text for a terminal: it keeps its lines, and controls nothing."""
    return _INSIDE.sub(INSTEAD, text)


def clean_name(text: str) -> str:
    """A path, or a line with one, as it is, but on one line: a folder's name may have an end of a line in it."""
    return CONTROL.sub(INSTEAD, text)


def clean_line(text: str, most: int = MOST) -> str:
    """The same on one line, shortened: a stranger's text must not add lines that look like ours."""
    line = " ".join(text[: 4 * most].split())
    return CONTROL.sub(INSTEAD, line if len(line) <= most else f"{line[:most]} …")
