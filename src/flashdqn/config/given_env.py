"""From an environment that a program passes, in any form, to the settings of a training."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from flashdqn.config.presets import PRESETS, base_config, resolve_preset
from flashdqn.config.settings import apply_settings
from flashdqn.config.training import Config
from flashdqn.core.errors import ConfigError
from flashdqn.core.user_code import Permission, find_names
from flashdqn.envs.live_env import (
    is_instance_name,
    is_live_name,
    lend_name,
    name_env_object,
    shorten_live_name,
    takes_argument,
)
from flashdqn.envs.task import EnvConfig
from flashdqn.envs.tasks import find_task

#: A preset's or an environment's name; a class or a function that makes an environment; a `gymnasium.Env` itself;
#: or the settings of an environment.
EnvLike: TypeAlias = "str | type[Any] | Callable[..., Any] | EnvConfig | Any"

#: Changed about the usual settings where there is only one environment.
ONE_INSTANCE = {"envs": 1, "eval": {"episodes": 10}}


def start_from_env(env: EnvLike | Config) -> Config:
    """The configuration to start from: a preset's, or that of an environment in any form."""
    if isinstance(env, Config):
        return env
    if isinstance(env, str):
        return base_config(complete_env_name(env))
    if isinstance(env, EnvConfig):
        return Config(preset=env.task, env=env)
    return _start_from_object(env)


def complete_env_name(name: str) -> str:
    """Put `gym:` before a name that Gymnasium knows, as its users write it: CartPole-v1."""
    naming = find_task("gym").naming
    if name in PRESETS or ":" in name or naming is None or not naming.resembles(name):
        return name
    return f"gym:{name}"


def _start_from_object(env: Any) -> Config:
    """The same for a class, a function or an instance."""
    instance = is_single_env(env)
    if not instance and (not callable(env) or (hasattr(env, "reset") and not isinstance(env, type))):
        raise ConfigError(_describe_refusal(env))
    batched = not instance and takes_argument(env, "num_envs")
    task = find_task("own" if batched else "gym")
    name = name_env_object(env, instance)
    if not is_live_name(name):
        return base_config(f"{task.name}:{name}")
    assert task.naming is not None
    config = resolve_preset(task, task.naming.start(_find_registered_name(env) or name))
    config = apply_settings(config, {"env": {"id": name}} | (ONE_INSTANCE if instance else {}))
    shown = shorten_live_name(name)
    return dataclasses.replace(config, preset=f"{shown}-object" if shown in PRESETS else shown)


def _describe_refusal(env: Any) -> str:
    kind = type(env).__name__
    if hasattr(env, "num_envs"):
        return (
            f"A {kind} is a vector of environments, and evaluation needs others of another size: pass a class or a "
            "function instead, which makes one environment, or takes num_envs if it makes a batched game."
        )
    return (
        "An environment is a name (snake, CartPole-v1, my_module:make_env), a class or a function that makes a "
        f"gymnasium.Env, a gymnasium.Env itself, or a group of settings, and this is of the type {kind}."
    )


def is_single_env(env: Any) -> bool:
    """Whether an object is one environment: Gymnasium's, or of the package gym before it."""
    try:
        import gymnasium
    except ImportError:
        return False
    from flashdqn.envs.gymnasium.old_api import is_old_env

    return isinstance(env, gymnasium.Env) or (is_old_env(env) and not hasattr(env, "num_envs"))


def _find_registered_name(env: Any) -> str:
    """The name under which Gymnasium has made an instance, whose preset is a good start; CartPole-v1."""
    spec = getattr(env, "spec", None)
    name = str(spec.id) if spec is not None else ""
    return "" if name.startswith("ALE/") else name


def check_instance(config: Config) -> None:
    """Refuse what one instance cannot do: there is only one, and it lives in this process."""
    name = getattr(config.env, "id", "")
    if not is_instance_name(name):
        return
    shown = shorten_live_name(name)
    if config.envs != 1:
        raise ConfigError(
            f"{shown} is an instance, and there is only one of it, not {config.envs}: pass a class or a function "
            "that makes the environment, or leave out envs."
        )
    if getattr(config.env, "vectorization", "auto") in ("async", "envpool"):
        raise ConfigError(
            f"{shown} is an instance of this process: pass a class or a function for other processes."
        )


def replace_env(config: EnvConfig, env: EnvLike | Mapping[str, Any] | None) -> EnvConfig:
    """The settings of a run's environment with `env` in its place: some settings by name, or another environment in
    any form, to which the run's other settings still apply."""
    if env is None:
        return config
    if isinstance(env, EnvConfig):
        return env
    if isinstance(env, Mapping):
        return apply_settings(config, env, "env.")
    name = getattr(config, "id", "")
    if is_live_name(name) and not isinstance(env, str):
        new = start_from_env(env).env  # refuses what is not an environment
        if new.task != config.task:
            return new
        if lend_name(name, env, is_single_env(env)):
            return config
    new = start_from_env(env).env
    if new.task == config.task and hasattr(new, "id"):
        return dataclasses.replace(config, id=new.id)  # type: ignore[call-arg]
    return new


def find_env_change(env: EnvLike | Mapping[str, Any] | None) -> Callable[[Config], Config] | None:
    """What puts `env` into a run's configuration; None if there is nothing to change."""
    if env is None:
        return None
    return lambda config: dataclasses.replace(config, env=replace_env(config.env, env))


def permit_given_env(permission: Permission, env: EnvLike | Mapping[str, Any] | None) -> Permission:
    """Allow a file, besides, the names of the environment that the user has passed; settings alone name nothing."""
    if env is None or isinstance(env, Mapping):
        return permission
    given = frozenset(find_names(dataclasses.asdict(start_from_env(env).env)))
    return dataclasses.replace(permission, names=permission.names | given)
