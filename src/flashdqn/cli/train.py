"""`flashdqn train`, and functions that read a training's settings from the command line."""

from __future__ import annotations

import dataclasses
import sys
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from flashdqn.as_gymnasium.names import register_gymnasium_envs
from flashdqn.cli.arguments import Trust, flag_names, flag_value, parse, read_permission
from flashdqn.cli.flags import list_flags
from flashdqn.cli.help import HelpPage, wants_help, write_help
from flashdqn.cli.latest import check_exists
from flashdqn.cli.launch_ranks import find_place, launch_ranks, read_rank_count
from flashdqn.cli.other_tools import translate_settings, uses_other_tool_keys
from flashdqn.compute.compile_ahead import compile_early, start_early
from flashdqn.config import Config
from flashdqn.config.given_env import complete_env_name
from flashdqn.config.names import SHORT_NAMES
from flashdqn.config.schedules import SCHEDULES, apply_shares, parse_share, scale_schedules
from flashdqn.config.settings import (
    BUDGETS,
    apply_settings,
    drop_old_budget,
    flatten_keys,
    list_named_code,
    list_receivers,
    read_settings_file,
)
from flashdqn.config.training import check_resume
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import Between
from flashdqn.core.signals import runs_as_command
from flashdqn.core.user_code import NO_PERMISSION, Permission, find_names
from flashdqn.learn.algorithms import ALGORITHMS, apply_algorithm
from flashdqn.show.terminal import SteadyConsole, show_summary
from flashdqn.training.clock import RunClock, measure_process_age
from flashdqn.training.compile_budget import guess_kernels
from flashdqn.training.compile_games import plan_games
from flashdqn.training.progress import Progress, choose_progress
from flashdqn.training.rehearse import plan_rehearsals

if TYPE_CHECKING:
    from flashdqn.compute.ranks import Ranks
    from flashdqn.core.rank_place import RankPlace
    from flashdqn.training.summary import SessionEnd

DEFAULT_PRESET = "snake-flood"
ALGO_HELP = f"An algorithm on top of the preset: {', '.join(ALGORITHMS)}; a file and flags come on top of it."


@dataclass(frozen=True)
class TrainArguments:
    """Train an agent: a preset's settings and what the flags change."""

    training: Annotated[Config, tyro.conf.arg(name="")]
    algo: Annotated[str | None, tyro.conf.arg(metavar="NAME", help=ALGO_HELP)] = None
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Settings from a JSON or TOML file, for example a run's config.json; flags given here come on top."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Continue a run with its own settings; a new budget may be given. Or continue from one of its checkpoints:
    everything after that checkpoint is done again."""
    ranks: Annotated[int, tyro.conf.arg(metavar="N"), Between(1, 4096)] = 1
    """Train in this many processes on this machine: each plays its share of the boards, and they learn together.
    For several machines start with torchrun instead (docs/scaling-out.md)."""
    launcher: Literal["local", "ray"] = "local"
    """Where the training runs. local: here. ray: on Ray Train's workers, each of which is a rank (docs/ray.md)."""
    workers: Annotated[str, tyro.conf.arg(metavar="N|N:N")] = "1"
    """Workers of Ray Train: 8, or from 2 to 8, as many as there are: 2:8."""
    ray_address: Annotated[str, tyro.conf.arg(metavar="HOST:PORT")] = ""
    """The Ray cluster; empty: RAY_ADDRESS, else a Ray that is started on this machine."""
    ray_storage: Annotated[str, tyro.conf.arg(metavar="FOLDER|URI")] = ""
    """Where Ray keeps checkpoints: a place that all machines reach; empty: a folder beside the runs."""
    retries: Annotated[int, tyro.conf.arg(metavar="N"), Between(0, 10**6)] = 3
    """How often Ray goes on from the last checkpoint when a worker is lost."""
    trust: Trust = False


