"""Everything that the files of a plan are made from."""

from __future__ import annotations

from dataclasses import dataclass, field

from flashdqn.planning.break_worth import BreakWorth
from flashdqn.planning.budgets import BreakBudget, cell_hectares
from flashdqn.planning.groups import BreakGroup
from flashdqn.planning.plan import Judgement, Losses, Plan
from flashdqn.planning.problem import Problem

#: What the policies are called in tables.
POLICY_NAMES = {
    "agent": "the agent",
    "random": "random",
    "domirank": "DomiRank",
    "betweenness": "betweenness",
    "betweenness-once": "betweenness, once",
    "dpv": "DPV",
    "dpv-once": "DPV, once",
    "lookahead": "lookahead",
    "given": "the given plan",
}
#: What they do, in a few words.
POLICY_WAYS = {
    "agent": "a network that was trained on other landscapes",
    "random": "any cell where a break may lie",
    "domirank": "cells that dominate their neighbors in the graph of fire spread",
    "betweenness": "cells that most of the fastest paths of fire pass through, counted again as breaks are placed",
    "betweenness-once": "cells that most of the fastest paths of fire pass through, counted once",
    "dpv": "Downstream Protection Value: what burns behind a cell, counted again as breaks are placed",
    "dpv-once": "Downstream Protection Value: what burns behind a cell, counted once",
    "lookahead": "tries a break in every cell, and takes the best",
}


@dataclass(frozen=True, eq=False)
class PlanReport:
    """A problem, the plans for it, and what the fires say."""

    problem: Problem
    chosen: str  # the policy whose plan is written
    plans: dict[str, Plan]
    judgement: Judgement
    budget: BreakBudget
    groups: tuple[BreakGroup, ...]  # of the chosen plan, by number
    seed: int
    command: str  # that made it
    gaps: tuple[BreakWorth, ...] = ()  # cells of the chosen plan whose loss alone costs most, worst first
    versions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what the reader must know about this plan

    @property
    def written_plan(self) -> Plan:
        """The plan that is written, as far as its budget goes."""
        full = self.plans[self.chosen]
        return Plan(full.policy, full.order[: self.judgement.placed[self.chosen][-1]], full.seconds)

    @property
    def after(self) -> Losses:
        """What is lost with the chosen plan at the full budget."""
        return self.judgement.after[self.chosen][-1]

    @property
    def unit(self) -> str:
        """What losses are counted in."""
        if self.judgement.before.value is None:
            return "ha"
        return self.problem.value_unit or "units of value"

    @property
    def loss_name(self) -> str:
        """What a fire takes: "ha burned", or "houses lost"."""
        return f"{self.unit} {'burned' if self.judgement.before.value is None else 'lost'}"

    @property
    def is_given(self) -> bool:
        """Whether it judges somebody's plan instead of making one."""
        return self.chosen == "given"

    @property
    def hectares(self) -> float:
        """The area of the plan's breaks."""
        return len(self.written_plan.order) * cell_hectares(self.problem)

    @property
    def cost(self) -> float:
        """What the plan costs: in units of the map of costs, else its cells."""
        order = self.written_plan.order
        return float(len(order) if self.problem.cost is None else self.problem.cost.reshape(-1)[order].sum())


def name_policy(policy: str) -> str:
    """A policy's name for people."""
    return POLICY_NAMES.get(policy, policy)
