"""`flashdqn eval`."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from flashdqn.as_gymnasium.names import register_gymnasium_envs
from flashdqn.cli.arguments import Trust, parse, read_permission
from flashdqn.cli.env_flags import EnvChange, split_env_flags
from flashdqn.cli.latest import choose_run
from flashdqn.core.ranges import SEEDS, Between
from flashdqn.show.terminal import SteadyConsole


@dataclass(frozen=True)
class EvalArguments:
    """Play games with a trained agent, without exploration, and print how well it plays.

    Any --env.… flag of its task changes the games, if its network can take them:
      flashdqn eval RUN --env.size 15
    """

    run: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="RUN")] = None
    """A run folder (its best checkpoint plays), or one checkpoint in it; without one, the latest run in runs."""
    episodes: Annotated[int, Between(1, 10**6)] = 100
    """Games to play, each on its own board."""
    seed: Annotated[int | None, Between(0, SEEDS[1])] = None
    """Seed of the games; by default one that training has not used."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to play."""
    json: bool = False
    """Print JSON."""
    trust: Trust = False


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn eval`."""
    permission, arguments = read_permission(arguments)
    permission.allow_working_folder()
    games, arguments = split_env_flags(arguments)
    known = [field.name for field in dataclasses.fields(EvalArguments)][1:]
    parsed = parse("eval", EvalArguments, arguments, known)
    run = choose_run(parsed.run, "eval")
    from flashdqn.agent.agent import load_agent
    from flashdqn.compute.threads import threads_for_flops
    from flashdqn.networks.flops import count_flops
    from flashdqn.training.prepared import use_run_threads
    from flashdqn.training.progress import evaluation_text

    register_gymnasium_envs()
    change = EnvChange("eval", games)
    agent = load_agent(run, parsed.device, permission, change=change)
    compute = threads_for_flops(parsed.episodes * count_flops(agent.network, agent.obs_spec))
    with use_run_threads(agent.config, compute):
        result = agent.evaluate(parsed.episodes, parsed.seed)
    console = SteadyConsole(soft_wrap=True)
    if parsed.json:
        console.print(json.dumps(result.to_json()), highlight=False, markup=False)
        return 0
    text = f"{evaluation_text(result).removeprefix('evaluation: ')}{change.text}"
    console.print(text, highlight=False, markup=False)
    rows = {"mean return": result.mean_return, "mean length": result.mean_length, **result.outcomes}
    for name, value in rows.items():
        console.print(f"  {name:<12} {value:.4g}", highlight=False, markup=False)
    return 0
