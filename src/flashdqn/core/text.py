"""Texts that may be a stranger's: characters that control a terminal, or hide what a line says."""

from __future__ import annotations

import re

#: Control characters (escape sequences start with one), and those that change the direction or end a line.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: The same without the tab and the end of a line.
_INSIDE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: What stands for such a character.
INSTEAD = "\ufffd"


def clean_text(text: str) -> str:
    """A text for a terminal: it keeps its lines, and controls nothing."""
    return _INSIDE.sub(INSTEAD, text)


def clean_line(text: str) -> str:
    """The same on one line: a stranger's text must not add lines that look like ours."""
    return CONTROL.sub(INSTEAD, text)
