"""Every setting of a training, in nested frozen dataclasses that check themselves.

The command line is derived from these: `Config.replay.n_step` is `--replay.n-step`. A configuration file and
keyword arguments in Python use the same names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import tyro

from flashdqn.envs import EnvConfig, SnakeConfig
from flashdqn.errors import ConfigError

#: The named train ratios, in gradient steps per transition.
RATIOS = {"debug": 0.004, "fast": 0.03125, "balanced": 0.0625, "better": 0.125, "quality": 0.25}


def parse_ratio(text: str) -> float:
    """A number, or one of the five names."""
    if text in RATIOS:
        return RATIOS[text]
    try:
        return float(text)
    except ValueError:
        names = ", ".join(RATIOS)
        raise ConfigError(f"train_ratio must be a number or one of {names}, and is '{text}'.") from None


def parse_duration(text: str) -> float:
    """'90', '90s', '1.5m' or '2h', in seconds."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], units[text[-1]]) if text and text[-1] in units else (text, 1.0)
    try:
        return float(number) * unit
    except ValueError:
        raise ConfigError(f"A time is written like 90s, 1.5m or 2h, and '{text}' is not.") from None


def _flag(parse: Any, metavar: str) -> Any:
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: parse(words[0]),
        is_instance=lambda value: isinstance(value, float | int),
        str_from_instance=lambda value: [f"{value:g}"],
    )


Ratio = Annotated[float, _flag(parse_ratio, "RATIO")]
Seconds = Annotated[float, _flag(parse_duration, "TIME")]


def require(condition: bool, message: str) -> None:
    """Raise `ConfigError(message)` unless the condition holds."""
    if not condition:
        raise ConfigError(message)


@dataclass(frozen=True)
class NetworkConfig:
    """The Q-network."""

    torso: Literal["auto", "mlp", "cnn", "resnet", "branches"] = "auto"
    """What reads the observation; auto takes a CNN for planes and an MLP for vectors. resnet: residual blocks, for
    boards on a GPU. branches: a vector in parts, each with layers of its own."""
    hidden: tuple[int, ...] = (128, 128)
    """Widths of the fully connected layers."""
    channels: tuple[int, ...] = (32, 64, 64)
    """Channels of each convolution (cnn), or of each residual block (resnet)."""
    branches: Annotated[tuple[str, ...], tyro.conf.arg(metavar="SHAPE:WIDTHS")] = ()
    """The parts of the observation and their layers (branches): 14:128,64 is 14 numbers through 128 and 64;
    6x13:64/64 is 6 rows of 13, a layer of 64 for every row, then one of 64 for all of them."""
    attention: int = 0
    """Units of the attention that weighs the branches; 0: none (branches)."""
    layer_norm: bool = False
    """Normalise each fully connected layer before its ReLU, and in a resnet the planes before theirs."""
    dueling: bool = False
    """Value and advantage in streams of their own; the last hidden layer belongs to the streams."""
    noisy: bool = False
    """Learned noise on the fully connected layers, resampled at every gradient step; off in evaluation. ε stays
    as explore has it."""
    noisy_sigma: float = 0.5
    """σ₀, the initial size of the noise (noisy only)."""
    cosines: int = 64
    """Cosines that embed a quantile's fraction (head iqn only)."""

    def __post_init__(self) -> None:
        for name in ("hidden", "channels"):
            widths = getattr(self, name)
            require(
                len(widths) > 0 and min(widths) > 0,
                f"network.{name} needs at least one width above 0, and is {list(widths)}.",
            )
        require(self.attention >= 0, f"network.attention must not be negative, and is {self.attention}.")
        require(self.noisy_sigma >= 0, f"network.noisy_sigma must not be negative: {self.noisy_sigma}.")
        require(self.cosines > 0, f"network.cosines must be above 0, and is {self.cosines}.")


