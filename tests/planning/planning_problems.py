"""Small problems for the tests of planning."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch

from flashdqn.agent.agent import Agent
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.envs.fuelbreaks.fire import DRY, EXTREME
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.stakes import Stakes
from flashdqn.envs.tasks import build_evaluation_env
from flashdqn.learn.learner import build_learner
from flashdqn.planning.ground import cut_landscape
from flashdqn.planning.problem import Problem, Scenario


def make_landscape(seed: int = 5, rows: int = 18, columns: int = 24) -> Landscape:
    """A rectangle of a generated landscape."""
    whole = generate_landscape(seed, max(rows, columns))
    return cut_landscape(whole, slice(0, rows), slice(0, columns))


def make_problem(
    seed: int = 5, rows: int = 18, columns: int = 24, maps: bool = False, **more: Any
) -> Problem:
    """Two scenarios; with `maps` also values, ignitions, forbidden cells and costs."""
    land = make_landscape(seed, rows, columns)
    scenarios = (
        Scenario("dry", DRY, 0.75),
        Scenario("storm", dataclasses.replace(EXTREME, wind_from=90.0), 0.25),
    )
    if not maps:
        return Problem(land, scenarios, Stakes(), duration=90.0, **more)
    random = np.random.default_rng(seed)
    shape = land.shape
    stakes = Stakes(
        value=random.integers(0, 5, shape).astype(np.float32),
        ignition=(random.random(shape) ** 2).astype(np.float32),
        forbidden=random.random(shape) < 0.3,
    )
    cost = random.uniform(0.5, 3.0, shape).astype(np.float32)
    return Problem(land, scenarios, stakes, cost=cost, duration=90.0, value_unit="houses", **more)


def make_agent(size: int = 14, scouts: int = 0) -> Agent:
    """An agent of a tiny network with random weights, none of them 0."""
    config = apply_settings(
        base_config("fuelbreaks-small"),
        {
            "env.size": size,
            "env.landscapes": 1,
            "env.held_out": 1,
            "env.fires": 1,
            "env.scouts": scouts,
            "env.budget": 4.0,
            "env.least_budget": 0.0,
            "network.channels": [6, 6],
            "network.hidden": [8],
        },
    )
    device = torch.device("cpu")
    learner = build_learner(config, build_evaluation_env(config.env, 1, device), device)
    generator = torch.Generator().manual_seed(3)
    weights = {
        name: tensor + 0.2 * torch.randn(tensor.shape, generator=generator)
        for name, tensor in learner.online.state_dict().items()
    }
    return Agent(config, weights, device)
