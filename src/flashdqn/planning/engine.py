"""Plans of the agent and of every rule for one problem."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flashdqn.core.errors import ConfigError
from flashdqn.planning.agent_plan import AgentSettings, plan_by_agent
from flashdqn.planning.agent_values import read_agent
from flashdqn.planning.ground import Ground, Progress, prepare_ground
from flashdqn.planning.plan import Plan
from flashdqn.planning.problem import Problem
from flashdqn.planning.purse import Purse
from flashdqn.planning.rules import RULES, SECONDS, plan_by_rule
from flashdqn.planning.shipped import load_planning_agent, load_shipped_agent

if TYPE_CHECKING:
    from flashdqn.agent.agent import Agent

AGENT = "agent"
#: Every policy, in the order in which they are usually shown.
POLICIES = (
    AGENT,
    "dpv",
    "betweenness",
    "lookahead",
    "dpv-once",
    "betweenness-once",
    "domirank",
    "random",
)


def make_plans(
    problem: Problem,
    budget: float,
    policies: Sequence[str] = POLICIES,
    agent: Agent | str | os.PathLike[str] | None = None,
    seed: int = 0,
    seconds: float = SECONDS,
    settings: AgentSettings | None = None,
    progress: Progress | None = None,
) -> dict[str, Plan]:
    """Plan by each policy, under one budget in units of cost: `make_plans(problem, 40.0)["agent"].order`.

    `agent` is a loaded agent, a run folder or a file; None is the one that comes with the package. `seconds` limits
    each rule: one that would take longer counts less often, and its plan's note says so.
    """
    check_policies(policies)
    ground = prepare_ground(problem, _part(progress, 0, len(policies) + 1, "the ground"))
    Purse(ground, budget)  # refuse a budget that no policy could spend, before anything is planned
    plans: dict[str, Plan] = {}
    for k, name in enumerate(policies):
        tell = _part(progress, k + 1, len(policies) + 1, name)
        if name == AGENT:
            plans[name] = _plan_by_given_agent(ground, budget, agent, settings, tell)
        else:
            plans[name] = plan_by_rule(name, ground, budget, seed, seconds, tell)
    if progress is not None:
        progress(1.0, "planned")
    return plans


def check_policies(policies: Sequence[str]) -> None:
    """Refuse names that no policy has."""
    for name in policies:
        if name != AGENT and name not in RULES:
            raise ConfigError(f"A policy is one of {', '.join(POLICIES)}, and {name!r} is not.")
    if not policies:
        raise ConfigError(f"Name at least one policy: {', '.join(POLICIES)}.")


def _plan_by_given_agent(
    ground: Ground,
    budget: float,
    agent: Agent | str | os.PathLike[str] | None,
    settings: AgentSettings | None,
    progress: Progress | None,
) -> Plan:
    if agent is None:
        agent = load_shipped_agent()
    elif isinstance(agent, str | os.PathLike):
        agent = load_planning_agent(agent)
    return plan_by_agent(read_agent(agent), ground, budget, settings, progress)


def _part(progress: Progress | None, which: int, count: int, name: str) -> Progress | None:
    """A part of the whole progress, that of one policy."""
    if progress is None:
        return None
    return lambda share, text: progress((which + min(1.0, max(0.0, share))) / count, f"{name}: {text}")
