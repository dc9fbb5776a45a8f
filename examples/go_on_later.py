"""A training in two parts, of an environment that only this program knows.

python examples/go_on_later.py
"""

from typing import Any

import gymnasium

import flashdqn


def make_env() -> gymnasium.Env[Any, Any]:
    """A cart with a longer pole. A run folder holds no code: whoever opens it passes this function again."""
    env = gymnasium.make("CartPole-v1")
    env.unwrapped.length = 0.8  # type: ignore[attr-defined]
    return env


SMALL = {"learn": {"starts": 200}, "eval": {"every": 1_000, "episodes": 5}, "log": {"every": 500}}

first = flashdqn.train(make_env, steps=1_000, progress=False, **SMALL)
print(f"first part:  {first.summary['steps']:,} steps")

# In the same program the run knows its environment. Steps are counted from the very start.
second = first.resume(steps=2_000, progress=False)
print(f"second part: {second.summary['steps']:,} steps")

# Another program, tomorrow: flashdqn.train(resume="runs/…", env=make_env, steps=3_000)
third = flashdqn.train(resume=first.path, env=make_env, steps=3_000, progress=False)
print(f"third part:  {third.summary['steps']:,} steps")
