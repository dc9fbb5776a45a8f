"""`flashdqn fuelbreaks`: plan fuel breaks for somebody's own landscape, or judge a plan."""

from __future__ import annotations

from flashdqn.cli.fuelbreaks_plan import plan_breaks
from flashdqn.cli.fuelbreaks_score import score_breaks
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import describe_value
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.show.terminal import SteadyConsole

COMMANDS = {"plan": plan_breaks, "score": score_breaks}
HELP = """usage: flashdqn fuelbreaks plan LANDSCAPE --budget 40ha [options]
       flashdqn fuelbreaks score LANDSCAPE BREAKS [options]

  plan   where to remove fuel, so that fires burn less: files for a GIS, a map and a page
  score  what somebody's plan saves, beside random breaks of the same number

`flashdqn fuelbreaks plan --help` says more, and so does the other."""


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn fuelbreaks`."""
    if not arguments or arguments[0] in ("-h", "--help"):
        SteadyConsole(soft_wrap=True).print(HELP, markup=False, highlight=False)
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        raise ConfigError(
            f"Unknown command {describe_value(f'fuelbreaks {name}')}{suggest_nearest(name, COMMANDS)}"
        )
    return COMMANDS[name](rest)
