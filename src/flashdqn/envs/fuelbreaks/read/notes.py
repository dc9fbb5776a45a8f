"""What a reader had to assume, told to whoever reads."""

from __future__ import annotations

import logging
from collections.abc import Callable

#: Takes one sentence.
TellNote = Callable[[str], None]


def log_note(text: str) -> None:
    """Tell a note as a warning of the logger `flashdqn`; without a handler, Python prints it to stderr."""
    logging.getLogger("flashdqn").warning("%s", text)
