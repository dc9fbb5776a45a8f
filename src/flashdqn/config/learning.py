"""Settings of replay, learner, rollouts and exploration."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from flashdqn.config.axes import BOOTSTRAPS, HEADS, OPTIMIZERS, SAMPLERS
from flashdqn.config.values import require
from flashdqn.core.user_code import Kwargs


@dataclass(frozen=True)
class ReplayConfig:
    """The replay ring."""

    capacity: int = 500_000
    """Number of transitions that the ring holds."""
    n_step: int = 1
    """Number of reward steps before bootstrapping."""
    priority: float = 0.0
    """α of prioritized replay, which draws transitions in proportion to (|δ| + ε)^α; 0: uniformly."""
    beta: float = 0.4
    """Exponent β of the importance weights at the start; it rises to 1 (prioritized only)."""
    beta_over: int = 5_000_000
    """Number of transitions over which β rises linearly to 1."""
    priority_eps: float = 1e-6
    """ε, which keeps a chance for transitions without an error (prioritized only)."""
    sampler: Annotated[str, tyro.conf.arg(metavar=SAMPLERS.metavar)] = "auto"
    """What draws batches from the ring. auto: rollout for pqn, else prioritized if replay.priority is above 0, else
    uniform. module:Name: your own sampler (docs/own-variants.md)."""
    sampler_kwargs: Kwargs = field(default_factory=dict)
    """Arguments for your own sampler."""

    def __post_init__(self) -> None:
        require(self.capacity > 0, f"replay.capacity must be above 0, and is {self.capacity}.")
        require(self.n_step > 0, f"replay.n_step must be at least 1, and is {self.n_step}.")
        require(self.beta_over > 0, f"replay.beta_over must be above 0, and is {self.beta_over}.")
        SAMPLERS.check(self.sampler, self.sampler_kwargs, self)
        prioritized = self.priority > 0
        require(
            not prioritized or self.sampler in ("auto", "prioritized"),
            f"replay.priority {self.priority} is for prioritized replay, and replay.sampler is '{self.sampler}': "
            "leave one of them out.",
        )
        require(
            prioritized or self.sampler != "prioritized",
            "replay.sampler prioritized needs replay.priority above 0: how strongly errors count.",
        )


@dataclass(frozen=True)
class LearnConfig:
    """The learner."""

    method: Literal["replay", "pqn"] = "replay"
    """What the learner learns from. replay: transitions drawn from a replay, with a target network. pqn: λ-returns
    of the last rollout, with neither."""
    head: Annotated[str, tyro.conf.arg(metavar=HEADS.metavar)] = "scalar"
    """What the network predicts for each action: the expected return, or its distribution by fixed atoms (C51), by
    fixed quantiles (QR-DQN), or by any quantile (IQN). module:Name: your own head (docs/own-variants.md)."""
    head_kwargs: Kwargs = field(default_factory=dict)
    """Arguments for your own head."""
    bootstrap: Annotated[str, tyro.conf.arg(metavar=BOOTSTRAPS.metavar)] = "double"
    """How the value of the next state is estimated. module:Name: your own bootstrap."""
    bootstrap_kwargs: Kwargs = field(default_factory=dict)
    """Arguments for your own bootstrap."""
    gamma: float = 0.99
    """Discount γ per step."""
    batch_size: int = 256
    """Number of transitions per gradient step (method replay)."""
    starts: int = 10_000
    """Number of transitions to collect before the first gradient step (method replay)."""
    optimizer: Annotated[str, tyro.conf.arg(metavar=OPTIMIZERS.metavar)] = "adam"
    """The optimizer. module:Name: your own optimizer."""
    optimizer_kwargs: Kwargs = field(default_factory=dict)
    """Arguments for your own optimizer."""
    lr: float = 5e-4
    """Learning rate."""
    lr_end: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None
    """Learning rate at the end; none: it stays constant."""
    lr_over: int = 5_000_000
    """Number of transitions over which the learning rate falls linearly."""
    adam_eps: float = 1e-8
    """Adam's ε."""
    weight_decay: float = 0.0
    """Weight decay (adamw)."""
    grad_clip: float = 10.0
    """Largest gradient norm; 0: no clipping."""
    huber: float = 1.0
    """Huber's δ: squared loss below, linear above; 0: squared everywhere. For quantiles it is κ; 0: absolute."""
    target_every: int = 1000
    """Number of gradient steps between hard copies into the target network; 0: soft updates (method replay)."""
    target_tau: float = 0.005
    """τ of the soft update at every gradient step: target += τ · (online − target)."""
    atoms: int = 51
    """Number of atoms of the return's distribution (head categorical)."""
    v_min: float = -20.0
    """The smallest return that an atom stands for; smaller returns count as this (head categorical)."""
    v_max: float = 180.0
    """The largest return that an atom stands for; larger returns count as this (head categorical)."""
    quantiles: int = 32
    """Number of quantiles of the return's distribution (head quantile)."""
    iqn_learn: int = 8
    """N: number of random fractions at which a gradient step compares quantiles (head iqn)."""
    iqn_target: int = 8
    """N': number of random fractions of the target (head iqn)."""
    iqn_choose: int = 16
    """K: number of fractions whose mean chooses an action (head iqn)."""
    munchausen_alpha: float = 0.9
    """α: weight of the log-policy in the reward (bootstrap munchausen)."""
    munchausen_tau: float = 0.03
    """τ: temperature of the soft policy, in units of return (bootstrap munchausen)."""
    munchausen_clip: float = -1.0
    """l₀: the lower bound of τ log π in the reward (bootstrap munchausen)."""

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
        for axis, name in ((HEADS, "head"), (BOOTSTRAPS, "bootstrap"), (OPTIMIZERS, "optimizer")):
            axis.check(getattr(self, name), getattr(self, f"{name}_kwargs"), self)
        require(
            self.weight_decay == 0 or hasattr(OPTIMIZERS.read(self.optimizer, self), "weight_decay"),
            "learn.weight_decay needs --learn.optimizer adamw (the others would fold it into the moments).",
        )


