"""The command line: `flashdqn train`, `eval`, `watch` and the others; `COMMANDS` lists them all."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from flashdqn.core.errors import ConfigError, EnvError, FlashDQNError, MemoryShortageError, ToldByLeaderError
from flashdqn.core.guard import end_stuck_process
from flashdqn.core.memory import explain_shortage
from flashdqn.core.ranges import describe_value
from flashdqn.core.safe_path import ignore_settings_files, protect_children
from flashdqn.core.signals import (
    CTRL_C_CODE,
    Interrupt,
    Stopped,
    ignore_stop_signals,
    leave_time_to_save,
    runs_as_command,
    send_swallowed_stops_again,
)
from flashdqn.core.stragglers import end_stragglers
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.core.text import clean_line


def main() -> None:
    """Run a command. A user's mistake becomes one sentence and exit code 2, a failure exit code 1, and a signal 130
    (Ctrl-C) or 75."""
    try:
        with Interrupt(), send_swallowed_stops_again(), end_stuck_process():
            if runs_as_command():
                leave_time_to_save()
            code = flush_output(answer_command(sys.argv[1:]))
            if runs_as_command():  # nothing is left to stop but Python itself
                ignore_stop_signals()
                if sys.argv[1:2] != ["doctor"]:
                    end_stragglers(code)
    except KeyboardInterrupt as error:  # it came while an answer was printed
        code = error.exit_code if isinstance(error, Stopped) else CTRL_C_CODE
    sys.exit(code)


def answer_command(arguments: Sequence[str]) -> int:
    """Run a command, and print what goes wrong; returns the exit code."""
    open_missing_streams()
    try:
        check_working_folder()
        if list(arguments[:1]) != ["doctor"]:  # which runs the user's own script, as Python itself would
            ignore_settings_files()
            protect_children()
        return dispatch_command(arguments)
    except ToldByLeaderError as error:
        return error.exit_code
    except FlashDQNError as error:
        about_files = isinstance(error, EnvError) and not set(arguments[:1]) & set(PLAYING)
        return print_error(error, ConfigError.exit_code if about_files else error.exit_code)
    except KeyboardInterrupt as error:
        print_line(str(error) or "Stopped.")
        return error.exit_code if isinstance(error, Stopped) else CTRL_C_CODE
    except SystemExit as error:
        return check_exit(error, arguments)
    except RecursionError:
        return print_error(FlashDQNError("Something here is nested too deeply for Python."), 1)
    except Exception as error:
        if shortage := explain_shortage(error):
            return print_error(MemoryShortageError(shortage), 1)
        if isinstance(error, OSError):  # for example a full disk
            where = f" ({error.filename})" if error.filename else ""
            return print_error(FlashDQNError(f"{error.strerror or error}{where}."), 1)
        raise


def check_working_folder() -> None:
    """Refuse to work where nothing can be found: many libraries ask for the current folder."""
    try:
        os.getcwd()  # noqa: PTH109 - nothing else is imported yet
    except OSError:
        raise ConfigError("The current folder does not exist any more: change to another one.") from None


def check_exit(error: SystemExit, arguments: Sequence[str]) -> int:
    """The exit code where something has called `sys.exit`: the help and the reader of the flags may; the code of an
    environment or a network cannot make a success of it."""
    code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    if code == ConfigError.exit_code or {"-h", "--help", "--help-all"} & set(arguments):
        return code
    return print_error(FlashDQNError(f"The code that this command runs called sys.exit({error.code!r})."), 1)


def open_missing_streams() -> None:
    """Standard streams that are closed lead to nowhere: else the next file that is opened would become one of
    them. A terminal that cannot show ε must not stop the program."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def flush_output(code: int) -> int:
    """Write what is still held back; an output that cannot be written makes the exit code 1, unless a reader has
    simply gone away."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError) as error:
            from flashdqn.show.terminal import discard_output

            discard_output(stream)
            if not isinstance(error, BrokenPipeError) and stream is sys.stdout:
                code = code or 1
    return code


def print_error(error: FlashDQNError, code: int) -> int:
    """Print the error to standard error; returns the exit code."""
    print_line(clean_line(f"flashdqn: {error}"))
    return code


def print_line(text: str) -> None:
    """Print a line to standard error, if there is anybody to read it. Nothing is imported: memory may be short."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # an environment may have closed Python's own stream
        with suppress(OSError):
            os.write(2, f"{text}\n".encode(errors="replace"))


