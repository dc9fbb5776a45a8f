"""Wildfire fuel breaks."""

from __future__ import annotations

from flashdqn.config import (
    Config,
    EvalConfig,
    ExploreConfig,
    LearnConfig,
    LogConfig,
    NetworkConfig,
    ReplayConfig,
    RuntimeConfig,
)
from flashdqn.envs import FuelBreaksConfig
from flashdqn.presets.preset import Preset

#: 26 GFLOP for a forward pass over 50x50 cells.
FULL_NETWORK = NetworkConfig(
    torso="cells",
    channels=(128, 128, 256, 256, 256, 256),
    attention=4,
    hidden=(256,),
    layer_norm=True,
    dueling=True,
)

FUELBREAKS: dict[str, Preset] = {
    "fuelbreaks-small": Preset(
        "fuel breaks on landscapes of 20x20 cells, for two cores (docs/fuelbreaks.md)",
        Config(
            preset="fuelbreaks-small",
            steps=200_000,
            envs=64,
            train_ratio=1 / 32,
            env=FuelBreaksConfig(
                size=20, landscapes=128, held_out=32, budget=0.1, least_budget=0.01, fires=200
            ),
            network=NetworkConfig(
                torso="cells", channels=(24, 24, 24), attention=2, hidden=(32,), layer_norm=True, dueling=True
            ),
            replay=ReplayConfig(capacity=200_000),
            # What a break is worth shows at once and in the next few, while all that follows is nearly the same
            # whichever cell is taken: with γ near 1 that sum drowns the differences between cells.
            learn=LearnConfig(
                gamma=0.5,
                batch_size=32,
                starts=2_000,
                lr=1e-3,
                lr_end=1e-4,
                lr_over=150_000,
                target_every=0,
                target_tau=0.01,
                v_min=0.0,
                v_max=20.0,
            ),
            explore=ExploreConfig(schedule="spread", start=0.5, end=0.005),
            eval=EvalConfig(every=25_000, episodes=64),
            log=LogConfig(every=5_000, checkpoint_every=0),
        ),
    ),
    "fuelbreaks-20": Preset(
        "fuel breaks on landscapes of 20x20 cells, with a network for a GPU: minutes (docs/fuelbreaks.md)",
        Config(
            preset="fuelbreaks-20",
            steps=800_000,
            envs=256,
            train_ratio=1 / 32,
            env=FuelBreaksConfig(
                size=20, landscapes=1024, held_out=64, budget=0.2, least_budget=0.01, fires=100
            ),
            network=NetworkConfig(
                torso="cells", channels=(64,) * 6, attention=4, hidden=(64,), layer_norm=True, dueling=True
            ),
            replay=ReplayConfig(capacity=600_000),
            # Lines of breaks pay when they are closed: with this much data γ = 0.8 did better than 0.9 and 0.97.
            learn=LearnConfig(
                gamma=0.8,
                batch_size=256,
                starts=5_000,
                lr=5e-4,
                lr_end=2e-5,
                lr_over=800_000,
                target_every=0,
                target_tau=0.01,
                v_min=0.0,
                v_max=50.0,
            ),
            explore=ExploreConfig(schedule="spread", start=0.5, end=0.005),
            eval=EvalConfig(every=100_000, episodes=128),
            log=LogConfig(every=20_000, checkpoint_every=0),
            runtime=RuntimeConfig(precision="bf16"),
        ),
    ),
    "fuelbreaks": Preset(
        "fuel breaks on landscapes of 50x50 cells, with a network of 26 GFLOP, for a GPU (docs/fuelbreaks.md)",
        Config(
            preset="fuelbreaks",
            steps=1_000_000,
            envs=128,
            train_ratio=1 / 32,
            env=FuelBreaksConfig(landscapes=192, held_out=32, budget=0.1, least_budget=0.01, fires=100),
            network=FULL_NETWORK,
            replay=ReplayConfig(capacity=1_000_000),
            learn=LearnConfig(
                gamma=0.5,
                batch_size=32,
                starts=10_000,
                lr=3e-4,
                lr_end=3e-5,
                lr_over=1_000_000,
                target_every=0,
                target_tau=0.01,
                v_min=0.0,
                v_max=20.0,
            ),
            explore=ExploreConfig(schedule="spread", start=0.5, end=0.002),
            eval=EvalConfig(every=100_000, episodes=64),
            log=LogConfig(every=25_000, checkpoint_every=500_000),
            runtime=RuntimeConfig(precision="bf16"),
        ),
    ),
}
