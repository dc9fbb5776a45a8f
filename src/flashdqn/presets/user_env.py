"""A batched game of the user's own."""

from __future__ import annotations

from flashdqn.config import Config, EvalConfig, ExploreConfig, LearnConfig, LogConfig, ReplayConfig
from flashdqn.envs import UserEnvConfig

#: Where a game of one's own starts from: many boards, for it is fast.
ANY_OWN = Config(
    preset="own",
    steps=500_000,
    envs=256,
    train_ratio=1 / 32,
    env=UserEnvConfig(),
    replay=ReplayConfig(capacity=200_000),
    learn=LearnConfig(batch_size=128, starts=10_000, target_every=500, v_min=-100.0, v_max=100.0),
    explore=ExploreConfig(end=0.02, over=100_000),
    eval=EvalConfig(every=100_000, episodes=100),
    log=LogConfig(every=25_000, checkpoint_every=250_000),
)