@dataclass(frozen=True)
class ReplayConfig:
    """The replay ring."""

    capacity: int = 500_000
    """Transitions that the ring holds."""
    n_step: int = 1
    """Steps of reward before bootstrapping."""
    priority: float = 0.0
    """Prioritised replay: transitions are drawn in proportion to (|δ| + ε)^α, and this is α; 0: uniformly."""
    beta: float = 0.4
    """Exponent β of the importance weights at the start; it rises to 1 (prioritised only)."""
    beta_over: int = 5_000_000
    """Transitions over which β rises, linearly."""
    priority_eps: float = 1e-6
    """ε, which keeps transitions without an error in play."""

    def __post_init__(self) -> None:
        require(self.capacity > 0, f"replay.capacity must be above 0, and is {self.capacity}.")
        require(self.n_step > 0, f"replay.n_step must be at least 1, and is {self.n_step}.")
        require(0 <= self.priority <= 1, f"replay.priority must lie in 0 … 1, and is {self.priority}.")
        require(0 <= self.beta <= 1, f"replay.beta must lie in 0 … 1, and is {self.beta}.")
        require(self.beta_over > 0, f"replay.beta_over must be above 0, and is {self.beta_over}.")
        require(
            1e-30 <= self.priority_eps <= 1e30,
            f"replay.priority_eps must lie in 1e-30 … 1e30, and is {self.priority_eps}.",
        )


@dataclass(frozen=True)
class LearnConfig:
    """The learner."""

    method: Literal["replay", "pqn"] = "replay"
    """What is learned from: transitions drawn from a replay, against a target network; or, in PQN, λ-returns of
    the last rollout, with neither."""
    head: Literal["scalar", "categorical", "quantile", "iqn"] = "scalar"
    """What the network predicts for each action: the expected return, or its distribution by fixed atoms (C51), by
    fixed quantiles (QR-DQN), or by any quantile (IQN)."""
    bootstrap: Literal["greedy", "double", "munchausen"] = "double"
    """How the value of the next state is estimated."""
    gamma: float = 0.99
    """Discount γ per step."""
    batch_size: int = 256
    """Transitions per gradient step (method replay)."""
    starts: int = 10_000
    """Transitions to collect before the first gradient step (method replay)."""
    optimizer: Literal["adam", "adamw", "radam"] = "adam"
    """The optimiser."""
    lr: float = 5e-4
    """Learning rate."""
    lr_end: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None
    """Learning rate to fall to; none: it stays."""
    lr_over: int = 5_000_000
    """Transitions over which the learning rate falls, linearly."""
    adam_eps: float = 1e-8
    """Adam's ε."""
    weight_decay: float = 0.0
    """Weight decay (adamw)."""
    grad_clip: float = 10.0
    """Largest gradient norm; 0: no clipping."""
    huber: float = 1.0
    """Huber's δ: squared loss below, linear above; 0: squared everywhere. For quantiles it is κ; 0: absolute."""
    target_every: int = 1000
    """Gradient steps between hard copies into the target network; 0: soft updates (method replay)."""
    target_tau: float = 0.005
    """Soft update per gradient step: target += τ · (online − target)."""
    atoms: int = 51
    """Atoms of the return's distribution (head categorical)."""
    v_min: float = -20.0
    """The least return that an atom stands for; what lies below counts as this."""
    v_max: float = 180.0
    """The largest return that an atom stands for; what lies above counts as this."""
    quantiles: int = 32
    """Quantiles of the return's distribution (head quantile)."""
    iqn_learn: int = 8
    """N: random fractions at which a gradient step compares (head iqn)."""
    iqn_target: int = 8
    """N': random fractions of the target (head iqn)."""
    iqn_choose: int = 16
    """K: fractions whose mean chooses an action (head iqn)."""
    munchausen_alpha: float = 0.9
    """α: weight of the log-policy in the reward (bootstrap munchausen)."""
    munchausen_tau: float = 0.03
    """τ: temperature of the soft policy, in units of return (bootstrap munchausen)."""
    munchausen_clip: float = -1.0
    """l₀: the least that τ log π may count (bootstrap munchausen)."""

    def __post_init__(self) -> None:
        require(0 <= self.gamma <= 1, f"learn.gamma must lie in 0 … 1, and is {self.gamma}.")
        require(self.batch_size > 0, f"learn.batch_size must be above 0, and is {self.batch_size}.")
        require(self.starts >= 0, f"learn.starts must not be negative, and is {self.starts}.")
        require(0 < self.lr < math.inf, f"learn.lr must be a finite number above 0, and is {self.lr}.")
        require(self.lr_end is None or self.lr_end >= 0, f"learn.lr_end must not be negative: {self.lr_end}.")
        require(self.lr_over > 0, f"learn.lr_over must be above 0, and is {self.lr_over}.")
        for name in ("adam_eps", "weight_decay", "grad_clip", "huber", "target_every"):
            value = getattr(self, name)
            require(value >= 0, f"learn.{name} must not be negative, and is {value}.")
        require(0 < self.target_tau <= 1, f"learn.target_tau must lie in 0 … 1, and is {self.target_tau}.")
        require(
            self.weight_decay == 0 or self.optimizer == "adamw",
            "learn.weight_decay needs --learn.optimizer adamw (the others would fold it into the moments).",
        )
        self._check_family()

    def _check_family(self) -> None:
        require(self.atoms > 1, f"learn.atoms must be at least 2, and is {self.atoms}.")
        require(
            -math.inf < self.v_min < self.v_max < math.inf,
            f"learn needs v_min < v_max, both finite, and has {self.v_min} and {self.v_max}.",
        )
        for name in ("quantiles", "iqn_learn", "iqn_target", "iqn_choose"):
            value = getattr(self, name)
            require(value > 0, f"learn.{name} must be at least 1, and is {value}.")
        require(
            0 <= self.munchausen_alpha < 1,
            f"learn.munchausen_alpha must lie in 0 … 1, below 1, and is {self.munchausen_alpha}: "
            "at 1 the gaps between actions would grow without end.",
        )
        require(
            self.munchausen_tau > 0, f"learn.munchausen_tau must be above 0, and is {self.munchausen_tau}."
        )
        require(
            self.munchausen_clip <= 0,
            f"learn.munchausen_clip must not be above 0, and is {self.munchausen_clip}.",
        )


