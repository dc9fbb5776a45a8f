"""The settings of Gymnasium environments."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

import tyro

from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import LARGE, MANY, Between, check_values
from flashdqn.core.user_code import check_json_serializable
from flashdqn.envs.live_env import is_live_name, shorten_live_name
from flashdqn.envs.task import Collectors, EnvConfig, EnvKwargs

Collect = Literal["lockstep", "async"]
Vectorization = Literal["auto", "sync", "async", "envpool"]
Channels = Literal["auto", "first", "last"]

#: Frames after which a game of Atari is cut off, half an hour of play, as in ALE's v5.
MAX_FRAMES = 108_000


@dataclass(frozen=True)
class AtariConfig:
    """Frames and episodes of Atari games (ALE/…), as Machado et al. 2018 advise. Other games ignore this."""

    preprocess: bool = True
    """Use small gray frames with the settings below. Off: use the environment as it is registered."""
    size: Annotated[int, Between(8, 1024)] = 84
    """Height and width of a frame in pixels."""
    frame_skip: Annotated[int, Between(1, 1000)] = 4
    """Number of frames that an action is repeated for. The agent sees the maximum of the last two."""
    sticky: Annotated[float, Between(0, 1)] = 0.25
    """Probability that a frame repeats the last action instead of the chosen one."""
    noops: Annotated[int, Between(0, 100_000)] = 0
    """Do nothing for up to this many frames at the start of a game (30 in Mnih et al. 2015)."""
    fire: bool = False
    """Press the fire button at the start of a game that has one."""
    life_loss: bool = False
    """End the episode at a lost life, while the game goes on. Evaluation always plays whole games."""
    full_actions: bool = False
    """Use all 18 actions, including those that do nothing in this game."""

    def __post_init__(self) -> None:
        check_values(self, "env.atari.")


@dataclass(frozen=True)
class GymConfig(EnvConfig):
    """Any Gymnasium environment, or a function that makes one."""

    task: ClassVar[str] = "gym"

    id: str = "CartPole-v1"
    """The registered name (module:Name imports the module first), or module:function for your own environment."""
    vectorization: Vectorization = "auto"
    """How environments run. sync: in this process, one after another. async: in worker processes. envpool: in
    EnvPool's threads, for games that it has. auto: the environment's own vectorized version if it has one, else
    sync. Evaluation never uses processes."""
    workers: Annotated[int, Between(0, 1024), tyro.conf.arg(aliases=["--envs.workers"])] = 0
    """Number of worker processes that share the environments (async); 0: one for each core."""
    collect: Annotated[Collect, tyro.conf.arg(aliases=["--envs.collect"])] = "lockstep"
    """Who waits for whom. lockstep: all environments take a step, then the network learns; the same seed gives the
    same training. async: every worker process plays by itself with the latest weights, and nobody waits for the
    slowest environment; not reproducible."""
    max_lag: Annotated[int, Between(1, MANY), tyro.conf.arg(aliases=["--envs.max-lag"])] = 10_000
    """With collect async, the most gradient steps between an action and its place in the replay. Workers that are
    too far ahead wait; actions that are older in spite of this are thrown away and counted."""
    transport: Literal["processes", "ray"] = "processes"
    """With collect async, where workers are. processes: on this machine. ray: actors of the Ray cluster that
    RAY_ADDRESS names, or of one that is started here (pip install 'flashdqn[ray]')."""
    kwargs: EnvKwargs = field(default_factory=dict)
    """Arguments for the environment."""
    max_steps: Annotated[int, Between(0, 2**31 - 1)] = 0
    """Truncate an episode after this many steps; 0: the environment's own limit."""
    channels: Channels = "auto"
    """Position of an image's channels. auto: first if that axis is the shortest, else last."""
    scale: bool = False
    """Scale observations to −1 … 1 by the bounds of their space, where these are finite."""
    stack: Annotated[int, Between(1, 64), tyro.conf.arg(aliases=["--env.frame-stack"])] = 1
    """Number of last frames in an observation. The replay still holds every frame only once."""
    action_repeat: Annotated[int, Between(1, 1000)] = 1
    """Number of steps that an action is repeated for; their rewards are added, and the last one is observed."""
    action_bins: Annotated[int, Between(0, 10_000)] = 0
    """Number of values in each dimension of a continuous action (Box), from its low to its high; 0: no continuous
    actions."""
    clip_reward: Annotated[float, Between(0, LARGE)] = 0.0
    """Clip rewards to plus and minus this for learning; 0: no clipping. Scores stay the true ones."""
    normalize_reward: bool = False
    """Divide rewards by the running deviation of the discounted return, for learning. Scores stay the true ones."""
    timeout: Annotated[float, Between(0, 10**6, above=True)] = 60.0
    """Seconds to wait for a worker process (async). With collect async, a worker that takes longer is replaced."""
    atari: AtariConfig = field(default_factory=AtariConfig)

    def __post_init__(self) -> None:
        check_values(self, "env.")
        if not self.id:
            raise ConfigError("env.id must name a Gymnasium environment, such as CartPole-v1.")
        if self.action_bins == 1:
            raise ConfigError(
                "env.action_bins must be 0 or at least 2: with 1 there would be nothing to choose."
            )
        check_json_serializable("env.kwargs", self.kwargs)
        if self.collect == "async":
            self._check_collectors()

    def _check_collectors(self) -> None:
        if self.normalize_reward:
            raise ConfigError(
                "env.collect async needs env.normalize_reward off: every worker would divide by a deviation of its "
                "own. Use env.clip_reward, or collect in lock-step."
            )
        if is_live_name(self.id):
            raise ConfigError(
                f"env.collect async needs an environment that worker processes find by its name, and "
                f"{shorten_live_name(self.id)} is an object of this program: put its class, or a function that "
                "makes it, into a module of its own."
            )

    @property
    def collectors(self) -> Collectors | None:
        """The workers that collect by themselves, each with single copies in its own process."""
        if self.collect == "lockstep":
            return None
        vectorization: Vectorization = "sync" if self.vectorization == "async" else self.vectorization
        one = replace(self, collect="lockstep", vectorization=vectorization)
        return Collectors(self.workers, self.max_lag, self.timeout, self.transport, one)
