"""The names under which Gymnasium knows our tasks. `import flashdqn` registers them.

PyTorch and the games are imported when an environment is made, not before.
"""

from __future__ import annotations

from flashdqn.envs.tasks import TASKS

#: Gymnasium's name → our task
NAMES = {entry.gymnasium: name for name, entry in TASKS.items() if entry.gymnasium}


def register_gymnasium_envs() -> None:
    """Add the names to Gymnasium's registry; do nothing if Gymnasium is not installed."""
    try:
        import gymnasium
    except ImportError:
        return
    for name, task in NAMES.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point="flashdqn.as_gymnasium.single:OneGame",
                vector_entry_point="flashdqn.as_gymnasium.batch:GameVectorEnv",
                kwargs={"task": task},
            )
