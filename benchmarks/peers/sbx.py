"""SBX: Stable-Baselines3's loop, with the network and its update compiled by JAX (plain DQN, not double)."""

from __future__ import annotations

import os
import sys

from peers import task

if "--threads" in sys.argv and sys.argv[sys.argv.index("--threads") + 1] == "1":
    # XLA reads this once, when it starts; it knows one thread or all cores.
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import sbx

from peers.sb3 import FOREVER, Measure, SnakeVecEnv, settings


def main() -> None:
    asked = task.arguments()
    window = task.Window(asked.seconds)
    model = sbx.DQN("MlpPolicy", SnakeVecEnv(asked.envs), **settings(asked.envs))
    model.learn(FOREVER, callback=Measure(window))
    about = {"envs": asked.envs, "version": sbx.__version__}
    task.report(window.result(), algorithm="DQN", **about)


if __name__ == "__main__":
    main()
