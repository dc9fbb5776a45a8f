"""From a name to a Gymnasium vector environment."""

from __future__ import annotations

import difflib
import functools
import importlib
import multiprocessing
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import SyncVectorEnv, VectorEnv

from flashdqn.compute.core_count import cores
from flashdqn.core.blame import belongs_to_us, describe_failure, env_error
from flashdqn.core.errors import ConfigError, EnvError, EnvFailureError
from flashdqn.core.guard import Guard
from flashdqn.envs.gymnasium.action_repeat import ActionRepeat
from flashdqn.envs.gymnasium.checked import CheckedEnv
from flashdqn.envs.gymnasium.config import GymConfig
from flashdqn.envs.gymnasium.first_look import read_spaces
from flashdqn.envs.gymnasium.old_api import accepts_argument, adopt_env, find_in_old_registry, is_old_env
from flashdqn.envs.gymnasium.plugins import load_plugin, register_on_request
from flashdqn.envs.gymnasium.pool import make_pool
from flashdqn.envs.gymnasium.processes import ProcessVector
from flashdqn.envs.gymnasium.text_parts import leave_out_texts
from flashdqn.envs.gymnasium.workers import WorkerError
from flashdqn.envs.live_env import find_live_env, is_live_name, shorten_live_name

#: How Python says that an argument is missing.
MISSING_ARGUMENT = re.compile(
    r"(\S+\(\) missing \d+ required .*?argument.*?: .*?)( was raised from .*)?$", re.S
)

Make = Callable[[], gymnasium.Env[Any, Any]]


def make_vector(config: GymConfig, num_envs: int) -> VectorEnv[Any, Any, Any]:
    """Make `num_envs` copies, which reset by Gymnasium's next-step rule if we can choose."""
    if config.action_repeat > 1 and (config.vectorization == "envpool" or config.id.startswith("ALE/")):
        raise ConfigError(
            "env.action_repeat is not for EnvPool and Atari games, which repeat actions themselves: use "
            "--env.atari.frame-skip, or --env.kwargs."
        )
    if config.vectorization == "envpool":
        return make_pool(config, num_envs)
    guard = Guard(shorten_live_name(config.id), config.timeout)
    found = guard.call("import", find_env, config.id)
    if config.vectorization == "async":
        return make_processes(found, config, num_envs)
    return guard.call("make", make_vector_here, found, config, num_envs)


def make_vector_here(found: EnvSpec | Make, config: GymConfig, num_envs: int) -> VectorEnv[Any, Any, Any]:
    """Make the environments in this process."""
    if is_atari(found, config) and config.vectorization == "auto":
        from flashdqn.envs.gymnasium.atari import make_atari_frames

        return make_atari_frames(found, config, num_envs)  # type: ignore[arg-type]
    chosen = config.vectorization == "auto" and config.action_repeat == 1
    if chosen and isinstance(found, EnvSpec) and found.vector_entry_point:
        env: object = gymnasium.make_vec(
            found, num_envs, "vector_entry_point", **constructor_arguments(config)
        )
        if not isinstance(env, VectorEnv):
            raise EnvError(
                f"{config.id} must make a gymnasium.vector.VectorEnv, and made a {type(env).__name__}."
            )
        return env
    return SyncVectorEnv([functools.partial(make_checked_env, found, config)] * num_envs, copy=False)


def make_processes(found: EnvSpec | Make, config: GymConfig, num_envs: int) -> VectorEnv[Any, Any, Any]:
    """Make the environments in worker processes."""
    makers = [functools.partial(make_checked_env, found, config)] * num_envs
    with blame_worker(config):
        return ProcessVector(makers, config.workers or cores(), config.timeout)


#: Environments that were made in a process of their own, and lived.
_tried: set[str] = set()


def try_in_process(config: GymConfig) -> None:
    """Make, reset and close an environment in a process of its own before that happens in this one, if the user
    wants processes: what ends or hangs that process would do the same to this one."""
    if repr(config) not in _tried:
        found = Guard(shorten_live_name(config.id), config.timeout).call("import", find_env, config.id)
        with blame_worker(config):
            read_spaces(functools.partial(make_checked_env, found, config), config.timeout, with_reset=True)
        _tried.add(repr(config))


@contextmanager
def blame_worker(config: GymConfig) -> Iterator[None]:
    """What happens in a worker process that makes environments becomes one sentence."""
    try:
        yield
    except WorkerError as error:
        raise env_error(config.id, error.doing, error.failure) from None
    except multiprocessing.TimeoutError:
        raise EnvFailureError(
            f"{config.id} cannot be made: its constructor has not returned for {config.timeout:g} s. It hangs, or "
            "takes longer: then raise --env.timeout."
        ) from None


def make_checked_env(found: EnvSpec | Make, config: GymConfig) -> gymnasium.Env[Any, Any]:
    """Make one environment whose answers are checked."""
    name = shorten_live_name(config.id)
    env: gymnasium.Env[Any, Any] = CheckedEnv(make_single_env(found, config), name)
    return env if config.action_repeat == 1 else ActionRepeat(env, name, config.action_repeat)


