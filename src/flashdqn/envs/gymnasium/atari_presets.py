"""Atari games of the Arcade Learning Environment, with updated settings of DQN (Mnih et al. 2015).

Unchanged: the network, γ, a million frames of replay, a gradient step of 32 transitions for every four steps, 50
million steps, which are 200 million frames. Changed:

- Sticky actions instead of no-op starts, and a lost life ends nothing (Machado et al. 2018).
- Adam at 6.25e-5 with ε 1.5e-4 instead of RMSProp at 2.5e-4; a target network copied every 2,000 gradient steps
  instead of 10,000; exploration that falls to 0.01 over 250,000 steps instead of to 0.1 over a million; learning
  from 20,000 steps on instead of 50,000: as in Dopamine and Rainbow (Castro et al. 2018, Hessel et al. 2018).
- The online network chooses the action of the next state (double).
- 32 games at once instead of one; the ratio of gradient steps to transitions stays the same.
"""

from __future__ import annotations

from flashdqn.envs.task import Preset

#: The preset that any ALE/… game starts from.
ATARI = Preset(
    "an Atari game as in DQN's paper, 200 million frames, for a GPU: --env.id ALE/Breakout-v5",
    {
        "steps": 50_000_000,
        "envs": 32,
        "train_ratio": 0.25,
        "env": {"id": "ALE/Breakout-v5", "stack": 4, "clip_reward": 1.0},
        "network": {"torso": "nature", "hidden": (512,)},
        "replay": {"capacity": 1_000_000},
        "learn": {
            "batch_size": 32,
            "starts": 20_000,
            "lr": 6.25e-5,
            "adam_eps": 1.5e-4,
            "target_every": 2_000,
            "v_min": -10.0,
            "v_max": 10.0,
        },
        "explore": {"end": 0.01, "over": 250_000},
        "eval": {"every": 1_000_000, "episodes": 16},
        "log": {"every": 25_000, "checkpoint_every": 0},
    },
)

PONG = Preset(
    "Atari Pong in a short time, for a GPU with many CPU cores (pip install ale-py)",
    # Batches eight times as large, a quarter of the gradient steps, and a larger step size to go with them. A point
    # is decided long before it is counted, so returns over several steps help.
    {
        "steps": 4_000_000,
        "envs": 64,
        "train_ratio": 1 / 16,
        "env": {"id": "ALE/Pong-v5"},
        "replay": {"capacity": 400_000, "n_step": 3},
        "learn": {"batch_size": 256, "lr": 2.5e-4, "adam_eps": 1e-5, "target_every": 250},
        "explore": {"over": 400_000},
        "eval": {"every": 500_000},
        "log": {"every": 50_000},
    },
    base=ATARI,
)

ATARI_PRESETS = {"atari": ATARI, "atari-pong": PONG}
