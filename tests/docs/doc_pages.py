"""What the pages say to type: every fenced block of README.md and docs/*.md, and every command in them.

- A block marked `python` is a program.
- A block marked `bash`, `sh` or `console` holds commands; so does one without a language that begins with one.
- Any other block shows something: output, a picture in letters, a file.
- `<!-- not run: why -->` directly above a block excuses it; `<!-- before: statements -->` is run before a program.
- A command in the text, in backquotes, counts too, if it says more than the command's name.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("flashdqn", "python", "python3", "make", "pip", "source", "cd", "torchrun", "tensorboard")
SHELLS = ("bash", "sh", "shell", "console")

FENCE = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^\1\2 *$", re.S | re.M)
ABOVE = re.compile(r"<!--\s*(not run|before):\s*((?:(?!-->).)*?)\s*-->\s*\Z", re.S)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
COMMENTED = re.compile(r"<!--.*?-->", re.S)


@dataclass(frozen=True)
class Block:
    """A fenced block, and what the comment above it says."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str = ""
    before: str = ""

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_program(self) -> bool:
        return self.language == "python"

    @property
    def holds_commands(self) -> bool:
        return self.language in SHELLS or (not self.language and bool(starts_command(self.text)))


@dataclass(frozen=True)
class Command:
    """One command line, in words."""

    page: Path
    line: int
    words: tuple[str, ...]
    #: in the text rather than in a block: a mention, which may leave out its last value
    mention: bool = False

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def kind(self) -> str:
        """What runs it: `flashdqn train`, `make`, `python benchmarks`."""
        program, first = self.words[0], next(iter(self.words[1:]), "")
        if program == "flashdqn":
            return f"flashdqn {first}"
        return f"{program} {Path(first).parts[0]}" if program.startswith("python") and first else program


def pages() -> list[Path]:
    """README.md, CONTRIBUTING.md and everything in docs/."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, text: str | None = None) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8") if text is None else text
    found = []
    for fence in FENCE.finditer(text):
        above = ABOVE.search(text[: fence.start()].rstrip())
        said = {above[1]: above[2]} if above else {}
        body = "\n".join(line.removeprefix(fence[1]) for line in fence[4].splitlines()) + "\n"
        line = text.count("\n", 0, fence.start()) + 1
        language = fence[3].split()[0] if fence[3].strip() else ""
        found.append(Block(page, line, language, body, said.get("not run", ""), said.get("before", "")))
    return found


def commands(page: Path, text: str | None = None) -> list[Command]:
    """Every command of a page that is not excused: those in blocks, then those in the text."""
    text = page.read_text(encoding="utf-8") if text is None else text
    found: list[Command] = []
    for block in blocks(page, text):
        if block.holds_commands and not block.not_run:
            found += [
                Command(page, block.line + at, words)
                for at, words in command_lines(block.text, block.language in SHELLS)
            ]
    return found + mentions(page, text)


def spans(page: Path, text: str | None = None) -> list[Command]:
    """Everything that stands in backquotes in the text, as words."""
    text = page.read_text(encoding="utf-8") if text is None else text
    prose = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    prose = COMMENTED.sub(lambda comment: "\n" * comment[0].count("\n"), prose)
    return [
        Command(page, prose.count("\n", 0, span.start()) + 1, tuple(span[1].split()), mention=True)
        for span in SPAN.finditer(prose)
        if span[1].split()
    ]


def mentions(page: Path, text: str) -> list[Command]:
    """Commands in the text: a program and at least two words more, or one of make's."""
    found = []
    for span in spans(page, text):
        if (words := starts_command(" ".join(span.words))) and (len(words) > 2 or words[0] == "make"):
            found.append(Command(page, span.line, words, mention=True))
    return found


def command_lines(text: str, shell: bool) -> list[tuple[int, tuple[str, ...]]]:
    """The commands of a block and the lines that they stand on. All else is output, unless a shell would run it."""
    found, waiting, start = [], "", 0
    for at, line in enumerate(text.splitlines(), 1):
        start = start if waiting else at
        waiting += line
        if waiting.endswith("\\"):
            waiting = waiting[:-1] + " "
            continue
        for part in re.split(r"\s+&&\s+", waiting):
            words = starts_command(part)
            if words:
                found.append((start, words))
            elif shell and without_prompt(part):
                found.append((start, tuple(shlex.split(without_prompt(part), comments=True)) or ("",)))
        waiting = ""
    return [(at, words) for at, words in found if words[0]]


def starts_command(text: str) -> tuple[str, ...]:
    """The words of the first line, if it is a command; settings in front of it (`CI=1 make`) are left out."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    line = re.sub(r"^(?:[A-Z_]+=\S+ +)+", "", without_prompt(line.removesuffix("\\")))
    if line.split(maxsplit=1)[:1] == [] or line.split()[0] not in PROGRAMS or not is_ascii_start(line):
        return ()
    try:
        return tuple(shlex.split(line, comments=True))
    except ValueError:  # an apostrophe: a sentence
        return ()


def is_ascii_start(line: str) -> bool:
    """Whether something follows the program that may be an argument, and not the cell of a table."""
    rest = line.split()[1:2]
    return not rest or rest[0] not in ("│", "┃", "|", "=", "is", "was")


def without_prompt(line: str) -> str:
    """As it would be typed."""
    return line.strip().removeprefix("$ ").strip()
