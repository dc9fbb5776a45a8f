"""The command line: `flashdqn train`, `eval`, `watch` and the others; `run` has them all."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flashdqn.config import Config
from flashdqn.config_io import BUDGETS, apply, drop_old_budget, nearest, read_file
from flashdqn.errors import ConfigError, DivergedError, FlashDQNError
from flashdqn.show.terminal import SteadyConsole, discard_output, show_summary

DEFAULT_PRESET = "snake-flood"


@dataclass(frozen=True)
class TrainArguments:
    """Train an agent.

    Start from a PRESET (`flashdqn presets` lists them) and change what you like:
      flashdqn train snake-flood
      flashdqn train snake --max-time 60s --env.size 12 --replay.n-step 3
      flashdqn train snake --train-ratio balanced --seed 7 --out results
      flashdqn train snake-flood --algo rainbow --learn.v-max 200
      flashdqn train gym:CartPole-v1 --steps 100000
      flashdqn train my_module:make_env --env.kwargs '{"level": 2}'
      flashdqn train --resume runs/snake-20261115-120000 --steps 5000000

    Ctrl-C finishes the iteration, saves, and says how to go on; a second one stops at once.
    """

    training: Annotated[Config, tyro.conf.arg(name="")]
    algo: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """An algorithm on top of the preset: dqn, double, dueling, per, noisy, c51, qr-dqn, iqn, munchausen, rainbow; a
    file and flags come on top of it."""
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE.json|FILE.toml")] = None
    """Settings from a file; flags given here come on top. A run's config.json will do."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Go on with a run, with its own settings; a new budget may be given. Or from one checkpoint of it: what came
    after that is then done again."""


@dataclass(frozen=True)
class EvalArguments:
    """Play games with a trained agent, without exploration, and say how well it does."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """A run folder (its best checkpoint plays), or one checkpoint in it."""
    episodes: int = 100
    """Games to play, each on a board of its own."""
    seed: int | None = None
    """Seed of the games; by default one that training has not used."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to play."""
    json: bool = False
    """Print JSON."""


def main() -> None:
    """Run a command; a mistake of the user's is one sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ε is no reason to stop
    try:
        code = run(sys.argv[1:])
    except DivergedError as error:
        code = complain(error, 1)
    except FlashDQNError as error:
        code = complain(error, 2)
    except KeyboardInterrupt:
        Console(stderr=True).print("Stopped.")
        code = 130
    except OSError as error:  # a full disk, say
        where = f" ({error.filename})" if error.filename else ""
        code = complain(FlashDQNError(f"{error.strerror or error}{where}."), 1)
        discard_output()
    sys.exit(code)


def complain(error: FlashDQNError, code: int) -> int:
    """Say what is wrong on the standard error."""
    Console(stderr=True, soft_wrap=True).print(f"flashdqn: {error}", markup=False, highlight=False)
    return code


def run(arguments: Sequence[str]) -> int:
    """Dispatch to a command; returns the exit code."""
    commands: dict[str, tuple[Callable[[list[str]], int], str]] = {
        "train": (train, "train an agent: flashdqn train [PRESET] [options]"),
        "eval": (evaluate, "play games with a trained agent"),
        "watch": (watch, "see a trained agent play: in the terminal, the browser, a GIF"),
        "report": (report, "one run on a page, or several beside each other"),
        "export": (export, "write a trained agent as an ONNX or TorchScript file, and check it"),
        "presets": (presets, "list the presets and the algorithms"),
        "envs": (envs, "list the environments and their settings"),
        "landscapes": (landscapes, "make, check and show the ground that fuel breaks are placed on"),
        "profile": (profile, "why a training is as fast as it is, and what would make it faster"),
        "doctor": (doctor, "why is this training slow? For any script with PyTorch"),
    }
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        table = Table.grid(padding=(0, 2))
        for name, (_, about) in commands.items():
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
    if arguments[0] not in commands:
        raise ConfigError(f"Unknown command '{arguments[0]}'{nearest(arguments[0], commands)}")
    return commands[arguments[0]][0](list(arguments[1:]))


def train(arguments: list[str]) -> int:
    """`flashdqn train`."""
    from flashdqn.api import check_resume
    from flashdqn.train.progress import progress_for
    from flashdqn.train.session import resume_run, start_run

    sys.path.append(str(Path.cwd()))  # as `python -m` does: a module of the user's may lie here
    base, resume, rest = starting_point(arguments)
    config = parse_training(base, rest)
    console = SteadyConsole(soft_wrap=sys.stdout is None or not sys.stdout.isatty())
    progress = progress_for(console)
    if resume is not None:
        done = resume_run(check_resume(base, config), resume, progress)
    else:
        done = start_run(config, progress)
    show_summary(console, done)
    return 0 if done.finished else 130


def starting_point(arguments: list[str]) -> tuple[Config, Path | None, list[str]]:
    """The settings that the flags are applied to: a run's, or a preset's with an algorithm and a file on top."""
    from flashdqn.algorithms import with_algorithm
    from flashdqn.presets import base_config
    from flashdqn.train.run import RunFolder

    named = arguments[0] if arguments and not arguments[0].startswith("-") else None
    resume, file = flag_value(arguments, "--resume"), flag_value(arguments, "--config")
    algo = flag_value(arguments, "--algo")
    if resume is not None:
        if named or file or algo:
            raise ConfigError(
                "--resume takes its settings from the run: leave out the preset, --algo and --config."
            )
        return RunFolder.open(Path(resume)).config(), Path(resume), arguments
    settings = read_file(Path(file)) if file is not None else {}
    settings, default = familiar_settings(settings)
    base = base_config(named or str(settings.get("preset", default)))
    if algo := algo or settings.get("algo"):
        base = with_algorithm(base, str(algo))
    settings = {k: v for k, v in settings.items() if k not in ("preset", "algo") and v is not None}
    return apply(base, settings), None, arguments[1:] if named else arguments


def familiar_settings(settings: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """A file's settings, and the preset that they are for; names from fuel-break trainers are translated, aloud."""
    from flashdqn.envs.fuelbreaks.familiar import is_familiar, translate

    if not is_familiar(settings):
        return settings, DEFAULT_PRESET
    settings, notes = translate(settings)
    console = SteadyConsole(soft_wrap=True)
    for note in notes:
        console.print(note, markup=False, highlight=False)
    return settings, "fuelbreaks"


