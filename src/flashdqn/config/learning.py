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
    sampler: Annotated[str, tyro.conf.arg(metavar=SAMPLERS.metavar)] = "auto"
    """What draws from the ring; auto: prioritized where replay.priority is above 0, else uniform, and rollout for
    pqn. module:Name: one of your own (docs/own-variants.md)."""
    sampler_kwargs: Kwargs = field(default_factory=dict)
    """Arguments for a sampler of your own."""

    def __post_init__(self) -> None:
        require(self.capacity > 0, f"replay.capacity must be above 0, and is {self.capacity}.")
        require(self.n_step > 0, f"replay.n_step must be at least 1, and is {self.n_step}.")
        require(self.beta_over > 0, f"replay.beta_over must be above 0, and is {self.beta_over}.")
        SAMPLERS.check(self.sampler, self.sampler_kwargs, self)
        prioritized = self.priority > 0
        require(
            not prioritized or self.sampler in ("auto", "prioritized"),
            f"replay.priority {self.priority} is for prioritised replay, and replay.sampler is '{self.sampler}': "
            "leave one of them out.",
        )
        require(
            prioritized or self.sampler != "prioritized",
            "replay.sampler prioritized needs replay.priority above 0: how much errors count.",
        )


@dataclass(frozen=True)
class LearnConfig:
    """The learner."""

    method: Literal["replay", "pqn"] = "replay"
    """What is learned from: transitions drawn from a replay, against a target network; or, in PQN, λ-returns of
    the last rollout, with neither."""
    head: Annotated[str, tyro.conf.arg(metavar=HEADS.metavar)] = "scalar"
    """What the network predicts for each action: the expected return, or its distribution by fixed atoms (C51), by
    fixed quantiles (QR-DQN), or by any quantile (IQN). module:Name: one of your own (docs/own-variants.md)."""
    head_kwargs: Kwargs = field(default_factory=dict)
    """Arguments for a head of your own."""
    bootstrap: Annotated[str, tyro.conf.arg(metavar=BOOTSTRAPS.metavar)] = "double"
    """How the value of the next state is estimated. module:Name: one of your own."""
    bootstrap_kwargs: Kwargs = field(default_factory=dict)
    """Arguments for a bootstrap of your own."""
    gamma: float = 0.99
    """Discount γ per step."""
    batch_size: int = 256
    """Transitions per gradient step (method replay)."""
    starts: int = 10_000
    """Transitions to collect before the first gradient step (method replay)."""
    optimizer: Annotated[str, tyro.conf.arg(metavar=OPTIMIZERS.metavar)] = "adam"
    """The optimizer. module:Name: one of your own."""
    optimizer_kwargs: Kwargs = field(default_factory=dict)
    """Arguments for an optimizer of your own."""
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
