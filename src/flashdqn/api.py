"""The Python interface: train, make_env."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from flashdqn.compute.device import choose_device
from flashdqn.config import Config
from flashdqn.config.presets import PRESETS, base_config
from flashdqn.config.schedules import scale_schedules
from flashdqn.config.settings import apply_settings, flatten_keys, list_receivers
from flashdqn.core.contract import VecEnv
from flashdqn.core.errors import ConfigError
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.core.user_code import Permission, find_names
from flashdqn.envs.tasks import TASKS, build_env, find_task
from flashdqn.learn.algorithms import apply_algorithm
from flashdqn.runs.folder import RunFolder
from flashdqn.show.report import make_run_pages
from flashdqn.show.terminal import CleanConsole
from flashdqn.training.progress import Silent, choose_progress
from flashdqn.training.session import resume_run, start_run
from flashdqn.training.summary import Run


def train(
    preset: str | Config = "snake",
    *,
    algo: str | None = None,
    resume: str | Path | None = None,
    progress: bool = True,
    trust: bool = False,
    **settings: Any,
) -> Run:
    """Train a preset, or your own configuration, and return the finished run.

    `algo` puts an algorithm on top of it: `train("snake-flood", algo="rainbow")`. `settings` are the same as on
    the command line: `steps=200_000`, `train_ratio=0.125`, `env={"size": 12}`, or `**{"env.size": 12}`. With
    `resume` the run continues with its own configuration; only the budget may change. Code that the resumed run
    names as module:Name is imported only with `trust=True`, or if `settings` name it too; the same goes for
    servers that it sends figures to.
    """
    shown = choose_progress(CleanConsole(stderr=True)) if progress else Silent()
    if resume is not None:
        if algo is not None:
            raise ConfigError("A resumed run keeps its algorithm: leave out algo, or start a new run.")
        given = frozenset(name.replace("-", "_") for name in flatten_keys(settings))
        permission = Permission(frozenset(find_names(settings)), everything=trust, settings=given)
        config = RunFolder.open(Path(resume)).config(permission)
        wanted = check_resume(config, apply_settings(config, settings))
        permission.require_sending(list_receivers(wanted), Path(resume) / "config.json")
        return resume_run(wanted, Path(resume), shown, make_run_pages(wanted))
    base = preset if isinstance(preset, Config) else base_config(preset)
    base = base if algo is None else apply_algorithm(base, algo)
    config = apply_settings(base, settings)
    if isinstance(preset, str):  # its schedules are for its own budget
        names = {name.replace("-", "_") for name in flatten_keys(settings)}
        config = scale_schedules(config, base.steps, names)
    return start_run(config, shown, make_run_pages(config))


def check_resume(run: Config, wanted: Config) -> Config:
    """Refuse a configuration that differs from the run's own in more than the budget."""
    same = dataclasses.replace(wanted, steps=run.steps, episodes=run.episodes, max_time=run.max_time)
    changed = [f.name for f in dataclasses.fields(run) if getattr(same, f.name) != getattr(run, f.name)]
    if changed:
        raise ConfigError(
            f"A resumed run keeps its configuration; only --steps, --episodes and --max-time can change, "
            f"not {', '.join(changed)}. Start a new run for that."
        )
    return wanted


def make_env(name: str, num_envs: int, device: str = "cpu", **settings: Any) -> VecEnv:
    """An environment by its name, a preset's or Gymnasium's (gym:CartPole-v1), with settings such as `size=12`."""
    if name in PRESETS or ":" in name:
        config = base_config(name).env
    elif name in TASKS:
        config = find_task(name).config()
    else:
        raise ConfigError(f"Unknown environment '{name}'{suggest_nearest(name, {*TASKS, *PRESETS})}")
    if num_envs < 1:
        raise ConfigError(f"num_envs must be at least 1, and is {num_envs}.")
    return build_env(apply_settings(config, settings, "env."), num_envs, choose_device(device))