def parse_training(base: Config, arguments: list[str]) -> Config:
    """Flags on top of `base`."""
    known = ["algo", "config", "resume", "train-steps-ratio", *flag_names(base)]
    parsed = parse("train [PRESET]", TrainArguments, arguments, known, TrainArguments(training=base))
    return new_budget(parsed.training, arguments)


def new_budget(config: Config, arguments: list[str]) -> Config:
    """A budget among the flags replaces the preset's."""
    flags = {
        word.partition("=")[0].lstrip("-").replace("-", "_") for word in arguments if word.startswith("--")
    }
    given = {name: getattr(config, name) for name in BUDGETS if name in flags}
    return dataclasses.replace(config, **drop_old_budget(given)) if given else config


def parse(command: str, kind: Any, arguments: list[str], known: list[str], default: Any = None) -> Any:
    """Arguments as a dataclass; what tyro has to complain of becomes one sentence."""
    more = {} if default is None else {"default": default}
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            parsed, unknown = tyro.cli(
                kind, prog=f"flashdqn {command}", args=arguments, return_unknown_args=True, **more
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        advice = f"`flashdqn {command.split()[0]} --help` says what is allowed"
        text = first_paragraph(complaint.getvalue()).rstrip(".")
        if found := re.match(r"Error parsing (--[\w.-]+):", text):
            text = f"{found[1]} cannot be '{flag_value(arguments, found[1])}'"
        raise ConfigError(f"{text}; {advice}.") from None
    refuse_unknown(command.split()[0], unknown, known)
    return parsed


def first_paragraph(box: str) -> str:
    """What tyro says in the first part of its box, on one line. Where the output is not UTF-8 the box has no
    sides, and its rules are of hyphens."""
    lines = (line.strip("│╰─╯- ") for line in box.splitlines()[1:])
    parts = itertools.groupby(lines, key=bool)
    return " ".join(next((group for is_text, group in parts if is_text), ()))


def refuse_unknown(command: str, unknown: list[str], known: list[str]) -> None:
    """Name the first word that nothing understands, and the flag that was perhaps meant."""
    if not unknown:
        return
    word = next((word for word in unknown if word.startswith("-")), unknown[0]).partition("=")[0]
    if not word.startswith("-"):
        order = (
            "the preset comes first, then the flags"
            if command in ("train", "profile")
            else "it takes one run"
        )
        raise ConfigError(f"'{word}' is one word too many: {order}.")
    hint = nearest(word.replace("_", "-"), [f"--{name}" for name in known])
    hint = hint if "did you mean" in hint else f"; `flashdqn {command} --help` lists them all."
    raise ConfigError(f"Unknown flag '{word}'{hint}")


def flag_names(config: Any, prefix: str = "") -> list[str]:
    """Every setting as its flag spells it."""
    names: list[str] = []
    for field in dataclasses.fields(config):
        value, name = getattr(config, field.name), f"{prefix}{field.name.replace('_', '-')}"
        names += flag_names(value, f"{name}.") if dataclasses.is_dataclass(value) else [name]
    return names


def flag_value(arguments: list[str], flag: str) -> str | None:
    """The value of a flag that must be known before the others can be read."""
    for i, word in enumerate(arguments):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
        if word == flag:
            if i + 1 == len(arguments):
                raise ConfigError(f"{flag} needs a value.")
            return arguments[i + 1]
    return None


def evaluate(arguments: list[str]) -> int:
    """`flashdqn eval`."""
    from flashdqn.agent import load
    from flashdqn.train.progress import evaluation_text

    sys.path.append(str(Path.cwd()))
    known = [field.name for field in dataclasses.fields(EvalArguments)][1:]
    parsed = parse("eval", EvalArguments, arguments, known)
    if parsed.episodes < 1:
        raise ConfigError(f"--episodes must be at least 1, and is {parsed.episodes}.")
    result = load(parsed.run, parsed.device).evaluate(parsed.episodes, parsed.seed)
    console = SteadyConsole(soft_wrap=True)
    if parsed.json:
        console.print(json.dumps(result.to_json()), highlight=False, markup=False)
        return 0
    console.print(evaluation_text(result).removeprefix("evaluation: "), highlight=False)
    rows = {"mean return": result.mean_return, "mean length": result.mean_length, **result.outcomes}
    for name, value in rows.items():
        console.print(f"  {name:<12} {value:.4g}", highlight=False)
    return 0


def presets(arguments: list[str]) -> int:
    """`flashdqn presets`."""
    from flashdqn.algorithms import ALGORITHMS
    from flashdqn.presets import PRESETS

    refuse_arguments("presets", arguments)
    table = Table.grid(padding=(0, 2))
    for name, preset in PRESETS.items():
        table.add_row(f"[bold]{name}[/]", preset.about)
    table.add_row("\n[bold]with --algo[/]", "\nan algorithm instead of the preset's own")
    for name, algorithm in ALGORITHMS.items():
        table.add_row(f"[bold]{name}[/]", algorithm.about)
    SteadyConsole().print(table, highlight=False)
    return 0


def envs(arguments: list[str]) -> int:
    """`flashdqn envs`."""
    from flashdqn.envs import ENVS

    refuse_arguments("envs", arguments)
    console = SteadyConsole(soft_wrap=True)
    for name, (settings, about) in ENVS.items():
        console.print(f"[bold]{name}[/]  {about}", highlight=False)
        for key, value in vars(settings()).items():
            console.print(f"    --env.{key.replace('_', '-')} {value}", highlight=False)
    return 0


def export(arguments: list[str]) -> int:
    """`flashdqn export`."""
    from flashdqn import cli_export

    return cli_export.export(arguments)


def landscapes(arguments: list[str]) -> int:
    """`flashdqn landscapes`."""
    from flashdqn import cli_landscapes

    return cli_landscapes.landscapes(arguments)


def profile(arguments: list[str]) -> int:
    """`flashdqn profile`."""
    from flashdqn import cli_profile

    return cli_profile.profile(arguments)


def watch(arguments: list[str]) -> int:
    """`flashdqn watch`."""
    from flashdqn import cli_watch

    return cli_watch.watch(arguments)


def report(arguments: list[str]) -> int:
    """`flashdqn report`."""
    from flashdqn import cli_report

    return cli_report.report(arguments)


def doctor(arguments: list[str]) -> int:
    """`flashdqn doctor`."""
    from flashdqn import cli_doctor

    return cli_doctor.doctor(arguments)


def refuse_arguments(command: str, arguments: list[str]) -> None:
    """For commands that take none."""
    if arguments and arguments[0] not in ("-h", "--help"):
        raise ConfigError(f"`flashdqn {command}` takes no arguments, and got '{arguments[0]}'.")
