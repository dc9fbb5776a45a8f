"""`flashdqn sweep`: try settings side by side, and show what was found."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from flashdqn.cli.arguments import Trust, flag_names, flag_value, parse, read_permission
from flashdqn.cli.help import HelpPage, wants_help
from flashdqn.cli.sweep_show import print_line, show_end, show_sweep
from flashdqn.cli.train import (
    ALGO_HELP,
    check_receivers,
    fit_schedules,
    list_given,
    print_help,
    replace_budget,
    resolve_base_config,
    take_share_flags,
)
from flashdqn.compute.core_count import cores
from flashdqn.config import Config, Seconds
from flashdqn.config.settings import list_receivers, read_settings_file
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import Between
from flashdqn.core.user_code import Permission, find_names
from flashdqn.show.terminal import SteadyConsole

if TYPE_CHECKING:
    from flashdqn.sweep.folder import SweepFolder, SweepPlan

SHOW = "show"
#: Trials without --trials.
USUAL_TRIALS = 32


@dataclass(frozen=True)
class SweepArguments:
    """Try settings: a preset, a space, and what the flags change for all trials."""

    training: Annotated[Config, tyro.conf.arg(name="")]
    space: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """What to try: a TOML file with our settings, each with a range or a list of choices (docs/sweep.md)."""
    trials: Annotated[int, Between(1, 10**6)] = USUAL_TRIALS
    """The most trials."""
    budget: Annotated[Seconds | None, tyro.conf.arg(metavar="TIME"), Between(0, 10**9, above=True)] = None
    """Wall-clock time of the whole sweep, with the confirming runs: 20m, 2h. Without --max-time it is shared out
    evenly, so it also says how long a trial trains. --max-time, --steps and --episodes are for one trial."""
    jobs: Annotated[int, Between(0, 4096)] = 0
    """Trials at a time; 0: one for each core, or one alone on a GPU."""
    sampler: Literal["tpe", "random", "nsga2"] = "tpe"
    """How Optuna proposes values. tpe: by a model of what was good. random. nsga2: by evolution, for --objective
    both."""
    pruner: Literal["median", "halving", "hyperband", "none"] = "median"
    """How Optuna ends trials early. median: worse than half of the others at the same share of the budget."""
    objective: Literal["score", "both"] = "score"
    """score: the highest score within a trial's budget. both: score and the seconds to reach it, two objectives at
    once; nothing is pruned then."""
    seeds: Annotated[int, Between(0, 1000)] = 5
    """Fresh seeds on which the winner and the preset are trained at the end; 0: neither is."""
    launcher: Literal["local", "ray"] = "local"
    """Where trials run. local: processes on this machine. ray: Ray Tune, on a cluster."""
    ray_address: Annotated[str, tyro.conf.arg(metavar="HOST:PORT")] = ""
    """The Ray cluster; empty: RAY_ADDRESS, else a Ray that is started on this machine."""
    algo: Annotated[str | None, tyro.conf.arg(metavar="NAME", help=ALGO_HELP)] = None
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Settings from a JSON or TOML file for all trials; flags given here come on top."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Go on with a sweep; --trials, --budget and --jobs may change."""
    trust: Trust = False


