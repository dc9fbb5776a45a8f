"""`flashdqn plan`: what an agent did in one episode, as a table and a picture."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from flashdqn.as_gymnasium.names import register_gymnasium_envs
from flashdqn.cli.arguments import Trust, parse, read_permission
from flashdqn.cli.env_flags import EnvChange, split_env_flags
from flashdqn.cli.latest import choose_run
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import SEEDS, Between
from flashdqn.show.terminal import SteadyConsole


@dataclass(frozen=True)
class PlanArguments:
    """Play one episode with a trained agent, and write what it did: for service chains, which VNF ran on which data
    center from when to when, as plan.csv and plan.png.

    Any --env.… flag of its task changes the episode, if its network can take it:
      flashdqn plan RUN --env.topology my_network.graphml --env.trace requests.csv
    """

    run: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="RUN")] = None
    """A run folder (its best checkpoint plays), or one checkpoint in it; without one, the latest run in runs."""
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("plan")
    """The folder to write to."""
    seed: Annotated[int, Between(0, SEEDS[1])] = 0
    """Seed of the episode."""
    trust: Trust = False


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn plan`."""
    permission, arguments = read_permission(arguments)
    permission.allow_working_folder()
    games, arguments = split_env_flags(arguments)
    known = [field.name for field in dataclasses.fields(PlanArguments)][1:]
    parsed = parse("plan", PlanArguments, arguments, known)
    run = choose_run(parsed.run, "plan")
    import torch

    from flashdqn.agent.agent import load_agent
    from flashdqn.envs.tasks import build_evaluation_env, find_task
    from flashdqn.training.evaluate import STEP_LIMIT

    register_gymnasium_envs()
    change = EnvChange("plan", games)
    agent = load_agent(run, "cpu", permission, change=change)
    task = find_task(agent.config.env.task)
    if task.write_plan is None:
        raise ConfigError(
            f"There are no plans of {task.name}: `flashdqn watch` shows what an agent does there."
        )
    env = build_evaluation_env(agent.config.env, 1, torch.device("cpu"))
    obs = env.reset(parsed.seed)
    for _ in range(STEP_LIMIT):  # not one step more than the episode has: the next one starts another
        step = env.step(agent.act(obs, env.mask))
        obs = step.obs
        if step.terminated[0] or step.truncated[0]:
            break
    console = SteadyConsole(soft_wrap=True)
    score = env.outcomes[0, env.outcome_names.index("score")]
    console.print(f"score {score:.3f}{change.text}", highlight=False, markup=False)
    for path in task.write_plan(env, parsed.out):
        console.print(f"  {path}", highlight=False, markup=False)
    return 0
