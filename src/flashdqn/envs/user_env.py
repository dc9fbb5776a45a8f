"""A user's batched environment by its name: `my_game:Coins`, called with `num_envs` and, if it takes one, a
`device`. `docs/own-games.md` shows how to write one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.core.guard import Guard
from flashdqn.core.ranges import Between, check_values, describe_value
from flashdqn.core.user_code import check_json_serializable, import_named
from flashdqn.envs.live_env import find_live_env, is_live_name
from flashdqn.envs.task import EnvConfig, EnvKwargs, Naming, Preset, Task

# The settings of a task are known without PyTorch, which is imported when an environment is made.
if TYPE_CHECKING:
    import torch

    from flashdqn.core.contract import VecEnv

#: Importing a module may take long, but not forever.
IMPORT_SECONDS = 300.0

NEEDED = (
    "name",
    "num_envs",
    "num_actions",
    "obs_spec",
    "device",
    "outcome_names",
    "mask",
    "outcomes",
    "reset",
    "step",
    "state_dict",
    "load_state_dict",
)


@dataclass(frozen=True)
class UserEnvConfig(EnvConfig):
    """Your own game on the kernel layer, or any batched environment that follows our contract."""

    task: ClassVar[str] = "own"

    id: str = "my_game:MyGame"
    """Your environment: module:Class or module:function. It is called as Class(num_envs=…, device=…, **kwargs)."""
    kwargs: EnvKwargs = field(default_factory=dict)
    """Arguments for your environment."""
    timeout: Annotated[float, Between(0, 10**6, above=True)] = 120.0
    """Seconds after which a call of your environment counts as hanging, and the run is saved and stopped."""

    def __post_init__(self) -> None:
        check_values(self, "env.")
        if ":" not in self.id and not is_live_name(self.id):
            raise ConfigError(f"env.id must be written module:Class, and is {describe_value(self.id)}.")
        check_json_serializable("env.kwargs", self.kwargs)


def takes_num_envs(name: str) -> bool:
    """Whether `module:object` takes `num_envs`, as batched environments do; False if it cannot be found."""
    try:
        return "num_envs" in _parameter_names(import_env(name))
    except (ConfigError, EnvError):
        return False


def import_env(name: str) -> Any:
    """The named class or function; an error inside its module is the environment's."""
    if is_live_name(name):
        return find_live_env(name)
    try:
        return Guard(name, IMPORT_SECONDS).call("import", import_named, name, "the environment")
    except ConfigError as error:
        if error.__cause__ is None:
            raise
        raise EnvError(str(error)) from error.__cause__


def build_user_env(config: UserEnvConfig, num_envs: int, device: torch.device, held_out: bool) -> VecEnv:
    """Make it on the device, or on the CPU if it does not take a device or cannot run kernels there."""
    import torch

    from flashdqn.compute.kernels import cuda_available
    from flashdqn.envs.check.attributes import check_attributes
    from flashdqn.envs.guarded_env import GuardedEnv
    from flashdqn.envs.host_env import HostEnv

    make = import_env(config.id)
    if not callable(make) or "num_envs" not in _parameter_names(make):
        raise ConfigError(
            f"{config.id} must be a class or a function that takes num_envs; a Gymnasium environment is written "
            f"gym:{config.id}."
        )
    takes_device = "device" in _parameter_names(make)
    there = device.type == "cpu" or (takes_device and cuda_available())
    place = device if there else torch.device("cpu")
    kwargs = {"num_envs": num_envs, **({"device": str(place)} if takes_device else {}), **config.kwargs}
    guard = Guard(config.id, config.timeout)
    env = guard.call("make", make, **kwargs)
    missing = guard.call("make", lambda: [name for name in NEEDED if not hasattr(env, name)])
    if missing:
        raise EnvError(
            f"{config.id} is not a batched environment yet: it has no {', '.join(missing)}. "
            "flashdqn.envs.check_env says what is expected."
        )
    guard.call("make", check_attributes, env)
    if env.num_envs != num_envs:
        raise EnvError(
            f"{config.id} was asked for {num_envs} environments, and says `num_envs` {env.num_envs}. Use the "
            "parameter."
        )
    if env.device.type != place.type:
        raise EnvError(f"{config.id} must play on {place}, and says `device` {env.device}.")
    guarded = GuardedEnv(env, guard)
    if not isinstance(guarded.outcomes, torch.Tensor):
        raise EnvError(f"{config.id}: `outcomes` must be a tensor of float32, also before the first reset.")
    return guarded if there else HostEnv(guarded, device)


def _parameter_names(make: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(make).parameters)
    except (TypeError, ValueError):  # not callable, or built in
        return set()


def find_user_start(name: str) -> Preset:
    """Settings that work for many games."""
    return Preset(
        "your own batched game",
        {
            "steps": 500_000,
            "env": {"id": name},
            "replay": {"capacity": 200_000},
            "learn": {"batch_size": 128, "target_every": 500, "v_min": -100.0, "v_max": 100.0},
            "explore": {"end": 0.02, "over": 100_000},
            "eval": {"every": 100_000},
            "log": {"every": 25_000, "checkpoint_every": 250_000},
        },
    )


USER_ENV = Task(
    about="your own batched game: my_game:Coins (docs/own-games.md)",
    config=UserEnvConfig,
    make=build_user_env,
    naming=Naming(noun="a batched game", start=find_user_start, claims=takes_num_envs),
)
