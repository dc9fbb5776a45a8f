"""Lines for a terminal: wrapped with an indent, cut where wrapping would hurt, never with markup from a report."""

from __future__ import annotations

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from flashdqn.doctor.report.words import strip_controls

ASCII = str.maketrans({"–": "-", "•": "*", "…": "~", "µ": "u", "×": "x", "█": "#", "▏": "|", "▎": "|"})


class Sheet:
    """A console to write a report on."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.width = min(console.width, 100)

    def blank(self) -> None:
        """An empty line."""
        self._put(Text())

    def title(self, text: str) -> None:
        """A heading, with an empty line above."""
        self.blank()
        self._put(Text(text, style="bold"))

    def line(self, text: Text) -> None:
        """One line, cut where the terminal ends."""
        text.truncate(self.width, overflow="ellipsis")
        text.rstrip()
        self._put(text)

    def say(self, text: str | Text, *, indent: int = 0, bullet: str = "", style: str = "") -> None:
        """As many lines as it takes, all of them indented, with a bullet before the first."""
        words = Text(text) if isinstance(text, str) else text
        words.stylize_before(style)
        before = indent + len(bullet)
        for number, line in enumerate(words.wrap(self.console, max(20, self.width - before))):
            line.rstrip()
            start = " " * indent + bullet if number == 0 else " " * before
            self._put(Text.assemble((start, style), line))

    def code(self, source: str, *, indent: int) -> None:
        """Some lines of code, never wrapped: they are there to be copied."""
        if not source.strip():
            return
        self.blank()
        for line in highlight_for_terminal(strip_controls(source).strip("\n").expandtabs(4)).split("\n"):
            self._put(Text.assemble(" " * indent, line) if line.plain.strip() else Text())

    def verbatim(self, text: str) -> None:
        """Text that is neither wrapped nor cut."""
        self._put(Text(strip_controls(text).rstrip("\n")))

    def _put(self, text: Text) -> None:
        if not self.console.encoding.lower().startswith("utf"):
            spelled = text.plain.translate(ASCII).encode(self.console.encoding, "replace")
            text = Text(spelled.decode(self.console.encoding))
        self.console.print(text, highlight=False, soft_wrap=True)


def highlight_for_terminal(source: str) -> Text:
    """Python in the terminal's own colors."""
    colors = Syntax("", "python", theme="ansi_dark", background_color="default")
    text = colors.highlight(source)
    text.rstrip()
    return text
