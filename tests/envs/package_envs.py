"""Functions that make environments of other packages, as a user writes them (docs/environments.md)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np


def make_trading(**more: Any) -> Any:
    """gym-trading-env on prices of our own; columns named `feature…` are observed."""
    import gym_trading_env  # type: ignore[import-not-found] # noqa: F401
    import pandas

    close = 100 * np.exp(np.cumsum(np.random.default_rng(0).normal(0, 0.01, 1000)))
    prices = {"open": close, "high": close * 1.01, "low": close * 0.99, "close": close, "volume": 1.0}
    table = pandas.DataFrame(prices)
    table["feature_change"] = table["close"].pct_change().fillna(0)
    settings = {"positions": [-1, 0, 1], "verbose": 0, "max_episode_duration": 200}
    return gymnasium.make("TradingEnv", df=table, **settings | more)


def make_grid() -> Any:
    """grid2op by its converters to Gymnasium: some measurements, and actions by number."""
    import grid2op  # type: ignore[import-not-found]
    from grid2op.gym_compat import (  # type: ignore[import-not-found]
        BoxGymObsSpace,
        DiscreteActSpace,
        GymEnv,
    )

    grid = grid2op.make("rte_case5_example", test=True)
    env = GymEnv(grid)
    env.observation_space = BoxGymObsSpace(grid.observation_space, attr_to_keep=["rho", "topo_vect"])
    env.action_space = DiscreteActSpace(grid.action_space, attr_to_keep=["set_bus"])
    return env
