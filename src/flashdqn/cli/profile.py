"""`flashdqn profile`: why a training is as fast as it is, and what would make it faster."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from flashdqn.as_gymnasium.names import register_gymnasium_envs
from flashdqn.cli.arguments import Trust, flag_names, flag_value, parse, read_permission
from flashdqn.cli.help import HelpPage, wants_help
from flashdqn.cli.train import (
    ALGO_HELP,
    check_receivers,
    fit_schedules,
    print_help,
    replace_budget,
    resolve_base_config,
    take_share_flags,
)
from flashdqn.config import Config, Seconds
from flashdqn.core.errors import ConfigError
from flashdqn.core.files import check_writable_file, write_output
from flashdqn.core.ranges import Between
from flashdqn.show.terminal import SteadyConsole


@dataclass(frozen=True)
class ProfileArguments:
    """A profile: the options of `flashdqn train`, and its own."""

    training: Annotated[Config, tyro.conf.arg(name="")]
    only: Annotated[str, tyro.conf.arg(metavar="NAMES")] = ""
    """Only these experiments, by name or group, separated by commas; `phases` runs no experiment."""
    skip: Annotated[str, tyro.conf.arg(metavar="NAMES")] = ""
    """All experiments except these."""
    rounds: Annotated[int, Between(0, 10_000)] = 9
    """Turns that every experiment takes: more turns tell smaller differences from chance."""
    seconds: Annotated[Seconds, Between(0, 10**6)] = 120.0
    """Time for all experiments together: 90s, 5m. Experiments that do not fit are left out, and named."""
    json: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Also write everything that was measured to a file."""
    html: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Also write it as a page with charts."""
    algo: Annotated[str | None, tyro.conf.arg(metavar="NAME", help=ALGO_HELP)] = None
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Settings from a JSON or TOML file, for example a run's config.json."""
    trust: Trust = False


HELP_PAGE = HelpPage(
    "flashdqn profile [PRESET] [options]",
    "Why is this training as fast as it is, and what would make it faster? Takes the options of `flashdqn train`, "
    "trains for a few seconds, and says where the time goes. Then your configuration and variants with ONE setting "
    "changed take turns, and a table says how much faster each is, and what it does to learning.",
    (
        "flashdqn profile snake-flood --train-ratio quality --seconds 5m",
        "flashdqn profile snake --only boards,threads --rounds 15",
        "flashdqn profile gym:CartPole-v1 --only phases --json cartpole.json",
    ),
    (
        (
            "Its own flags:",
            {
                "only": "only these experiments or groups; `phases`: none",
                "skip": "all experiments except these",
                "rounds": "turns of every experiment",
                "seconds": "time for all of them: 90s, 5m",
                "json": "also write everything that was measured",
                "html": "also write it as a page with charts",
            },
        ),
    ),
    "No run folder is made, and --out is not touched. Ctrl-C shows the results so far.",
    (
        "The experiments, by group:",
        "  ratio     no-training, ratio-half, ratio-double, iteration: one update a step",
        "  boards    boards-32, boards-64, boards-256, boards-1024, at the same ratio",
        "  features  no-flood: Snake without flood-fill",
        "  batch     batch-half, batch-double",
        "  threads   threads-1, and as many as there are cores (CPU only)",
        "  logging   no-tensorboard, no-logging",
        "  modes     mode-eager, mode-native, mode-graph, mode-compile",
    ),
)


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn profile`: measure, show, and write."""
    if wants_help(arguments):
        print_help(HELP_PAGE, ProfileArguments, arguments)
        return 0
    parsed = parse_profile(arguments)
    from flashdqn.profile.display import make_hidden_display, make_observer
    from flashdqn.profile.page import write_profile_page
    from flashdqn.profile.profile import Options, take_profile
    from flashdqn.profile.terminal import show_profile

    register_gymnasium_envs()
    for path in (parsed.json, parsed.html):
        if path is not None:
            check_writable_file(path)
    options = Options(parsed.rounds, parsed.seconds, split_names(parsed.only), split_names(parsed.skip))
    console = SteadyConsole(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120)
    found = take_profile(
        parsed.training,
        options,
        make_observer(console),
        lambda: make_hidden_display(terminal=console.is_terminal),
    )
    show_profile(console, found)
    if parsed.json is not None:
        text = json.dumps(found.to_json(), indent=2, ensure_ascii=False) + "\n"
        write_output(parsed.json, text)
    if parsed.html is not None:
        write_profile_page(found, parsed.html)
    return 130 if found.interrupted else 0


def parse_profile(arguments: list[str]) -> ProfileArguments:
    """Apply the flags to a preset, a file or both."""
    if flag_value(arguments, "--resume") is not None:
        raise ConfigError("A profile cannot resume a run: --config RUN/config.json takes a run's settings.")
    permission, arguments = read_permission(arguments, preset=True)
    permission.allow_working_folder()
    base, _, rest = resolve_base_config(arguments, permission)
    own = [
        "only",
        "skip",
        "rounds",
        "seconds",
        "json",
        "html",
        "algo",
        "config",
        "trust",
        "train-steps-ratio",
    ]
    default = ProfileArguments(training=base)
    rest, shares = take_share_flags(rest)
    parsed: ProfileArguments = parse(
        "profile [PRESET]", ProfileArguments, rest, [*own, *flag_names(base)], default
    )
    check_receivers(parsed.training, arguments, permission)
    training = fit_schedules(replace_budget(parsed.training, rest), base, rest, shares)
    return ProfileArguments(**vars(parsed) | {"training": training})


def split_names(text: str) -> tuple[str, ...]:
    """The names in a list separated by commas."""
    return tuple(word for word in (part.strip() for part in text.split(",")) if word)
