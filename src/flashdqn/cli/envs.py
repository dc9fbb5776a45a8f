"""`flashdqn envs`."""

from __future__ import annotations

from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import describe_value
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.show.terminal import SteadyConsole


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn envs`: all of them, or those that are named."""
    from flashdqn.envs.tasks import iterate_tasks

    console = SteadyConsole(soft_wrap=True)
    if {"-h", "--help"} & set(arguments):
        console.print("usage: flashdqn envs [NAME …]", highlight=False, markup=False)
        return 0
    tasks = {task.name: task for task in iterate_tasks()}
    for name in arguments:
        if name not in tasks:
            raise ConfigError(f"Unknown environment {describe_value(name)}{suggest_nearest(name, tasks)}")
    for task in [task for name, task in tasks.items() if not arguments or name in arguments]:
        console.print(f"[bold]{task.name}[/]  {task.about}", highlight=False)
        for key, value in vars(task.config()).items():
            console.print(f"    --env.{key.replace('_', '-')} {value}", highlight=False)
        if task.experts:
            console.print(f"    experts for --demos.source: {', '.join(task.experts)}", highlight=False)
    return 0
