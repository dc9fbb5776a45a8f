"""The Python interface: train, evaluate, make_env; `run.py` has what a training returns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashdqn.agent.agent import Agent, load
from flashdqn.api.notebook import NotebookDisplay, find_notebook
from flashdqn.api.run import Run
from flashdqn.compute.device import choose_device
from flashdqn.config import Config
from flashdqn.config.given_env import (
    EnvLike,
    check_instance,
    complete_env_name,
    find_env_change,
    permit_given_env,
    start_from_env,
)
from flashdqn.config.names import replace_short_names
from flashdqn.config.presets import PRESETS
from flashdqn.config.schedules import scale_schedules
from flashdqn.config.settings import apply_settings, flatten_keys, list_receivers
from flashdqn.config.training import check_resume
from flashdqn.core.contract import VecEnv
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import describe_value
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.core.user_code import Permission, find_names
from flashdqn.envs.tasks import TASKS, build_env, find_task
from flashdqn.learn.algorithms import apply_algorithm
from flashdqn.runs.folder import RunFolder
from flashdqn.show.report import make_run_pages
from flashdqn.show.terminal import CleanConsole
from flashdqn.training.callbacks import Callbacks, OnCheckpoint, OnEvaluation, OnReport
from flashdqn.training.clock import RunClock
from flashdqn.training.evaluate import Evaluation
from flashdqn.training.memory import check_envs_fit
from flashdqn.training.progress import Progress, Silent, choose_progress
from flashdqn.training.session import resume_run, start_run

#: This many environments fit into any memory; more are counted first.
FEW = 10_000


def train(
    preset: EnvLike | Config = "snake",
    *,
    algo: str | None = None,
    resume: str | os.PathLike[str] | None = None,
    progress: bool = True,
    trust: bool = False,
    on_report: OnReport | None = None,
    on_evaluation: OnEvaluation | None = None,
    on_checkpoint: OnCheckpoint | None = None,
    stop_at_score: float | None = None,
    env: EnvLike | Mapping[str, Any] | None = None,
    **settings: Any,
) -> Run:
    """Train an agent, and return the finished run: `flashdqn.train(MyEnv, steps=100_000, stop_at_score=475)`.

    The first argument is what to train on: a preset's name, a Gymnasium name (CartPole-v1), a class or a function
    that makes a `gymnasium.Env` (or takes `num_envs` and makes a batched game), an environment itself, or your own
    `Config`. An instance is used itself, as the only environment, and is not closed; evaluation plays on copies.

    `algo` puts an algorithm on top of it: `train("snake-flood", algo="rainbow")`. `settings` are the same as on
    the command line: `steps=200_000`, `lr=1e-3`, `train_ratio=0.125`, `env={"size": 12}`, or `**{"env.size": 12}`.

    `on_report`, `on_evaluation` and `on_checkpoint` are called between two steps, each with one object
    (`ReportEvent`, `EvaluationEvent`, `CheckpointEvent`); one that returns True ends the training, as an evaluation
    with `stop_at_score` or more does.

    With `resume` the run continues with its own configuration; only the budget may change. Code that the resumed
    run names as module:Name is imported only with `trust=True`, or if `settings` name it too; the same goes for
    servers that it sends figures to. The run of an environment that no name leads to needs `env=` again.
    """
    clock = RunClock()
    check_kind("algo", algo, str, type(None))
    check_kind("resume", resume, str, os.PathLike, type(None))
    callbacks = Callbacks(on_report, on_evaluation, on_checkpoint, stop_at_score)
    settings = replace_short_names(settings)
    if resume is not None:
        if algo is not None:
            raise ConfigError("A resumed run keeps its algorithm: leave out algo, or start a new run.")
        named = settings if env is None or not isinstance(env, Mapping) else settings | {"env": env}
        given = frozenset(name.replace("-", "_") for name in flatten_keys(named))
        permission = Permission(frozenset(find_names(named)), everything=trust, settings=given)
        return _resume(Path(resume), permission, _choose_display(progress), callbacks, env, settings, clock)
    if isinstance(env, Mapping):
        settings = settings | {"env": env}
    elif env is not None:
        if preset != "snake":
            raise ConfigError("The environment is given twice: as the first argument, and as env.")
        preset = env
    base = start_from_env(preset)
    base = base if algo is None else apply_algorithm(base, algo)
    config = apply_settings(base, settings)
    if not isinstance(preset, Config):  # a preset's schedules are for its own budget
        names = {name.replace("-", "_") for name in flatten_keys(settings)}
        config = scale_schedules(config, base.steps, names)
    check_instance(config)
    check_stop_score(config, stop_at_score)
    pages = make_run_pages(config)
    return Run.from_end(start_run(config, _choose_display(progress), pages, callbacks, clock))


def resume_training(
    path: Path,
    permission: Permission,
    *,
    progress: bool = True,
    on_report: OnReport | None = None,
    on_evaluation: OnEvaluation | None = None,
    on_checkpoint: OnCheckpoint | None = None,
    stop_at_score: float | None = None,
    env: EnvLike | None = None,
    **settings: Any,
) -> Run:
    """Continue a run that may import what `permission` allows."""
    callbacks = Callbacks(on_report, on_evaluation, on_checkpoint, stop_at_score)
    return _resume(path, permission, _choose_display(progress), callbacks, env, settings, RunClock())


def _resume(
    path: Path,
    permission: Permission,
    shown: Progress,
    callbacks: Callbacks,
    env: EnvLike | Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    clock: RunClock,
) -> Run:
    """Continue a run with another budget; `env` is its environment once more, or settings that must not differ."""
    change = None
    if isinstance(env, Mapping):
        settings = dict(settings) | {"env": env}
    else:
        change, permission = find_env_change(env), permit_given_env(permission, env)
    config = RunFolder.open(path).config(permission, change)
    wanted = check_resume(config, apply_settings(config, settings))
    check_instance(wanted)
    check_stop_score(wanted, callbacks.stop_at_score)
    permission.require_sending(list_receivers(wanted), path / "config.json")
    return Run.from_end(resume_run(wanted, path, shown, make_run_pages(wanted), callbacks, clock))


def _choose_display(progress: bool) -> Progress:
    if not progress:
        return Silent()
    display = find_notebook()
    return choose_progress(CleanConsole(stderr=True)) if display is None else NotebookDisplay(display)


def check_kind(name: str, value: object, *kinds: type) -> None:
    """Refuse an argument of another type."""
    if not isinstance(value, kinds):
        expected = " or ".join(kind.__name__ for kind in kinds if kind is not type(None))
        raise ConfigError(f"{name} must be of type {expected}, and is {describe_value(value)}.")


def check_stop_score(config: Config, score: float | None) -> None:
    """Refuse a score that no evaluation could reach."""
    if score is None:
        return
    number = isinstance(score, int | float) and not isinstance(score, bool) and score == score
    if not number or (isinstance(score, int) and score.bit_length() > 1000):  # more than a float can hold
        raise ConfigError(f"stop_at_score must be a number, and is {describe_value(score)}.")
    if not config.eval.every:
        raise ConfigError(
            "stop_at_score needs evaluations, and eval.every is 0: set it to a number of steps."
        )


def evaluate(
    agent: Agent | Run | str | os.PathLike[str],
    env: EnvLike | Mapping[str, Any] | None = None,
    episodes: int = 100,
    *,
    seed: int | None = None,
    trust: bool = False,
) -> Evaluation:
    """Play games with an agent, without exploration: `flashdqn.evaluate(agent, episodes=20).mean_score`.

    `agent` is an agent, a run, or the path of either. `env` is where to play, if not on the agent's own kind of
    environment: any form that `train` takes, or some settings, `env={"size": 15}`; the network must fit it. An
    instance plays its games one after the other, and is not closed. `trust` is as in `load`, for a path.
    """
    if isinstance(agent, Run):
        agent = agent.agent()
    elif not isinstance(agent, Agent):
        changes = isinstance(env, Mapping)
        agent = load(agent, trust=trust, env=None if changes else env)
        env = env if changes else None
    return agent.evaluate(episodes, seed, env)


def make_env(name: str, num_envs: int, device: str = "cpu", **settings: Any) -> VecEnv:
    """A batched environment by its name: `flashdqn.make_env("snake", 64, size=12)`.

    The name is a preset's or Gymnasium's (gym:CartPole-v1); settings are those of the environment.
    """
    check_kind("name", name, str)
    check_kind("num_envs", num_envs, int)
    name = complete_env_name(name)
    if name in PRESETS or ":" in name:
        config = start_from_env(name).env
    elif name in TASKS:
        config = find_task(name).config()
    else:
        raise ConfigError(f"Unknown environment '{name}'{suggest_nearest(name, {*TASKS, *PRESETS})}")
    if num_envs < 1 or num_envs is True:
        raise ConfigError(f"num_envs must be at least 1, and is {describe_value(num_envs)}.")
    config, place = apply_settings(config, settings, "env."), choose_device(device)
    if num_envs > FEW:
        check_envs_fit(config, num_envs, place)
    return build_env(config, num_envs, place)
