"""Help on one page: the flags that matter, and the others by group."""

from __future__ import annotations

import dataclasses
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flashdqn.cli.flags import Flag
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import describe_value
from flashdqn.core.suggestions import suggest_nearest

HELP, HELP_ALL = ("-h", "--help"), "--help-all"

#: The name of the settings that belong to no group.
GENERAL = "run"
#: The width of the page without a terminal, and the widest.
USUAL_WIDTH, WIDEST = 80, 100
#: Columns of a flag with what it takes, in the list of all; longer ones have a line of their own.
NAME_WIDTH = 30


@dataclass(frozen=True)
class HelpPage:
    """The first page of a command's help."""

    usage: str
    about: str
    examples: tuple[str, ...]
    #: a title, and the flags below it, each with a short text
    sections: tuple[tuple[str, dict[str, str]], ...]
    end: str = ""
    #: lines below the flags, as they are
    more: tuple[str, ...] = ()


def wants_help(arguments: Sequence[str]) -> bool:
    """Whether the words ask for help."""
    return any(word in (*HELP, HELP_ALL) for word in arguments)


def write_help(page: HelpPage, flags: list[Flag], arguments: Sequence[str]) -> str:
    """The help that the words ask for: the page, `--help GROUP`, or `--help-all`."""
    width = min(WIDEST, shutil.get_terminal_size((USUAL_WIDTH, 24)).columns)
    if HELP_ALL in arguments:
        return "\n\n".join(write_group(name, flags, width) for name in list_groups(flags))
    at = next(i for i, word in enumerate(arguments) if word in HELP)
    asked = arguments[at + 1] if at + 1 < len(arguments) else "-"
    return write_page(page, flags, width) if asked.startswith("-") else write_topic(asked, flags, width)


def list_groups(flags: list[Flag]) -> list[str]:
    """The groups of settings, in their order."""
    return list(dict.fromkeys(flag.group or GENERAL for flag in flags))


def write_topic(asked: str, flags: list[Flag], width: int) -> str:
    """The flags of a group, or all whose name has the word in it."""
    groups = list_groups(flags)
    if asked in groups:
        return write_group(asked, flags, width)
    found = [flag for flag in flags if asked.strip("-") in flag.name]
    if not found:
        raise ConfigError(f"There is no help about {describe_value(asked)}{suggest_nearest(asked, groups)}")
    return "\n".join(write_flag(flag, width) for flag in found)


def write_page(page: HelpPage, flags: list[Flag], width: int) -> str:
    """The first page."""
    by_name = {flag.name: flag for flag in flags}
    lines = [
        f"usage: {page.usage}",
        "",
        *textwrap.wrap(page.about, width),
        *(f"  {e}" for e in page.examples),
    ]
    for title, texts in page.sections:
        lines += ["", title]
        for name, text in texts.items():
            flag = by_name[name]
            left = f"  --{flag.short or name} {flag.metavar}".rstrip()
            value = show_value(flag)
            shown = f"{text} ({value})" if value else text
            lines += textwrap.wrap(shown, width, initial_indent=f"{left:<24} ", subsequent_indent=" " * 25)
    lines += ["", *page.more] if page.more else []
    groups = " ".join(list_groups(flags))
    more = f"More: --help GROUP lists a group of settings, --help-all all of them. Groups: {groups}."
    return "\n".join([*lines, "", *textwrap.wrap(more, width), *textwrap.wrap(page.end, width)])


def write_group(group: str, flags: list[Flag], width: int) -> str:
    """All flags of a group."""
    chosen = [flag for flag in flags if (flag.group or GENERAL) == group]
    return "\n".join([group, *(write_flag(flag, width) for flag in chosen)])


def write_flag(flag: Flag, width: int) -> str:
    """A flag, what it takes, what it does, and its value now."""
    is_switch = flag.rule.kind is bool
    names = [f"--{name}" for name in (flag.name, flag.short, *flag.aliases) if name]
    if is_switch and flag.group:
        group, dot, name = flag.name.rpartition(".")
        names = [f"--{group}{dot}[no-]{name}"]
    head = f"  {', '.join(names)} {flag.metavar}".rstrip()
    text = f"{flag.about} ({show_value(flag) or 'none'})"
    indent = " " * (NAME_WIDTH + 2)
    body = textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    if len(head) <= NAME_WIDTH and body:
        body[0] = f"{head:<{NAME_WIDTH}}  {body[0].lstrip()}"
        return "\n".join(body)
    heads = textwrap.wrap(head, width, initial_indent="", subsequent_indent="      ", break_on_hyphens=False)
    return "\n".join([*split_choices(heads, width), *body])


def split_choices(lines: list[str], width: int) -> list[str]:
    """Lines that are too long are split at their bars."""
    out: list[str] = []
    for line in lines:
        while len(line) > width and (cut := line.rfind("|", 0, width)) > 0:
            out.append(line[: cut + 1])
            line = "      " + line[cut + 1 :]
        out.append(line)
    return out


def show_value(flag: Flag) -> str:
    """The value of a setting without the flag; empty: there is none."""
    value: Any = flag.value
    if value is None or value is dataclasses.MISSING or value in ("", (), {}):
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return (
        f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
    )
