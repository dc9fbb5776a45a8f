"""`flashdqn envs`."""

from __future__ import annotations

from flashdqn.cli.arguments import refuse_arguments
from flashdqn.show.terminal import SteadyConsole


def run_command(arguments: list[str]) -> int:
    """`flashdqn envs`."""
    from flashdqn.envs import ENVS

    refuse_arguments("envs", arguments)
    console = SteadyConsole(soft_wrap=True)
    for name, (settings, about) in ENVS.items():
        console.print(f"[bold]{name}[/]  {about}", highlight=False)
        for key, value in vars(settings()).items():
            console.print(f"    --env.{key.replace('_', '-')} {value}", highlight=False)
    return 0