#: Commands that play games: there, an environment's error is a failure and not a mistake in a file.
PLAYING = ("train", "sweep", "eval", "watch", "plan", "report", "export", "profile")

#: What each command does. `flashdqn NAME` calls `run_command` in `cli/NAME.py`, and imports no other command.
COMMANDS = {
    "train": "train an agent: flashdqn train [PRESET] [options]",
    "sweep": "try settings side by side, and confirm the best on fresh seeds",
    "eval": "play games with a trained agent",
    "watch": "see a trained agent play: in the terminal, the browser, a GIF",
    "plan": "write what an agent did in an episode: which service where and when",
    "report": "one run on a page, or several beside each other",
    "export": "write a trained agent as an ONNX or TorchScript file, and check it",
    "presets": "list the presets, the algorithms and their variants",
    "envs": "list the environments and their settings",
    "fuelbreaks": "plan fuel breaks for your own landscape, or judge a plan of yours",
    "landscapes": "make, check and show the ground that fuel breaks are placed on",
    "cache": "show, check or clear the compiled code on disk",
    "profile": "why a training is as fast as it is, and what would make it faster",
    "doctor": "why is this training slow? For any script with PyTorch",
}

#: What other programs call them, and what it is here.
OTHER_COMMANDS = {
    "run": "train",
    "start": "train",
    "learn": "train",
    "resume": "train --resume RUN",
    "evaluate": "eval",
    "test": "eval",
    "play": "watch",
    "enjoy": "watch",
    "render": "watch",
    "plot": "report",
    "compare": "report RUN RUN",
    "list": "presets",
    "benchmark": "profile",
    "tune": "sweep",
    "optimize": "sweep",
}


def dispatch_command(arguments: Sequence[str]) -> int:
    """Dispatch to a command; returns the exit code."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        show_help()
        return 0
    if arguments[0] in ("--version", "-V", "version"):
        from rich.console import Console

        from flashdqn import __version__

        Console().print(f"flashdqn {__version__}", highlight=False)
        return 0
    if arguments[0] not in COMMANDS:
        raise ConfigError(f"Unknown command {describe_value(arguments[0])}{suggest_command(arguments[0])}")
    command = importlib.import_module(f"flashdqn.cli.{arguments[0]}")
    code: int = command.run_command(list(arguments[1:]))
    return code


def suggest_command(word: str) -> str:
    """What the user may have meant by an unknown command: another name of one, a flag, or what to train on."""
    if word in OTHER_COMMANDS:
        return f"; did you mean 'flashdqn {OTHER_COMMANDS[word]}'?"
    if word.startswith("-"):
        return suggest_nearest(word, ("--help", "--version"))
    hint = suggest_nearest(word, COMMANDS)
    if "did you mean" not in hint:
        from flashdqn.config.given_env import complete_env_name
        from flashdqn.config.presets import PRESETS

        if word in PRESETS or complete_env_name(word) != word:
            return f"; did you mean 'flashdqn train {word}'?"
    return hint


def show_help() -> None:
    """Print the list of commands."""
    from rich.table import Table
    from rich.text import Text

    from flashdqn.show.terminal import SteadyConsole

    table = Table.grid(padding=(0, 2))
    for name, about in COMMANDS.items():
        table.add_row(f"  {name}", Text(about))
    console = SteadyConsole()
    console.print("usage: flashdqn COMMAND [options]\n", highlight=False, markup=False)
    console.print(table, highlight=False)
    console.print("\n`flashdqn COMMAND --help` says more.", highlight=False)
