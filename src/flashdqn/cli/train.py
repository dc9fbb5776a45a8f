"""`flashdqn train`, and functions that read a training's settings from the command line."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from flashdqn.cli.arguments import Trust, flag_names, flag_value, parse, read_permission
from flashdqn.config import Config
from flashdqn.config.settings import (
    BUDGETS,
    apply_settings,
    drop_old_budget,
    list_named_code,
    list_receivers,
    read_settings_file,
)
from flashdqn.core.errors import ConfigError
from flashdqn.core.user_code import NO_PERMISSION, Permission, find_names
from flashdqn.learn.algorithms import ALGORITHMS, apply_algorithm
from flashdqn.show.terminal import SteadyConsole, show_summary

DEFAULT_PRESET = "snake-flood"
ALGO_HELP = f"An algorithm on top of the preset: {', '.join(ALGORITHMS)}; a file and flags come on top of it."


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

    Ctrl-C finishes the iteration, saves, and says how to continue; a second Ctrl-C stops at once. SIGTERM, SIGHUP,
    SIGQUIT, SIGXCPU, SIGUSR1 and SIGUSR2 save and leave in the same way.
    Exit codes: 0 the budget is spent; 1 a failure of the environment, the numbers, the disk or the memory; 2 a
    mistake in the command or the settings; 75 a signal has ended it: resume it; 130 Ctrl-C has.
    """

    training: Annotated[Config, tyro.conf.arg(name="")]
    algo: Annotated[str | None, tyro.conf.arg(metavar="NAME", help=ALGO_HELP)] = None
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE.json|FILE.toml")] = None
    """Settings from a file, for example a run's config.json; flags given here come on top."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Continue a run with its own settings; a new budget may be given. Or continue from one of its checkpoints:
    everything after that checkpoint is done again."""
    trust: Trust = False


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn train`."""
    from flashdqn.api import check_resume
    from flashdqn.show.report import make_run_pages
    from flashdqn.training.progress import choose_progress
    from flashdqn.training.session import resume_run, start_run

    permission, arguments = read_permission(arguments, preset=True)
    permission.allow_working_folder()
    base, resume, rest = resolve_base_config(arguments, permission)
    config = parse_training(base, rest)
    check_receivers(config, arguments, permission)
    console = SteadyConsole(always=True, soft_wrap=sys.stdout is None or not sys.stdout.isatty())
    progress = choose_progress(console)
    if resume is not None:
        done = resume_run(check_resume(base, config), resume, progress, make_run_pages(config))
    else:
        done = start_run(config, progress, make_run_pages(config))
    show_summary(console, done)
    return done.exit_code


def resolve_base_config(
    arguments: list[str], permission: Permission = NO_PERMISSION
) -> tuple[Config, Path | None, list[str]]:
    """The settings that the flags are applied to: a run's, or a preset's with an algorithm and a file on top. A
    file may import only what is permitted."""
    from flashdqn.config.presets import base_config
    from flashdqn.runs.folder import RunFolder

    named = arguments[0] if arguments and not arguments[0].startswith("-") else None
    resume, file = flag_value(arguments, "--resume"), flag_value(arguments, "--config")
    algo = flag_value(arguments, "--algo")
    if resume is not None:
        if named or file or algo:
            raise ConfigError(
                "--resume takes its settings from the run: leave out the preset, --algo and --config."
            )
        return RunFolder.open(Path(resume)).config(permission), Path(resume), arguments
    settings = read_settings_file(Path(file)) if file is not None else {}
    settings, default = translate_file_settings(settings, named)
    preset = str(settings.get("preset", default))
    if named is None and file is not None:
        permission.require(find_names(preset.removeprefix("own:").removeprefix("gym:")), Path(file))
    base = base_config(named or preset)
    if algo := algo or settings.get("algo"):
        base = apply_algorithm(base, str(algo))
    settings = {k: v for k, v in settings.items() if k not in ("preset", "algo") and v is not None}
    config = apply_settings(base, settings)
    if file is not None:
        own = list_named_code(base) if named else ()  # what the first word of this command line names
        permission.require([name for name in list_named_code(config) if name not in own], Path(file))
    return config, None, arguments[1:] if named else arguments


def check_receivers(config: Config, arguments: list[str], permission: Permission) -> None:
    """Refuse to send figures where only a file says so."""
    file = flag_value(arguments, "--resume") or flag_value(arguments, "--config")
    if file is not None:
        permission.require_sending(list_receivers(config), Path(file))


def translate_file_settings(settings: dict[str, Any], named: str | None) -> tuple[dict[str, Any], str]:
    """A file's settings and their preset. Names from other tools are translated if it is known what they are for;
    each translation is printed."""
    from flashdqn.cli.other_tools import (
        find_claimed_preset,
        refuse_unclear_keys,
        translate_settings,
        uses_other_tool_keys,
    )

    if not uses_other_tool_keys(settings):
        return settings, DEFAULT_PRESET
    claimed = find_claimed_preset(settings)
    if not (claimed or named or settings.get("preset")):
        refuse_unclear_keys(settings)
    settings, notes = translate_settings(settings)
    if claimed and not named and "preset" not in settings:
        notes.insert(0, f"The file is for the preset {claimed}")
    console = SteadyConsole(soft_wrap=True)
    for note in notes:
        console.print(note, markup=False, highlight=False)
    return settings, claimed or DEFAULT_PRESET


def parse_training(base: Config, arguments: list[str]) -> Config:
    """Apply the flags to `base`."""
    known = ["algo", "config", "resume", "trust", "train-steps-ratio", *flag_names(base)]
    parsed = parse("train [PRESET]", TrainArguments, arguments, known, TrainArguments(training=base))
    return replace_budget(parsed.training, arguments)


def replace_budget(config: Config, arguments: list[str]) -> Config:
    """Let a budget among the flags replace the preset's."""
    flags = {
        word.partition("=")[0].lstrip("-").replace("-", "_") for word in arguments if word.startswith("--")
    }
    given = {name: getattr(config, name) for name in BUDGETS if name in flags}
    return dataclasses.replace(config, **drop_old_budget(given)) if given else config
