"""What can be chosen about a Gymnasium environment."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, get_args

import tyro

from flashdqn.core.errors import ConfigError
from flashdqn.envs.gymnasium.atari_config import AtariConfig

Vectorization = Literal["auto", "sync", "async", "envpool"]
Channels = Literal["auto", "first", "last"]


def parse_env_kwargs(text: str) -> dict[str, Any]:
    """A JSON object, as `--env.kwargs` takes it."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ConfigError(f"""env.kwargs is written like '{{"gravity": -5.0}}', and '{text}' is not.""")
    return value


Kwargs = Annotated[
    dict[str, Any],
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="JSON",
        instance_from_str=lambda words: parse_env_kwargs(words[0]),
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda value: [json.dumps(value)],
    ),
]


@dataclass(frozen=True)
class GymConfig:
    """Any environment of Gymnasium's, or a function that makes one."""

    task: ClassVar[str] = "gym"

    id: str = "CartPole-v1"
    """The registered name (module:Name imports the module first), or module:function for one of your own."""
    vectorization: Vectorization = "auto"
    """sync: in this process, one after the other. async: in worker processes. envpool: EnvPool's threads, for what
    it has. auto: the environment's own vectorised version where it has one, else sync. Evaluation never uses
    processes."""
    workers: int = 0
    """Worker processes that share the environments among them (async); 0: as many as there are cores."""
    kwargs: Kwargs = field(default_factory=dict)
    """Arguments for the environment."""
    max_steps: int = 0
    """Truncate an episode after this many steps; 0: the environment's own limit."""
    channels: Channels = "auto"
    """Where an image has its channels. auto: first where that axis is the shortest, else last."""
    stack: int = 1
    """Observe the last so many frames at once. The replay holds every frame once all the same."""
    clip_reward: float = 0.0
    """Learn from rewards cut off at plus and minus this; 0: as they are. Scores are the true ones."""
    timeout: float = 60.0
    """Seconds to wait for a worker process (async)."""
    atari: AtariConfig = field(default_factory=AtariConfig)

    def __post_init__(self) -> None:
        if not self.id:
            raise ConfigError("env.id must name a Gymnasium environment, such as CartPole-v1.")
        for name, choices in (("vectorization", Vectorization), ("channels", Channels)):
            if (value := getattr(self, name)) not in get_args(choices):
                raise ConfigError(f"env.{name} must be one of {', '.join(get_args(choices))}, not {value!r}.")
        if self.max_steps < 0:
            raise ConfigError(f"env.max_steps must be 0 (the environment's own) or more: {self.max_steps}.")
        if self.workers < 0:
            raise ConfigError(f"env.workers must be 0 (one for each core) or more: {self.workers}.")
        if not 1 <= self.stack <= 64:
            raise ConfigError(f"env.stack must lie in 1 … 64, and is {self.stack}.")
        if not self.clip_reward >= 0:
            raise ConfigError(f"env.clip_reward must be 0 (no clipping) or more: {self.clip_reward}.")
        if not self.timeout > 0:
            raise ConfigError(f"env.timeout must be above 0 seconds, and is {self.timeout}.")
        try:
            json.dumps(self.kwargs)
        except TypeError as error:
            raise ConfigError(f"env.kwargs must be plain data that JSON can hold: {error}.") from None