def make_single_env(found: EnvSpec | Make, config: GymConfig) -> gymnasium.Env[Any, Any]:
    """Make one environment, here or in a worker process."""
    if is_atari(found, config):
        from flashdqn.envs.gymnasium.atari import OneAtari

        return OneAtari(found.kwargs["game"], config)  # type: ignore[union-attr]
    name = shorten_live_name(config.id)
    if isinstance(found, EnvSpec):
        with ask_for_arguments(name):
            made = gymnasium.make(found, disable_env_checker=True, **constructor_arguments(config))
        return leave_out_texts(adopt_env(made, name), name)
    env = call_maker(found, config.kwargs, name)
    if not isinstance(env, gymnasium.Env) and not is_old_env(env):
        raise EnvError(f"{name} must return a gymnasium.Env, and returned a {type(env).__name__}.")
    env = adopt_env(env, name)
    if config.max_steps:
        env = gymnasium.wrappers.TimeLimit(env, config.max_steps)
    return leave_out_texts(env, name)


def call_maker(found: Make, kwargs: dict[str, Any], name: str) -> Any:
    """Call a user's function or class. One that takes no render mode may still draw."""
    if "render_mode" in kwargs and not accepts_argument(found, "render_mode"):
        kwargs = {key: value for key, value in kwargs.items() if key != "render_mode"}
    with ask_for_arguments(name):
        return found(**kwargs)


@contextmanager
def ask_for_arguments(name: str) -> Iterator[None]:
    """Say how an argument is given that an environment cannot be made without."""
    try:
        yield
    except TypeError as error:
        if (missing := MISSING_ARGUMENT.match(str(error))) is None:
            raise
        raise EnvError(
            f"{name} cannot be made: TypeError: {missing[1]}. Give it by --env.kwargs, as JSON; or write a "
            "function that makes the environment, and train module:function."
        ) from None


def is_atari(found: object, config: GymConfig) -> bool:
    """Whether a name stands for an Atari game that is played from small gray frames."""
    return isinstance(found, EnvSpec) and found.namespace == "ALE" and config.atari.preprocess


def constructor_arguments(config: GymConfig) -> dict[str, Any]:
    """The arguments of a registered environment."""
    return config.kwargs | ({"max_episode_steps": config.max_steps} if config.max_steps else {})


def find_env(name: str) -> EnvSpec | Make:
    """What a name stands for: a registered environment, or a user's function."""
    if is_live_name(name):
        return find_live_env(name)  # type: ignore[no-any-return]
    module, colon, rest = name.partition(":")
    if not colon:
        load_plugin(name)
        return _find_registered(name)
    loaded = _import_env_module(module, name)
    if callable(function := getattr(loaded, rest, None)):
        return function  # type: ignore[no-any-return]
    register_on_request(loaded, rest)
    if rest in gymnasium.registry:
        return _find_registered(rest)
    if (old := find_in_old_registry(module, rest)) is not None:
        return old
    root = module.partition(".")[0]
    own = [key for key, spec in gymnasium.registry.items() if str(spec.entry_point).startswith(root)]
    close = difflib.get_close_matches(rest, [*own, *dir(loaded)], n=1, cutoff=0.6)
    raise ConfigError(
        f"The module {module} has neither a function '{rest}' that makes an environment, nor does it register one "
        f"of that name{f'; did you mean {close[0]!r}' if close else ''}{'?' if close else '.'}"
    )


def _find_registered(name: str) -> EnvSpec:
    try:
        return gymnasium.spec(name)
    except gymnasium.error.Error:
        close = find_similar_id(name)
        hint = f"did you mean '{close}'?" if close else "is its package installed?"
        raise ConfigError(
            f"Gymnasium has no environment '{name}'; {hint} One that a package of yours registers is written "
            "module:Name, and one that a function makes module:function."
        ) from None


def find_similar_id(name: str) -> str | None:
    """The registered environment that was probably meant: what counts is the name, not namespace and version."""

    def bare(key: str) -> str:
        return re.sub(r"-v\d+$", "", key.rpartition("/")[2]).lower()

    by_name: dict[str, list[str]] = {}
    for key in gymnasium.registry:
        by_name.setdefault(bare(key), []).append(key)
    wanted = bare(name)
    close = [wanted] if wanted in by_name else difflib.get_close_matches(wanted, by_name, n=1, cutoff=0.7)
    if not close:
        return None
    namespace, _, rest = name.rpartition("/")
    version = rest.rpartition("-v")[2]

    def likeness(key: str) -> tuple[bool, bool]:
        return key.rpartition("-v")[2] == version, key.rpartition("/")[0] == namespace

    return max(reversed(by_name[close[0]]), key=likeness)


def _import_env_module(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if module == missing or module.startswith(f"{missing}."):
            raise ConfigError(f"There is no module '{missing}' to take '{name}' from.") from None
        raise EnvError(f"{module} needs the module '{missing}', which is not installed.") from error
    except BaseException as error:  # the user's own code
        if belongs_to_us(error):
            raise
        raise env_error(module, "import", describe_failure(error)) from error