HELP_PAGE = HelpPage(
    "flashdqn train [PRESET] [options]",
    "Train an agent. `flashdqn presets` lists the presets; CartPole-v1 is a Gymnasium environment, module:Name "
    "your own. Every setting is a flag:",
    (
        "flashdqn train snake-flood",
        "flashdqn train snake --max-time 60s --env.size 12 --replay.n-step 3",
        "flashdqn train CartPole-v1 --steps 100k --lr 1e-3 --hidden 256,256",
        "flashdqn train --resume runs/snake-20261115-120000 --steps 5M",
    ),
    (
        (
            "The flags that matter, and their values here:",
            {
                "steps": "stop after this many transitions: 50000, 1e5, 100k",
                "max-time": "stop after this much training: 90s, 1.5m, 2h",
                "algo": "dqn, double, rainbow, …: `flashdqn presets`",
                "envs": "environments that are played at once",
                "learn.lr": "learning rate",
                "learn.gamma": "discount per step",
                "learn.batch-size": "transitions in a gradient step",
                "network.hidden": "sizes of the hidden layers",
                "seed": "seed of all random numbers",
                "device": "where everything runs",
            },
        ),
        (
            "Runs and files:",
            {
                "resume": "continue a run, with its settings and perhaps a new budget",
                "ranks": "train in several processes on this machine",
                "config": "settings from a file, such as a run's config.json",
                "out": "folder for the run folders",
            },
        ),
    ),
    "Ctrl-C saves and says how to go on. Exit codes: 0 done, 1 failure, 2 mistake, 75 signal (resume it), 130 "
    "Ctrl-C.",
)


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn train`."""
    if wants_help(arguments):
        print_help(HELP_PAGE, TrainArguments, arguments)
        return 0
    clock = RunClock(time.perf_counter() - (measure_process_age() if runs_as_command() else 0.0))
    given = list(arguments)
    permission, arguments = read_permission(arguments, preset=True)
    permission.allow_working_folder()
    base, resume, rest = resolve_base_config(arguments, permission)
    config, count = parse_training(base, rest), read_rank_count(rest)
    check_receivers(config, arguments, permission)
    if resume is not None:
        check_resume(base, config)
    if flag_value(rest, "--launcher") == "ray":
        return train_with_ray(base, config, rest, resume, permission)
    refuse_ray_flags(rest)
    if count > 1:
        return launch_ranks(config, given, count)
    place = find_place(config)
    if place is not None:
        return train_as_rank(config, resume, place, clock, permission)
    console = SteadyConsole(always=True, soft_wrap=sys.stdout is None or not sys.stdout.isatty())
    progress = choose_progress(console)
    progress.prepare()  # before PyTorch is imported
    start_compiler(config)
    try:
        done = run_training(config, resume, progress, clock)
    finally:
        progress.prepared()
    show_summary(console, done)
    return done.exit_code


def train_with_ray(
    base: Config, config: Config, arguments: list[str], resume: Path | None, permission: Permission
) -> int:
    """Train on a Ray cluster; returns the exit code."""
    from flashdqn.cluster.ray_link import check_reachable, find_address, import_ray

    asked = parse_arguments(base, take_share_flags(arguments)[0])
    if asked.ranks > 1:
        raise ConfigError("--ranks is for this machine: with --launcher ray, give --workers.")
    console = SteadyConsole(always=True, soft_wrap=sys.stdout is None or not sys.stdout.isatty())
    import_ray()
    check_reachable(find_address(asked.ray_address))
    from flashdqn.cluster.ray_train import RayOptions, check_workers, parse_workers, train_on_ray
    from flashdqn.runs.output import check_output_folder

    workers = parse_workers(asked.workers)
    check_workers(config, workers)
    check_output_folder(config.out)
    progress = choose_progress(console)
    progress.note(f"Starting Ray with {asked.workers} workers")
    options = RayOptions(workers, asked.ray_address, asked.retries, asked.ray_storage)
    own = permission.everything or bool(permission.names)
    try:
        done = train_on_ray(config, resume, progress, options, own)
    finally:
        progress.prepared()
        progress.end()
    show_summary(console, done)
    return done.exit_code


def refuse_ray_flags(arguments: list[str]) -> None:
    """Refuse flags that only Ray understands."""
    for name in ("workers", "ray-address", "ray-storage", "retries"):
        if name.replace("-", "_") in list_given(arguments):
            raise ConfigError(f"--{name} needs --launcher ray.")


def start_compiler(config: Config) -> None:
    """Start a process that compiles, if the training will probably need it: it loads PyTorch in the meantime."""
    on_cpu = config.device == "cpu" or (config.device == "auto" and not Path("/dev/nvidiactl").exists())
    if not on_cpu:
        compile_early([*plan_games(config), *plan_rehearsals(config)])
        return
    for policy in (name for name in guess_kernels(config, "cpu") if name.endswith("_policy")):
        start_early("flashdqn.training.backends.cpu.policy", policy)


def train_as_rank(
    config: Config, resume: Path | None, place: RankPlace, clock: RunClock, permission: Permission
) -> int:
    """Train as one of several ranks that a launcher has started; only the first shows anything."""
    from flashdqn.cli.rank_process import run_rank

    def train(config: Config, resume: Path | None, progress: Progress, ranks: Ranks) -> SessionEnd:
        return run_training(config, resume, progress, clock, ranks)

    return run_rank(config, resume, place, permission, train)


def run_training(
    config: Config, resume: Path | None, progress: Progress, clock: RunClock, ranks: Ranks | None = None
) -> SessionEnd:
    """Start a run, or resume one; `clock` runs since the command began."""
    from flashdqn.compute.ranks import ALONE
    from flashdqn.show.report import make_run_pages
    from flashdqn.training.callbacks import NO_CALLBACKS
    from flashdqn.training.session import resume_run, start_run

    register_gymnasium_envs()
    pages, ranks = make_run_pages(config), ranks or ALONE
    if resume is not None:
        return resume_run(config, resume, progress, pages, NO_CALLBACKS, clock, ranks)
    return start_run(config, progress, pages, NO_CALLBACKS, clock, ranks)


def print_help(page: HelpPage, kind: Any, arguments: list[str]) -> None:
    """Print the help that the words ask for, with the values of the preset that they name."""
    from flashdqn.config.presets import base_config

    named = arguments[0] if arguments and not arguments[0].startswith("-") else DEFAULT_PRESET
    flags = list_flags(kind, kind(training=base_config(complete_env_name(named))))
    SteadyConsole(soft_wrap=True).print(write_help(page, flags, arguments), highlight=False, markup=False)


def resolve_base_config(
    arguments: list[str], permission: Permission = NO_PERMISSION
) -> tuple[Config, Path | None, list[str]]:
    """The settings that the flags are applied to: a run's, or a preset's with an algorithm and a file on top. A
    file may import only what is permitted."""
    from flashdqn.config.presets import base_config

    named = arguments[0] if arguments and not arguments[0].startswith("-") else None
    resume, file = flag_value(arguments, "--resume"), flag_value(arguments, "--config")
    algo = flag_value(arguments, "--algo")
    if named is not None:
        refuse_path(named)
    if resume is not None:
        if named or file or algo:
            raise ConfigError(
                "--resume takes its settings from the run: leave out the preset, --algo and --config."
            )
        from flashdqn.runs.folder import RunFolder

        check_exists(Path(resume))
        return RunFolder.open(Path(resume)).config(permission), Path(resume), arguments
    settings = read_settings_file(Path(file)) if file is not None else {}
    settings, default = translate_file_settings(settings, named)
    preset = str(settings.get("preset", default))
    if named is None and file is not None:
        permission.require(find_names(preset.removeprefix("own:").removeprefix("gym:")), Path(file))
    base = base_config(complete_env_name(named or preset))
    if algo := algo or settings.get("algo"):
        base = apply_algorithm(base, str(algo))
    settings = {k: v for k, v in settings.items() if k not in ("preset", "algo") and v is not None}
    config = apply_settings(base, settings)
    config = scale_schedules(config, base.steps, list_setting_names(settings))
    if file is not None:
        own = list_named_code(base) if named else ()  # what the first word of this command line names
        permission.require([name for name in list_named_code(config) if name not in own], Path(file))
    return config, None, arguments[1:] if named else arguments


def refuse_path(word: str) -> None:
    """Say how a file or a run is given, where only the name of what to train on can be."""
    path = Path(word)
    if path.suffix == ".py":
        raise ConfigError(
            f"An environment in a file is written module:Name: `flashdqn train {path.stem}:NAME`, where NAME is a "
            "class or a function in it."
        )
    if path.suffix in (".json", ".toml"):
        raise ConfigError(f"Settings in a file are given by a flag: `flashdqn train --config {word}`.")
    if (path / "config.json").is_file():
        raise ConfigError(f"{word} is a run: `flashdqn train --resume {word}` continues it.")


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
    arguments, shares = take_share_flags(arguments)
    parsed = parse_arguments(base, arguments)
    return fit_schedules(replace_budget(parsed.training, arguments), base, arguments, shares)


def parse_arguments(base: Config, arguments: list[str]) -> TrainArguments:
    """All flags of `flashdqn train`, by the parser."""
    own = [field.name.replace("_", "-") for field in dataclasses.fields(TrainArguments)]
    known = [*(name for name in own if name != "training"), "train-steps-ratio", *flag_names(base)]
    parsed: TrainArguments = parse(
        "train [PRESET]", TrainArguments, arguments, known, TrainArguments(training=base)
    )
    return parsed


def fit_schedules(config: Config, base: Config, words: list[str], shares: dict[str, Fraction]) -> Config:
    """Let the schedules follow a budget among the flags. Those that flags or a file give stay; a resumed run keeps
    all of them."""
    given = list_given(words)
    if "resume" not in given:
        if (file := flag_value(words, "--config")) is not None:
            settings = read_settings_file(Path(file))
            foreign = uses_other_tool_keys(settings)
            given |= list_setting_names(translate_settings(settings)[0] if foreign else settings)
        config = scale_schedules(config, base.steps, given | set(shares))
    return apply_shares(config, shares)


def take_share_flags(arguments: list[str]) -> tuple[list[str], dict[str, Fraction]]:
    """The words without schedules that are given as shares of the budget; and these, by their setting."""
    rest = list(arguments)
    shares: dict[str, Fraction] = {}
    for setting in SCHEDULES:
        flag = f"--{setting.replace('_', '-')}"
        for at, word in reversed(list(enumerate(rest))):
            name, equals, value = word.partition("=")
            if name.replace("_", "-") != flag or (not equals and at + 1 == len(rest)):
                continue
            share = parse_share(value if equals else rest[at + 1])
            if share is not None:
                shares.setdefault(setting, share)
                del rest[at : at + (1 if equals else 2)]
    return rest, shares


def list_given(arguments: list[str]) -> set[str]:
    """The settings that flags give, by their dotted names."""
    words = (word.partition("=")[0] for word in arguments if word.startswith("--"))
    names = {word.removeprefix("--").replace("_", "-") for word in words}
    return {SHORT_NAMES.get(name, name).replace("-", "_") for name in names}


def list_setting_names(settings: dict[str, Any]) -> set[str]:
    """The dotted names of settings that may be nested."""
    return {name.replace("-", "_") for name in flatten_keys(settings)}


def replace_budget(config: Config, arguments: list[str]) -> Config:
    """Let a budget among the flags replace the preset's."""
    flags = list_given(arguments)
    given = {name: getattr(config, name) for name in BUDGETS if name in flags}
    return dataclasses.replace(config, **drop_old_budget(given)) if given else config
