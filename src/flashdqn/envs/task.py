"""What a task is: one object with all that the rest of the system needs to know about it.

A built-in task is a package, `envs/<task>/`, with its config, rules, environment, view, presets and, in `task.py`,
this object. `envs/tasks.py` lists the tasks. Nothing else knows any of them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar

from flashdqn.core.user_code import make_kwargs_flag

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch
    from torch import Tensor

    from flashdqn.core.contract import VecEnv
    from flashdqn.core.drawing.view import View
    from flashdqn.envs.stage import GameStage


class Collectors(NamedTuple):
    """Worker processes that collect by themselves, without waiting for each other (`--env.collect async`)."""

    workers: int  # 0: one for each core
    max_lag: int  # gradient steps between acting and learning, at most
    timeout: float  # seconds after which a call of an environment counts as hanging
    transport: str  # "processes" of this machine, or "ray": actors of a cluster
    one: EnvConfig  # the settings of an environment inside such a worker


@dataclass(frozen=True)
class EnvConfig:
    """The settings of a task's environments; every task has a frozen subclass of this."""

    #: the name of the task that the settings belong to
    task: ClassVar[str]

    @property
    def collectors(self) -> Collectors | None:
        """The workers that collect by themselves; None: all environments take their steps together."""
        return None


#: `--env.kwargs`: arguments for a user's environment.
EnvKwargs = Annotated[dict[str, Any], make_kwargs_flag(" for env.kwargs")]

C = TypeVar("C", bound=EnvConfig)

#: An expert that can read an environment's inner state. A call returns an action for every environment in its
#: current state, [N] int64.
Demonstrator = Callable[[], "Tensor"]


@dataclass(frozen=True)
class Preset:
    """A preset: the settings that differ from those of its base, and one line about them.

    `settings` are nested by group, as in a configuration file: `{"steps": 50_000, "env": {"size": 12}}`.
    """

    about: str
    settings: Mapping[str, Any]
    #: the preset that these settings are applied on top of; None: the defaults
    base: Preset | None = None


@dataclass(frozen=True)
class Naming:
    """For a task whose environments have names: `gym:CartPole-v1`, or without the task's name in front."""

    #: the name of such an environment in a message: "a Gymnasium environment"
    noun: str
    #: the preset to start from, for an environment's name
    start: Callable[[str], Preset]
    #: whether `module:Name`, without the task's name in front, belongs to this task
    claims: Callable[[str], bool]
    #: whether an unknown name looks like one of this task's names
    resembles: Callable[[str], bool] = lambda name: False


@dataclass(frozen=True)
class Trial:
    """A cheaper variant of a task, for `flashdqn profile` to measure."""

    name: str
    settings: Mapping[str, Any]
    #: what it changes about learning, in a few words
    learning: str


class Reading(NamedTuple):
    """Observations of an outside environment, as the network reads them."""

    obs: npt.NDArray[Any]  # [B, *obs]
    single: bool  # one observation, not a batch
    mask: npt.NDArray[Any] | None  # [B, A] bool, where the observation itself holds one
    #: turns our action numbers, [B], into the outside environment's own actions, [B, …]
    to_own_actions: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = lambda action: action


#: Reads what an outside environment returns from `reset` and `step`; None if it is not such an observation.
ReadObservation = Callable[[Any], Reading | None]


@dataclass(frozen=True)
class Task(Generic[C]):
    """One task. Only the first three fields are required; the others are optional parts of a task."""

    #: one line for `flashdqn envs`
    about: str
    config: type[C]
    #: (config, number of environments, device, held out): `held_out` is for evaluation and for display. A task
    #: may then use other data than in training, and plays whole games in this process
    make: Callable[[C, int, torch.device, bool], VecEnv]
    presets: Mapping[str, Preset] = field(default_factory=dict)
    #: the view of an environment; None: its observations are shown
    view: Callable[[Any], View] | None = None
    #: writes what was done in the first environment's episode into a folder, for `flashdqn plan`; returns the files
    write_plan: Callable[[Any, Path], list[Path]] | None = None
    #: one game and its view, where these must be made together; None: `make` and `view`
    stage: Callable[[C], GameStage] | None = None
    #: the names of the actions; None: their numbers
    actions: Callable[[C], tuple[str, ...]] | None = None
    #: by name, functions that make an expert from an environment and a seed
    experts: Mapping[str, Callable[[Any, int], Demonstrator]] = field(default_factory=dict)
    #: for environments that have their own names
    naming: Naming | None = None
    #: what reads an outside environment's own observations
    reader: Callable[[VecEnv], ReadObservation | None] | None = None
    #: (config, current number of environments): the most environments that a trial may use; None: any number
    most_envs: Callable[[C, int], int] | None = None
    #: the functions whose kernels play the games, in the order in which they are compiled
    kernels: Callable[[C], tuple[str, ...]] = lambda config: ()
    #: settings with the same kernels, but an environment that is quickly made
    smallest: Callable[[C], C] = lambda config: config
    #: bytes that an environment takes besides its observations and its `state_dict`
    bytes_per_env: Callable[[C], int] = lambda config: 0
    #: the settings in a run of an earlier version, as this version says the same
    upgrade: Callable[[dict[str, Any]], dict[str, Any]] = lambda settings: settings
    #: cheaper variants of the task, for `flashdqn profile`
    trials: Callable[[C], Sequence[Trial]] = lambda config: ()

    @property
    def name(self) -> str:
        """The task's name: `flashdqn envs` lists it, and config.json has it as `env.task`."""
        return self.config.task

    def name_actions(self, config: C, count: int) -> tuple[str, ...]:
        """A name for each of `count` actions."""
        return self.actions(config) if self.actions is not None else tuple(map(str, range(count)))
