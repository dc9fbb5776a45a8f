"""What can be chosen about a Gymnasium environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from flashdqn.core.errors import ConfigError
from flashdqn.core.user_code import check_json_serializable
from flashdqn.envs.task import EnvConfig, EnvKwargs

Vectorization = Literal["auto", "sync", "async", "envpool"]
Channels = Literal["auto", "first", "last"]

#: Frames after which a game of Atari is cut off, half an hour of play, as in ALE's v5.
MAX_FRAMES = 108_000


@dataclass(frozen=True)
class AtariConfig:
    """Frames and episodes of Atari games (ALE/…), as Machado et al. 2018 advise; others take no notice."""

    preprocess: bool = True
    """Small gray frames, by the settings below. Off: the environment as it is registered."""
    size: int = 84
    """Height and width of a frame."""
    frame_skip: int = 4
    """Frames that an action is held for; what is seen is the maximum of the last two."""
    sticky: float = 0.25
    """Chance that a frame repeats the last action instead of the one that was chosen."""
    noops: int = 0
    """Do nothing for up to this many frames at the start of a game (30 in Mnih et al. 2015)."""
    fire: bool = False
    """Press the button at the start of a game where it has one."""
    life_loss: bool = False
    """A lost life ends the episode, while the game goes on; evaluation plays whole games in any case."""
    full_actions: bool = False
    """All 18 actions, also those that do nothing in this game."""

    def __post_init__(self) -> None:
        for name, least in (("size", 8), ("frame_skip", 1), ("noops", 0)):
            if (value := getattr(self, name)) < least:
                raise ConfigError(f"env.atari.{name} must be at least {least}, and is {value}.")
        if not 0 <= self.sticky <= 1:
            raise ConfigError(f"env.atari.sticky is a chance, 0 … 1, and is {self.sticky}.")


@dataclass(frozen=True)
class GymConfig(EnvConfig):
    """Any environment of Gymnasium's, or a function that makes one."""

    task: ClassVar[str] = "gym"

    id: str = "CartPole-v1"
    """The registered name (module:Name imports the module first), or module:function for one of your own."""
    vectorization: Vectorization = "auto"
    """sync: in this process, one after the other. async: in worker processes. envpool: EnvPool's threads, for what
    it has. auto: the environment's own vectorized version where it has one, else sync. Evaluation never uses
    processes."""
    workers: int = 0
    """Worker processes that share the environments among them (async); 0: as many as there are cores."""
    kwargs: EnvKwargs = field(default_factory=dict)
    """Arguments for the environment."""
    max_steps: int = 0
    """Truncate an episode after this many steps; 0: the environment's own limit."""
    channels: Channels = "auto"
    """Where an image has its channels. auto: first where that axis is the shortest, else last."""
    stack: int = 1
    """Observe this many of the last frames at once. The replay holds every frame once all the same."""
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
        check_json_serializable("env.kwargs", self.kwargs)
