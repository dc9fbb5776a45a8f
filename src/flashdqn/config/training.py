"""All settings of a training together."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import tyro

from flashdqn.config.axes import BOOTSTRAPS, HEADS, has_trait
from flashdqn.config.demos import DemosConfig
from flashdqn.config.learning import ExploreConfig, LearnConfig, PQNConfig, ReplayConfig
from flashdqn.config.network import NetworkConfig
from flashdqn.config.running import EvalConfig, LogConfig, RuntimeConfig
from flashdqn.config.values import RATIOS, Ratio, Seconds, require
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import MANY, SEEDS, Between, check_values
from flashdqn.envs.task import EnvConfig
from flashdqn.envs.tasks import DEFAULT_TASK, make_default_config


@dataclass(frozen=True)
class Config:
    """A training, fully described."""

    preset: tyro.conf.Suppress[str] = DEFAULT_TASK
    """The preset that the settings started from."""
    steps: Annotated[int | None, tyro.conf.arg(metavar="N"), Between(1, MANY)] = None
    """Stop after this many transitions."""
    episodes: Annotated[int | None, tyro.conf.arg(metavar="N"), Between(1, MANY)] = None
    """Stop after this many episodes."""
    max_time: Annotated[Seconds | None, tyro.conf.arg(metavar="TIME"), Between(0, 10**9, above=True)] = None
    """Stop after this much training time: 90s, 1.5m, 2h."""
    envs: Annotated[int, Between(1, 2**24)] = 256
    """Number of environments that are played at once."""
    train_ratio: Annotated[Ratio, tyro.conf.arg(aliases=["--train-steps-ratio"]), Between(0, 1000)] = RATIOS[
        "fast"
    ]
    """Gradient steps per collected transition, exact over time with any number of environments: a number,
    or debug (0.004), fast (0.03125), balanced (0.0625), better (0.125), quality (0.25). Not used by pqn,
    whose ratio is epochs · minibatches / (rollout · envs)."""
    seed: Annotated[int, Between(*SEEDS)] = 0
    """Seed of all random numbers."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the network, the replay and the environments."""
    out: Annotated[str, tyro.conf.arg(metavar="FOLDER")] = "runs"
    """Folder in which run folders are created."""
    env: EnvConfig = field(default_factory=make_default_config)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    pqn: PQNConfig = field(default_factory=PQNConfig)
    explore: ExploreConfig = field(default_factory=ExploreConfig)
    demos: DemosConfig = field(default_factory=DemosConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    log: LogConfig = field(default_factory=LogConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)

    def __post_init__(self) -> None:
        check_values(self)
        require(
            self.replay.capacity >= self.replay.n_step * self.envs or self.learn.method == "pqn",
            f"replay.capacity {self.replay.capacity} is too small for {self.envs} environments and "
            f"{self.replay.n_step}-step returns: it must be at least {self.replay.n_step * self.envs}.",
        )
        require(
            self.replay.n_step == 1 or not has_trait(self._bootstrap, "single_step_only"),
            f"learn.bootstrap {self.learn.bootstrap} needs replay.n_step 1, and it is {self.replay.n_step}: every "
            "step's reward has its own log-policy term, and an n-step return has only the rewards. "
            "Use greedy or double with n steps.",
        )
        require(
            self.learn.method == "pqn" or self.replay.sampler != "rollout",
            "replay.sampler rollout needs learn.method pqn: only pqn collects rollouts.",
        )
        require(
            self.demos.kept == 0 or self.learn.batch_size > 1,
            "demos.keep needs learn.batch_size 2 or more: demonstrations and other transitions share a batch.",
        )
        if self.learn.method == "pqn":
            self._check_pqn()
        if self.env.collectors is not None:
            self._check_collectors()

    def _check_collectors(self) -> None:
        refused = "env.collect async needs"
        require(
            self.learn.method != "pqn",
            f"{refused} a replay, and learn.method is pqn: a rollout must be played with one set of weights. "
            "Collect in lock-step, or use another method.",
        )
        require(
            not self.demos.asked_for,
            f"{refused} demos.source none, and it is {self.demos.source}: an expert plays in lock-step.",
        )
        least = math.ceil(2 * self.train_ratio * self.envs)
        lag = self.env.collectors.max_lag if self.env.collectors is not None else least
        require(
            lag >= least,
            f"env.max_lag {lag} is too small: {self.envs} environments with a train ratio of {self.train_ratio:g} "
            f"earn {least // 2} gradient steps together, so almost every action would be too old. Use at least "
            f"{least}.",
        )

    def _check_pqn(self) -> None:
        refused = "learn.method pqn needs"
        head = HEADS.read(self.learn.head, self.learn)
        require(
            head is None or has_trait(head, "single_number"),
            f"{refused} learn.head scalar, and it is {self.learn.head}: a λ-return is a number.",
        )
        require(
            self._bootstrap is not None,
            f"{refused} no bootstrap, and learn.bootstrap is '{self.learn.bootstrap}': leave it out.",
        )
        require(
            not has_trait(self._bootstrap, "single_step_only"),
            f"{refused} learn.bootstrap greedy, and it is {self.learn.bootstrap}: a λ-return has no log-policy "
            "terms.",
        )
        require(
            self.replay.sampler in ("auto", "rollout"),
            f"{refused} replay.sampler auto, and it is '{self.replay.sampler}': rollouts have their own sampler.",
        )
        require(
            self.replay.priority == 0,
            f"{refused} replay.priority 0, and it is {self.replay.priority}: there is no replay to draw from.",
        )
        require(
            self.replay.n_step == 1,
            f"{refused} replay.n_step 1, and it is {self.replay.n_step}: λ covers all n; use --pqn.trace.",
        )
        require(
            not self.demos.asked_for,
            f"{refused} demos.source none, and it is {self.demos.source}: there is no replay to fill.",
        )
        transitions, parts = self.pqn.rollout * self.envs, self.pqn.minibatches
        require(
            transitions % parts == 0,
            f"A rollout of {self.pqn.rollout} steps of {self.envs} environments, {transitions} in all, does not "
            f"divide into {parts} minibatches: make --pqn.rollout a multiple of --pqn.minibatches.",
        )

    @property
    def _bootstrap(self) -> Any:
        """The settings of the bootstrap; None for a user's bootstrap."""
        return BOOTSTRAPS.read(self.learn.bootstrap, self.learn)

    @property
    def sampler(self) -> str:
        """The sampler that draws the batches, with `replay.sampler auto` resolved."""
        if self.replay.sampler != "auto":
            return self.replay.sampler
        if self.learn.method == "pqn":
            return "rollout"
        return "prioritized" if self.replay.priority > 0 else "uniform"

    @property
    def update_size(self) -> int:
        """Transitions per gradient step."""
        if self.learn.method == "pqn":
            return self.pqn.rollout * self.envs // self.pqn.minibatches
        return self.learn.batch_size

    @property
    def report_every(self) -> int:
        """Transitions between reports."""
        return self.log.every or max(25_000, 100 * self.envs)


def check_resume(run: Config, wanted: Config) -> Config:
    """Refuse a configuration that differs from the run's own in more than the budget."""
    same = dataclasses.replace(wanted, steps=run.steps, episodes=run.episodes, max_time=run.max_time)
    if changed := list_differences(run, same):
        raise ConfigError(
            f"A resumed run keeps its configuration; only --steps, --episodes and --max-time can change, "
            f"not {', '.join(changed)}. Start a new run for that."
        )
    return wanted


def list_differences(one: Any, other: Any, prefix: str = "") -> list[str]:
    """The dotted names of settings that two groups have differently."""
    if type(one) is not type(other):
        return [prefix.rstrip(".")]
    names: list[str] = []
    for item in dataclasses.fields(one):
        mine, its = getattr(one, item.name), getattr(other, item.name)
        if dataclasses.is_dataclass(mine):
            names += list_differences(mine, its, f"{prefix}{item.name}.")
        elif mine != its:
            names.append(f"{prefix}{item.name}")
    return names
