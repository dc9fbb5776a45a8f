"""An agent plans as it plays; masks, costs, several breaks per pass; files of agents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_problems import make_agent, make_landscape, make_problem

import flashdqn.planning
from flashdqn import Run
from flashdqn.agent.agent import Agent
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.core.ops import masked_argmax
from flashdqn.envs.fuelbreaks.config import FuelBreaksConfig
from flashdqn.envs.fuelbreaks.env import FuelBreaks
from flashdqn.envs.fuelbreaks.fire import DRY
from flashdqn.envs.fuelbreaks.scenes import build_scenes
from flashdqn.envs.fuelbreaks.stakes import Stakes
from flashdqn.planning import agent_plan, agent_values
from flashdqn.planning.agent_plan import AgentSettings, plan_by_agent
from flashdqn.planning.agent_values import GainMap, read_agent
from flashdqn.planning.engine import make_plans
from flashdqn.planning.flow import FlowMap
from flashdqn.planning.ground import build_ground
from flashdqn.planning.problem import Problem, Scenario
from flashdqn.planning.shipped import SHIPPED, load_planning_agent, load_shipped_agent

AGENT = make_agent()
VALUES = read_agent(AGENT)
MAPS = build_ground(make_problem(maps=True))
ONE = AgentSettings(at_once=0.0)


def play(stakes: Stakes, budget: int, agent: Agent = AGENT, scouts: int = 0) -> list[int]:
    """The agent's breaks in the environment that it is trained in."""
    land = make_landscape(rows=20, columns=20)
    scenes = build_scenes([land], [DRY], 1, torch.device("cpu"), [stakes])
    env = FuelBreaks(
        FuelBreaksConfig(size=20, budget=float(budget), fires=1, scouts=scouts), 1, scenes=scenes
    )
    start = torch.zeros((1, 1), dtype=torch.int32)
    obs = env.begin(torch.zeros(1, dtype=torch.int32), start, budget)
    order = []
    for _ in range(budget):
        q = agent.head.q(agent.network.output(agent.network.torso(env.decoder(obs))))
        action = masked_argmax(q, env.mask)
        order.append(int(action[0]))
        obs = env.step(action).obs
    return order


@pytest.mark.parametrize("maps", [False, True])
def test_it_plans_as_it_plays(maps: bool) -> None:
    stakes = Stakes()
    if maps:
        random = np.random.default_rng(0)
        stakes = Stakes(
            random.integers(0, 9, (20, 20)).astype(np.float32),
            random.random((20, 20)).astype(np.float32),
            random.random((20, 20)) < 0.2,
        )
    problem = Problem(make_landscape(rows=20, columns=20), (Scenario("dry", DRY, 1.0),), stakes)
    plan = plan_by_agent(VALUES, build_ground(problem), 15.0, ONE)
    assert plan.order.tolist() == play(stakes, 15)


def test_an_agent_with_scouts_plans_as_it_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make_agent(scouts=4)
    ground = build_ground(
        Problem(make_landscape(rows=20, columns=20), (Scenario("dry", DRY, 1.0),), Stakes())
    )
    monkeypatch.setattr(agent_values, "RESOLVED", 0.0)
    monkeypatch.setattr("flashdqn.planning.flow.COARSE", 1)
    given_scouts = torch.from_numpy(FlowMap(ground).ignition)
    monkeypatch.setattr("flashdqn.envs.fuelbreaks.env.draw_ignitions", lambda *_: given_scouts)
    order = play(Stakes(), 15, agent, given_scouts.shape[1])
    plan = plan_by_agent(read_agent(agent), ground, 15.0, ONE)
    assert plan.order.tolist() == order
    monkeypatch.setattr(FlowMap, "place", lambda self, cells: None)
    blind = plan_by_agent(read_agent(agent), ground, 15.0, ONE)
    assert blind.order.tolist() != order, "what it sees does not matter"


def test_values_that_are_shares_of_what_still_burns_are_multiplied_by_it() -> None:
    """The order within a window stays; beside another window its gains count by how much burns there."""
    land = make_landscape(rows=20, columns=20)
    alone = build_ground(Problem(land, (Scenario("dry", DRY, 1.0),), Stakes()))
    orders = [
        plan_by_agent(replace(VALUES, in_remaining=way), alone, 12.0, ONE).order.tolist()
        for way in (False, True)
    ]
    assert orders[0] == orders[1]

    def evaluate(planes: torch.Tensor) -> torch.Tensor:
        return torch.rand((1, planes[0, 0].numel()), generator=torch.Generator().manual_seed(0)).repeat(
            len(planes), 1
        )

    ground = build_ground(make_problem(rows=20, columns=40))
    gains = GainMap(ground, replace(VALUES, evaluate=evaluate, in_remaining=True), 20, 0)
    assert gains.flow is not None
    still = np.stack([gains.flow.remaining(window) for window in gains.windows])  # [windows, S]
    plain = GainMap(ground, replace(VALUES, evaluate=evaluate), 20, 0)
    free = ground.allowed
    for values in (gains, plain):
        values.update(~free, free, 0.05)
    ratios = [(gains.gain[w.rows, w.columns], plain.gain[w.rows, w.columns]) for w in gains.windows]
    for (with_share, without), shares in zip(ratios, still, strict=True):
        ratio = with_share[without != 0] / without[without != 0]
        assert shares.min() - 1e-9 <= ratio.min() <= ratio.max() <= shares.max() + 1e-9
    assert still[0].max() != still[1].max()


