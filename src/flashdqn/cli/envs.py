"""`flashdqn envs`."""

from __future__ import annotations

from flashdqn.cli.arguments import refuse_arguments
from flashdqn.show.terminal import SteadyConsole


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn envs`."""
    from flashdqn.envs.tasks import iterate_tasks

    refuse_arguments("envs", arguments)
    console = SteadyConsole(soft_wrap=True)
    for task in iterate_tasks():
        console.print(f"[bold]{task.name}[/]  {task.about}", highlight=False)
        for key, value in vars(task.config()).items():
            console.print(f"    --env.{key.replace('_', '-')} {value}", highlight=False)
        if task.experts:
            console.print(f"    experts for --demos.source: {', '.join(task.experts)}", highlight=False)
    return 0