@dataclass(frozen=True)
class PQNConfig:
    """Rollouts and their λ-returns (learn.method pqn only)."""

    rollout: int = 32
    """T: steps of every environment between two rounds of learning."""
    epochs: int = 2
    """Times that a rollout is gone through."""
    minibatches: int = 32
    """Gradient steps in each; rollout · envs must divide by it."""
    trace: float = 0.65
    """λ of the returns; 0: one step, 1: all rewards up to the end of the rollout."""

    def __post_init__(self) -> None:
        for name in ("rollout", "epochs", "minibatches"):
            value = getattr(self, name)
            require(value > 0, f"pqn.{name} must be at least 1, and is {value}.")
        require(0 <= self.trace <= 1, f"pqn.trace must lie in 0 … 1, and is {self.trace}.")


@dataclass(frozen=True)
class ExploreConfig:
    """ε-greedy exploration; every environment throws its own coin."""

    schedule: Literal["linear", "exponential", "spread"] = "linear"
    """linear or exponential: ε falls from start to end; spread: environment i keeps its own ε for good,
    from start down to end in equal factors."""
    start: float = 1.0
    """ε at the start (spread: the largest)."""
    end: float = 0.005
    """ε at the end (spread: the smallest)."""
    over: int = 1_000_000
    """Transitions over which ε falls."""

    def __post_init__(self) -> None:
        require(
            0 <= self.end <= self.start <= 1,
            f"explore needs 0 ≤ end ≤ start ≤ 1, and has start {self.start} and end {self.end}.",
        )
        require(
            self.end > 0 or self.schedule == "linear",
            f"explore.end must be above 0 with the {self.schedule} schedule: it falls by a factor.",
        )
        require(self.over > 0, f"explore.over must be above 0, and is {self.over}.")


@dataclass(frozen=True)
class EvalConfig:
    """Evaluation during training: games with ε = 0, from seeds of their own."""

    every: int = 500_000
    """Transitions between evaluations; 0: only at the end."""
    episodes: int = 100
    """Games in each."""

    def __post_init__(self) -> None:
        require(self.every >= 0, f"eval.every must not be negative, and is {self.every}.")
        require(self.episodes > 0, f"eval.episodes must be above 0, and is {self.episodes}.")


@dataclass(frozen=True)
class LogConfig:
    """Reports and checkpoints."""

    every: int = 0
    """Transitions between reports; 0: 25,000, or 100 vector steps if that is more."""
    checkpoint_every: int = 1_000_000
    """Transitions between checkpoints that can be resumed; 0: only at the end."""
    tensorboard: bool = True
    """Write TensorBoard events."""

    def __post_init__(self) -> None:
        require(self.every >= 0, f"log.every must not be negative, and is {self.every}.")
        require(
            self.checkpoint_every >= 0,
            f"log.checkpoint_every must not be negative, and is {self.checkpoint_every}.",
        )


