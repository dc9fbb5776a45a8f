"""The command line: `flashdqn train`, `eval`, `watch` and the others; `COMMANDS` lists them all."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flashdqn.core.errors import ConfigError, DivergedError, FlashDQNError
from flashdqn.core.safe_path import ignore_settings_files, protect_children
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.core.text import clean_line
from flashdqn.show.terminal import SteadyConsole, discard_output


def main() -> None:
    """Run a command; a user's mistake becomes one sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show ε must not stop the program
    try:
        if sys.argv[1:2] != ["doctor"]:  # which runs the user's own script, as Python itself would
            ignore_settings_files()
            protect_children()
        code = dispatch_command(sys.argv[1:])
    except DivergedError as error:
        code = print_error(error, 1)
    except FlashDQNError as error:
        code = print_error(error, 2)
    except KeyboardInterrupt:
        Console(stderr=True).print("Stopped.")
        code = 130
    except OSError as error:  # for example a full disk
        where = f" ({error.filename})" if error.filename else ""
        code = print_error(FlashDQNError(f"{error.strerror or error}{where}."), 1)
        discard_output()
    sys.exit(code)


def print_error(error: FlashDQNError, code: int) -> int:
    """Print the error to standard error; returns the exit code."""
    line = clean_line(f"flashdqn: {' '.join(str(error).splitlines())}")
    Console(stderr=True, soft_wrap=True).print(line, markup=False, highlight=False)
    return code


#: What each command does. `flashdqn NAME` calls `run_command` in `cli/NAME.py`, and imports no other command.
COMMANDS = {
    "train": "train an agent: flashdqn train [PRESET] [options]",
    "eval": "play games with a trained agent",
    "watch": "see a trained agent play: in the terminal, the browser, a GIF",
    "report": "one run on a page, or several beside each other",
    "export": "write a trained agent as an ONNX or TorchScript file, and check it",
    "presets": "list the presets, the algorithms and their variants",
    "envs": "list the environments and their settings",
    "landscapes": "make, check and show the ground that fuel breaks are placed on",
    "profile": "why a training is as fast as it is, and what would make it faster",
    "doctor": "why is this training slow? For any script with PyTorch",
}


def dispatch_command(arguments: Sequence[str]) -> int:
    """Dispatch to a command; returns the exit code."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        table = Table.grid(padding=(0, 2))
        for name, about in COMMANDS.items():
            table.add_row(f"  {name}", Text(about))
        console = SteadyConsole()
        console.print("usage: flashdqn COMMAND [options]\n", highlight=False, markup=False)
        console.print(table, highlight=False)
        console.print("\n`flashdqn COMMAND --help` says more.", highlight=False)
        return 0
    if arguments[0] == "--version":
        from flashdqn import __version__

        Console().print(f"flashdqn {__version__}", highlight=False)
        return 0
    if arguments[0] not in COMMANDS:
        raise ConfigError(f"Unknown command '{arguments[0]}'{suggest_nearest(arguments[0], COMMANDS)}")
    command = importlib.import_module(f"flashdqn.cli.{arguments[0]}")
    code: int = command.run_command(list(arguments[1:]))
    return code