def test_what_is_too_little_for_the_network_is_decided_by_what_burns_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ground = build_ground(
        Problem(make_landscape(rows=20, columns=20), (Scenario("dry", DRY, 1.0),), Stakes())
    )
    monkeypatch.setattr(agent_values, "RESOLVED", np.inf)
    plan = plan_by_agent(read_agent(make_agent(scouts=4)), ground, 15.0, ONE)
    flow, expected = FlowMap(ground), []
    for _ in range(15):
        behind = np.where(ground.allowed, flow.total[0], -1.0)
        behind[expected] = -1.0
        expected.append(int(behind.argmax()))
        flow.place(expected[-1:])
    assert plan.order.tolist() == expected


@settings(max_examples=8, deadline=None)
@given(st.floats(4.0, 60.0), st.sampled_from([0.0, 16.0, 64.0]), st.sampled_from([1, 3, 8]))
def test_it_keeps_to_masks_budget_and_costs(budget: float, at_once: float, apart: int) -> None:
    how = AgentSettings(at_once=at_once, apart=apart, whole=16, window=14, halo=3)
    plan = plan_by_agent(VALUES, MAPS, budget, how)
    costs = MAPS.cost[plan.order]
    assert MAPS.allowed[plan.order].all()
    assert len(np.unique(plan.order)) == len(plan.order)
    assert costs.sum() <= budget * (1 + 1e-6)
    rest = MAPS.allowed.copy()
    rest[plan.order] = False
    assert MAPS.cost[rest].min() > budget - costs.sum() - 1e-6
    assert "windows" in plan.note


def test_breaks_of_one_pass_lie_apart() -> None:
    plan = plan_by_agent(VALUES, MAPS, 60.0, AgentSettings(at_once=30.0, apart=5, almost=0.0))
    first = np.array([divmod(int(cell), 24) for cell in plan.order[:5]])
    distance = np.abs(first[:, None] - first[None]).max(-1)
    assert distance[np.triu_indices(5, 1)].min() >= 5


@pytest.mark.parametrize(("at_least", "least", "passes"), [(0.0, 3, 12), (4.0, 3, 3), (4.0, 6, 6)])
def test_a_pass_takes_some_breaks_whatever_they_gain(
    at_least: float, least: int, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_plan, "PASSES", least)
    asked = []

    def evaluate(planes: torch.Tensor) -> torch.Tensor:
        asked.append(len(planes))
        return VALUES.evaluate(planes)

    ground = build_ground(make_problem())
    how = AgentSettings(at_once=100.0, at_least=at_least * 2500 / ground.cells, apart=1, almost=1.0)
    plan = plan_by_agent(replace(VALUES, evaluate=evaluate), ground, 12.0, how)
    assert len(plan.order) == 12
    assert len(asked) == passes


def test_without_time_more_breaks_come_from_one_pass() -> None:
    plan = plan_by_agent(VALUES, MAPS, 40.0, AgentSettings(at_once=0.0, seconds=0.0))
    assert "to end in time" in plan.note


def test_a_scenario_of_no_weight_in_a_sum_changes_nothing() -> None:
    land, dry = make_landscape(rows=20, columns=20), Scenario("dry", DRY, 1.0)
    alone = build_ground(Problem(land, (dry,), Stakes()))
    twice = build_ground(Problem(land, (Scenario("a", DRY, 0.5), Scenario("b", DRY, 0.5)), Stakes()))
    orders = [plan_by_agent(VALUES, ground, 10.0, ONE).order.tolist() for ground in (alone, twice)]
    assert orders[0] == orders[1]


def test_an_agent_from_a_file(tmp_path: Path) -> None:
    file = AGENT.save(tmp_path / "agent.zip")
    again = read_agent(load_planning_agent(file, "cpu"))
    assert (again.gamma, again.trained_size) == (VALUES.gamma, 14)
    assert again.sees == 1 + 2 * (1 + 2)
    plans = [plan_by_agent(values, MAPS, 12.0).order.tolist() for values in (VALUES, again)]
    assert plans[0] == plans[1]


def test_plans_of_several_policies_with_progress(tmp_path: Path) -> None:
    told: list[tuple[float, str]] = []
    problem = make_problem(maps=True)
    plans = make_plans(
        problem,
        12.0,
        ("agent", "dpv", "random"),
        AGENT.save(tmp_path / "agent.zip"),
        progress=lambda share, text: told.append((share, text)),
    )
    assert list(plans) == ["agent", "dpv", "random"]
    assert [plan.policy for plan in plans.values()] == list(plans)
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert any("agent" in text for _, text in told)
    assert any("breaks, values of the next, 100%" in text for _, text in told), (
        "each pass tells how far it is"
    )


def test_unknown_policies_and_agents_are_refused() -> None:
    with pytest.raises(ConfigError, match="'dvp' is not"):
        make_plans(make_problem(), 5.0, ("dvp",))
    with pytest.raises(ConfigError, match="at least one policy"):
        make_plans(make_problem(), 5.0, ())
    with pytest.raises(EnvError, match="lower it"):
        make_plans(make_problem(), 1e9, ("random",))


def test_an_agent_of_another_task_is_refused(finished_run: Run) -> None:
    with pytest.raises(ConfigError, match="task fuelbreaks"):
        load_planning_agent(finished_run.path)


def test_the_shipped_agent_is_there_or_its_absence_is_told() -> None:
    folder = Path(str(flashdqn.planning.__file__)).parent / "agents"
    if (folder / SHIPPED).exists():
        assert read_agent(load_shipped_agent("cpu")).trained_size >= 20
    else:
        with pytest.raises(ConfigError, match="no trained agent"):
            load_shipped_agent("cpu")
