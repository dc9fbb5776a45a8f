"""Callbacks: look at a training while it runs, and end it when it is good enough.

python examples/stop_early.py
"""

import gymnasium

import flashdqn


def show(event: flashdqn.EvaluationEvent) -> None:
    """Print a line for every evaluation."""
    star = " (the best so far)" if event.best else ""
    print(f"{event.step:>6,} steps: {event.score:6.1f} ± {event.score_error:.1f}{star}")


def is_too_slow(event: flashdqn.ReportEvent) -> bool:
    """A callback that returns True ends the training, too."""
    return event.seconds > 600


# An instance is used itself: it is the only environment of the training. The preset of its name is the start.
env = gymnasium.make("CartPole-v1")
run = flashdqn.train(
    env,
    steps=4_000,
    on_evaluation=show,
    on_report=is_too_slow,
    stop_at_score=50,
    eval={"every": 1_000},
    log={"every": 500},
    progress=False,
)
print(f"ended by {run.summary['stopped']} after {run.summary['steps']:,} steps")