HELP_PAGE = HelpPage(
    "flashdqn sweep PRESET --space FILE [options], or flashdqn sweep show FOLDER",
    "Try settings, a process per trial. The winner and the preset are trained again on fresh seeds, and only that "
    "is claimed. Every setting of `flashdqn train` is a flag here, too, for all trials:",
    (
        "flashdqn sweep snake-flood --space docs/examples/space.toml --trials 64 --budget 20m",
        "flashdqn sweep CartPole-v1 --space space.toml --steps 50k --jobs 4",
        "flashdqn sweep --resume runs/sweep-snake-20261115-120000",
        "flashdqn sweep show runs/sweep-snake-20261115-120000 --trial 17 --out mine.toml",
    ),
    (
        (
            "The flags that matter, and their values here:",
            {
                "space": "what to try: settings with ranges or choices",
                "trials": "the most trials",
                "budget": "wall-clock time of the whole sweep: 20m, 2h",
                "max-time": "training time of one trial, instead of its share of the budget",
                "steps": "or steps of one trial",
                "jobs": "trials at a time; 0: one for each core",
                "pruner": "how trials end early",
                "objective": "score alone, or score and seconds",
                "seeds": "fresh seeds for the winner and the preset",
                "resume": "go on with a sweep that was stopped or killed",
                "launcher": "local processes, or a Ray cluster",
            },
        ),
    ),
    "Ctrl-C stops the trials and says how to go on. Exit codes: 0 done, 1 failure, 2 mistake, 75 signal (resume "
    "it), 130 Ctrl-C.",
)


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn sweep`."""
    if arguments[:1] == [SHOW]:
        return show_sweep(arguments[1:])
    if wants_help(arguments):
        print_help(HELP_PAGE, SweepArguments, arguments)
        return 0
    permission, arguments = read_permission(arguments, preset=True)
    permission.allow_working_folder()
    if flag_value(arguments, "--resume") is not None:
        return resume_sweep(arguments, permission)
    return start_sweep(arguments, permission)


def start_sweep(arguments: list[str], permission: Permission) -> int:
    """Start a new sweep."""
    base, _, rest = resolve_base_config(arguments, permission)
    rest, shares = take_share_flags(rest)
    asked, known = parse_sweep(base, rest)
    training = fit_schedules(replace_budget(asked.training, rest), base, rest, shares)
    check_receivers(training, arguments, permission)
    refuse_receivers(training)
    if asked.space is None:
        raise ConfigError(
            "Say what to try: --space FILE, with settings and their ranges (docs/examples/space.toml is one)."
        )
    from flashdqn.sweep.folder import SweepFolder
    from flashdqn.sweep.space import check_combinations, read_space
    from flashdqn.sweep.study import import_optuna

    data = read_settings_file(asked.space)
    permission.require(find_names(data), asked.space)
    space = read_space(asked.space, training)
    import_optuna()
    check_launcher(asked)
    plan = make_plan(asked, training, data, known)
    folder = SweepFolder.create(plan)
    print_line(f"Sweep   {folder.shown}")
    print_line(describe_start(plan))
    if share := check_combinations(space, plan.base):
        print_line(f"About {share:.0%} of the combinations are refused by the settings, and are skipped.")
    return conduct_sweep(plan, folder, permission, asked.ray_address)


def resume_sweep(arguments: list[str], permission: Permission) -> int:
    """Go on with a sweep; only its size may change."""
    named = arguments[0] if arguments and not arguments[0].startswith("-") else None
    given = list_given(arguments)
    allowed = {"resume", "trials", "budget", "jobs", "ray_address", "trust"}
    if named or given - allowed:
        odd = named or f"--{sorted(given - allowed)[0].replace('_', '-')}"
        raise ConfigError(
            f"A resumed sweep keeps its settings; only --trials, --budget and --jobs can change, not {odd}."
        )
    asked = parse("sweep", SweepArguments, arguments, list_known(Config()), SweepArguments(training=Config()))
    from flashdqn.sweep.folder import SweepFolder, read_plan
    from flashdqn.sweep.study import import_optuna

    import_optuna()
    plan = read_plan(asked.resume, permission)
    names = [name for name in ("trials", "budget", "jobs") if name in given]
    plan = dataclasses.replace(plan, **{name: getattr(asked, name) for name in names})
    if "jobs" in names:
        plan = dataclasses.replace(plan, jobs=choose_jobs(plan.jobs, plan.base))
    asked = dataclasses.replace(asked, launcher=plan.launcher)
    check_launcher(asked)
    folder = SweepFolder(asked.resume)
    with folder.locked():
        folder.write_plan(plan)
    print_line(f"Sweep   {folder.shown}, resumed")
    return conduct_sweep(plan, folder, permission, asked.ray_address)


def conduct_sweep(plan: SweepPlan, folder: SweepFolder, permission: Permission, address: str) -> int:
    """Run it, and print what was found."""
    from flashdqn.sweep.conduct import run_sweep
    from flashdqn.sweep.display import SweepProgress

    def write_page(path: Path) -> None:
        from flashdqn.sweep.page import write_sweep_report

        write_sweep_report(path, plan)

    console = SteadyConsole(always=True, soft_wrap=sys.stdout is None or not sys.stdout.isatty())
    display = SweepProgress(console)
    own = permission.everything or bool(permission.names)
    end = run_sweep(plan, folder, display, write_page, own, address)
    show_end(console, end)
    return end.exit_code


def parse_sweep(base: Config, words: list[str]) -> tuple[SweepArguments, set[str]]:
    """The flags, and the names of the settings that were given."""
    asked = parse("sweep [PRESET]", SweepArguments, words, list_known(base), SweepArguments(training=base))
    return asked, list_given(words)


def list_known(base: Config) -> list[str]:
    """The flags of the command."""
    own = [field.name.replace("_", "-") for field in dataclasses.fields(SweepArguments)]
    return [*(name for name in own if name != "training"), "train-steps-ratio", *flag_names(base)]


def make_plan(asked: SweepArguments, training: Config, data: dict[str, object], given: set[str]) -> SweepPlan:
    """The plan of a new sweep."""
    from flashdqn.sweep.budget import prepare_base, share_budget
    from flashdqn.sweep.folder import SweepPlan

    jobs = choose_jobs(asked.jobs, training)
    own_budget = bool(given & {"steps", "episodes", "max_time"})
    budget = None if own_budget else asked.budget
    base = share_budget(training, budget, asked.trials, asked.seeds, jobs)
    if base.steps is None and base.max_time is None and base.episodes is None:
        raise ConfigError(
            "Say how long: --budget for the whole sweep, or --steps or --max-time for one trial."
        )
    base = prepare_base(base, max(1, cores() // jobs), sorted(given))
    pruner = "none" if asked.objective == "both" else asked.pruner
    if asked.objective == "both" and asked.pruner != "none" and "pruner" in given:
        raise ConfigError(
            "--objective both cannot prune, because Optuna prunes by one number: leave out --pruner."
        )
    return SweepPlan(
        base,
        data,
        asked.trials,
        asked.budget,
        jobs,
        asked.sampler,
        pruner,
        asked.objective,
        asked.seeds,
        asked.launcher,
    )


def choose_jobs(asked: int, base: Config) -> int:
    """Trials at a time."""
    on_gpu = base.device == "cuda" or (base.device == "auto" and Path("/dev/nvidiactl").exists())
    return asked or (1 if on_gpu else cores())


def check_launcher(asked: SweepArguments) -> None:
    """Refuse what the launcher cannot do, before anything is written."""
    if asked.launcher == "local" and asked.ray_address:
        raise ConfigError("--ray-address needs --launcher ray.")
    if asked.launcher == "ray":
        from flashdqn.cluster.ray_link import check_reachable, find_address, import_ray

        import_ray()
        check_reachable(find_address(asked.ray_address))


def refuse_receivers(config: Config) -> None:
    """Refuse to log all trials to a server: a sweep has its own report."""
    for setting in list_receivers(config):
        flag = f"--{setting.replace('_', '-')}"
        raise ConfigError(f"{flag} is for a single training: a sweep writes its own report.")


def describe_start(plan: SweepPlan) -> str:
    """What is about to happen, in a line."""
    from flashdqn.show.numbers import format_duration
    from flashdqn.sweep.page import describe_trial_budget

    whole = "" if plan.budget is None else f", {format_duration(plan.budget)} in all"
    return (
        f"Up to {plan.trials} trials of {plan.base.preset}, {describe_trial_budget(plan)} each{whole}, {plan.jobs} "
        f"at a time; then {2 * plan.seeds} confirming runs"
    )