@dataclass(frozen=True)
class RuntimeConfig:
    """How the work is executed; none of it changes what is learned, beyond rounding."""

    mode: Literal["auto", "eager", "compile", "written", "graph"] = "auto"
    """How collection and updates run. eager: operation by operation; compile: by torch.compile; written: a plain
    MLP's update written by hand; graph: CUDA graphs, of hand-written or compiled updates where they work. auto
    picks by a short trial before the clock starts, and says what and why. What cannot work falls to the next."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Numbers that the networks compute with; losses, targets and weights are float32 in any case."""
    threads: int = 0
    """CPU threads for PyTorch and for the games; 0: one where work is too small to share, else as many as a
    trial shows to be best."""
    warmup: bool = True
    """Compile, allocate and touch everything before the clock starts."""

    def __post_init__(self) -> None:
        require(self.threads >= 0, f"runtime.threads must not be negative, and is {self.threads}.")


@dataclass(frozen=True)
class Config:
    """A training, fully described."""

    preset: tyro.conf.Suppress[str] = "snake"
    """Where the settings started from."""
    steps: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Stop after this many transitions."""
    episodes: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Stop after this many episodes."""
    max_time: Annotated[Seconds | None, tyro.conf.arg(metavar="TIME")] = None
    """Stop after this much training time: 90s, 1.5m, 2h."""
    envs: int = 256
    """Environments played at once."""
    train_ratio: Annotated[Ratio, tyro.conf.arg(aliases=["--train-steps-ratio"])] = RATIOS["fast"]
    """Gradient steps per collected transition, exact over time whatever the number of environments; a number,
    or debug (0.004), fast (0.03125), balanced (0.0625), better (0.125), quality (0.25). Not used by pqn,
    whose ratio is epochs · minibatches / (rollout · envs)."""
    seed: int = 0
    """Everything random follows from it."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the network, the replay and the environments live."""
    out: str = "runs"
    """The folder that run folders go into."""
    env: Annotated[EnvConfig, tyro.conf.AvoidSubcommands] = field(default_factory=SnakeConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    pqn: PQNConfig = field(default_factory=PQNConfig)
    explore: ExploreConfig = field(default_factory=ExploreConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    log: LogConfig = field(default_factory=LogConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)

    def __post_init__(self) -> None:
        require(self.envs > 0, f"envs must be at least 1, and is {self.envs}.")
        require(
            self.train_ratio >= 0 and math.isfinite(self.train_ratio),
            f"train_ratio must be a finite number, 0 or more, and is {self.train_ratio}.",
        )
        for name in ("steps", "episodes", "max_time"):
            value = getattr(self, name)
            require(
                value is None or 0 < value < math.inf, f"{name} must be a number above 0, and is {value}."
            )
        require(
            self.replay.capacity >= self.replay.n_step * self.envs or self.learn.method == "pqn",
            f"replay.capacity {self.replay.capacity} is too small for {self.envs} environments and "
            f"{self.replay.n_step}-step returns: it must be at least {self.replay.n_step * self.envs}.",
        )
        require(
            self.learn.bootstrap != "munchausen" or self.replay.n_step == 1,
            f"learn.bootstrap munchausen needs replay.n_step 1, and it is {self.replay.n_step}: every step's "
            "reward has a log-policy term of its own, and an n-step return has only the rewards. "
            "Use greedy or double with n steps.",
        )
        if self.learn.method == "pqn":
            self._check_pqn()

    def _check_pqn(self) -> None:
        refused = "learn.method pqn needs"
        require(
            self.learn.head == "scalar",
            f"{refused} learn.head scalar, and it is {self.learn.head}: a λ-return is a number.",
        )
        require(
            self.learn.bootstrap != "munchausen",
            f"{refused} learn.bootstrap greedy, and it is munchausen: a λ-return has no log-policy terms.",
        )
        require(
            self.replay.priority == 0,
            f"{refused} replay.priority 0, and it is {self.replay.priority}: there is no replay to draw from.",
        )
        require(
            self.replay.n_step == 1,
            f"{refused} replay.n_step 1, and it is {self.replay.n_step}: λ weighs all n; use --pqn.trace.",
        )
        transitions, parts = self.pqn.rollout * self.envs, self.pqn.minibatches
        require(
            transitions % parts == 0,
            f"A rollout of {self.pqn.rollout} steps of {self.envs} environments, {transitions} in all, does not "
            f"divide into {parts} minibatches: make --pqn.rollout a multiple of --pqn.minibatches.",
        )

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
