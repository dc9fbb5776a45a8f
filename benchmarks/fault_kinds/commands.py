"""Hostile command lines: unknown flags, missing values, strange words and numbers, for every command.

Most are dispatched in this process, some by a process of their own, as a shell starts it. Each ends with an exit
code and, if it was refused, with one sentence: never with a traceback.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import subprocess
import sys
from pathlib import Path

from fault_kinds.configs import KEYS, NUMBERS, TEXTS, TimeLimitError, find_bad_message, time_limit
from fault_kinds.tally import Tally, scale_count
from flashdqn.cli.arguments import flag_names
from flashdqn.cli.main import COMMANDS, dispatch_command
from flashdqn.config.presets import base_config
from flashdqn.core.errors import FlashDQNError

LINES = 500
#: One of so many is tried in a process of its own.
APART = 20
#: Seconds that a refusal may take.
LONGEST = 60

#: The flags of the other commands.
FLAGS = {
    "eval": ("episodes", "seed", "device", "json", "trust"),
    "watch": ("checkpoint", "seed", "episodes", "fps", "frame", "width", "gif", "png", "trust"),
    "report": ("out", "trust"),
    "export": ("to", "int8", "out", "checkpoint", "observations", "episodes", "trust"),
    "landscapes": ("count", "size", "seed", "format", "out"),
    "doctor": ("seconds", "html", "json", "python"),
}
STRANGE = (
    "--",
    "-",
    "",
    "---",
    "--=",
    "--x=1",
    "-h=1",
    "=",
    "--help=",
    "*",
    "~",
    "-m",
    "--env",
    "--learn.",
    "\\",
    "%s",
    "{}",
)


def try_faults(effort: float, folder: Path) -> list[Tally]:
    """Dispatch random command lines, in an empty folder that they may write to."""
    random_, tally = random.Random(18), Tally("hostile command lines")
    for number in range(scale_count(LINES, effort, 20)):
        words = make_line(random_)
        apart = number % APART == 0
        reason = call_apart(words, folder) if apart else call_here(words, folder)
        tally.check(reason is None, f"flashdqn {' '.join(map(repr, words))[:400]}: {reason}")
    return [tally]


def make_line(random_: random.Random) -> list[str]:
    """The words of a command line that cannot succeed at much: no run is there to read, and no budget is small."""
    command = random_.choice([*COMMANDS, *COMMANDS, *COMMANDS, "", "-x", "trian", "\x1b[2J", "a" * 5000])
    words = [command]
    if command == "landscapes":
        words.append(random_.choice(("check", "show", "", "mak")))
    elif command in ("train", "profile"):
        words.append(
            random_.choice(("snake", "snake-flood", "sfc", "gym:CartPole-v1", "", "nothing", "gym:", "a:b"))
        )
    elif command != "doctor" and random_.random() < 0.8:
        words.append(random_.choice(("no-such-run", ".", "", "/dev/null", "a" * 5000, "a\udcffb")))
    for _ in range(random_.randrange(5)):
        words += make_words(random_, command)
    if command in ("train", "profile"):  # nothing is trained, whatever else the line says
        words += ["--steps", random_.choice(("0", "-1", "nan", "x", "1e9", str(2**70)))]
    return [word.replace("\0", "") for word in words]


def make_words(random_: random.Random, command: str) -> list[str]:
    """A flag with or without a value, or something else."""
    if random_.random() < 0.15:
        return [random_.choice(STRANGE)]
    names = FLAGS.get(command, ("help",))
    if command in ("train", "profile"):
        names = (*flag_names(base_config("snake")), "config", "algo", "trust")
    name = random_.choice((*names, *names, *names, *KEYS, "nothing"))
    value = str(random_.choice((*NUMBERS[:40], *TEXTS))) if random_.random() < 0.9 else ""
    form = random_.randrange(6)
    if form == 0:
        return [f"--{name}"]
    return [f"--{name}={value}"] if form == 1 else [f"--{name}", value]


def call_here(words: list[str], folder: Path) -> str | None:
    """What went wrong with a command line; None if it ended as it should."""
    before, output = Path.cwd(), io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), time_limit(LONGEST):
            dispatch_command(words)
    except FlashDQNError as error:
        fault = find_bad_message(str(error))
        return None if fault is None else str(fault)
    except (SystemExit, OSError):  # --help; `main` writes an OSError as one sentence
        return None
    except TimeLimitError:
        return f"still working after {LONGEST} s"
    except BaseException as error:
        return repr(error)
    finally:
        os.chdir(before)
    return None


def call_apart(words: list[str], folder: Path) -> str | None:
    """The same in a process of its own, with its exit code."""
    command = [sys.executable, "-m", "flashdqn", *words]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=4 * LONGEST, check=False)
    except subprocess.TimeoutExpired:
        return f"still working after {4 * LONGEST} s"
    except OSError as error:  # a line that the system itself refuses
        return None if error.errno else repr(error)
    if b"Traceback" in done.stderr or done.returncode not in (0, 1, 2):
        return f"exit code {done.returncode}: {done.stderr[-300:]!r}"
    return None