@dataclass(frozen=True)
class PQNConfig:
    """Rollouts and their λ-returns (learn.method pqn only)."""

    rollout: int = 32
    """T: number of steps of every environment between two rounds of learning."""
    epochs: int = 2
    """Number of passes over each rollout."""
    minibatches: int = 32
    """Number of gradient steps in each pass; rollout · envs must be a multiple of it."""
    trace: float = 0.65
    """λ of the returns; 0: one step, 1: all rewards up to the end of the rollout."""

    def __post_init__(self) -> None:
        for name in ("rollout", "epochs", "minibatches"):
            value = getattr(self, name)
            require(value > 0, f"pqn.{name} must be at least 1, and is {value}.")
        require(0 <= self.trace <= 1, f"pqn.trace must lie in 0 … 1, and is {self.trace}.")


@dataclass(frozen=True)
class ExploreConfig:
    """ε-greedy exploration; every environment draws its own random actions."""

    schedule: Literal["linear", "exponential", "spread"] = "linear"
    """linear or exponential: ε falls from start to end. spread: environment i always keeps its own ε;
    these fall from start to end in equal factors."""
    start: float = 1.0
    """ε at the start (spread: the largest ε)."""
    end: float = 0.005
    """ε at the end (spread: the smallest ε)."""
    over: int = 1_000_000
    """Number of transitions over which ε falls."""

    def __post_init__(self) -> None:
        require(
            0 <= self.end <= self.start <= 1,
            f"explore needs 0 ≤ end ≤ start ≤ 1, and has start {self.start} and end {self.end}.",
        )
        require(
            self.end > 0 or self.schedule == "linear",
            f"explore.end must be above 0 with the {self.schedule} schedule, because ε falls by a factor.",
        )
        require(self.over > 0, f"explore.over must be above 0, and is {self.over}.")
