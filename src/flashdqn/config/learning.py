"""Settings of replay, learner, rollouts and exploration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from flashdqn.config.axes import BOOTSTRAPS, HEADS, OPTIMIZERS, SAMPLERS
from flashdqn.config.values import require
from flashdqn.core.ranges import LARGE, MANY, Between, check_values
from flashdqn.core.user_code import Kwargs


@dataclass(frozen=True)
class ReplayConfig:
    """The replay ring."""

    capacity: Annotated[int, Between(1, 10**12)] = 500_000
    """Number of transitions that the ring holds."""
    n_step: Annotated[int, Between(1, 10_000)] = 1
    """Number of reward steps before bootstrapping."""
    priority: Annotated[float, Between(0, 1)] = 0.0
    """α of prioritized replay, which draws transitions in proportion to (|δ| + ε)^α; 0: uniformly."""
    beta: Annotated[float, Between(0, 1)] = 0.4
    """Exponent β of the importance weights at the start; it rises to 1 (prioritized only)."""
    beta_over: Annotated[int, Between(1, MANY)] = 5_000_000
    """Number of transitions over which β rises linearly to 1, or a share of the budget: 50%."""
    priority_eps: Annotated[float, Between(1e-30, 1e30)] = 1e-6
    """ε, which keeps a chance for transitions without an error (prioritized only)."""
    sampler: Annotated[str, tyro.conf.arg(metavar=SAMPLERS.metavar)] = "auto"
    """What draws batches from the ring. auto: rollout for pqn, else prioritized if replay.priority is above 0, else
    uniform. module:Name: your own sampler (docs/own-variants.md)."""
    sampler_kwargs: Kwargs = field(default_factory=dict)
    """Arguments for your own sampler."""

    def __post_init__(self) -> None:
        check_values(self, "replay.")
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
    gamma: Annotated[float, Between(0, 1)] = 0.99
    """Discount γ per step."""
    batch_size: Annotated[int, Between(1, 2**24)] = 256
    """Number of transitions per gradient step (method replay)."""
    batch_per_rank: bool = False
    """With several ranks, batch_size is that of each rank. Otherwise it is that of all together, and is divided
    among them, so that many ranks learn what one learns."""
    starts: Annotated[int, Between(0, MANY)] = 10_000
    """Number of transitions to collect before the first gradient step (method replay)."""
    optimizer: Annotated[str, tyro.conf.arg(metavar=OPTIMIZERS.metavar)] = "adam"
    """The optimizer. module:Name: your own optimizer."""
    optimizer_kwargs: Kwargs = field(default_factory=dict)
    """Arguments for your own optimizer."""
    lr: Annotated[float, Between(0, 1000, above=True)] = 5e-4
    """Learning rate."""
    lr_end: Annotated[float | None, tyro.conf.arg(metavar="FLOAT"), Between(0, 1000)] = None
    """Learning rate at the end; none: it stays constant."""
    lr_over: Annotated[int, Between(1, MANY)] = 5_000_000
    """Number of transitions over which the learning rate falls linearly, or a share of the budget: 100%."""
    adam_eps: Annotated[float, Between(0, 1000)] = 1e-8
    """Adam's ε."""
    weight_decay: Annotated[float, Between(0, 1000)] = 0.0
    """Weight decay (adamw)."""
    grad_clip: Annotated[float, Between(0, LARGE)] = 10.0
    """Largest gradient norm; 0: no clipping."""
    huber: Annotated[float, Between(0, LARGE)] = 1.0
    """Huber's δ: squared loss below, linear above; 0: squared everywhere. For quantiles it is κ; 0: absolute."""
    target_every: Annotated[int, Between(0, MANY)] = 1000
    """Number of gradient steps between hard copies into the target network; 0: soft updates (method replay)."""
    target_tau: Annotated[float, Between(0, 1, above=True)] = 0.005
    """τ of the soft update at every gradient step: target += τ · (online − target)."""
    atoms: Annotated[int, Between(2, 10_000)] = 51
    """Number of atoms of the return's distribution (head categorical)."""
    v_min: Annotated[float, Between(-LARGE, LARGE)] = -20.0
    """The smallest return that an atom stands for; smaller returns count as this (head categorical)."""
    v_max: Annotated[float, Between(-LARGE, LARGE)] = 180.0
    """The largest return that an atom stands for; larger returns count as this (head categorical)."""
    quantiles: Annotated[int, Between(1, 10_000)] = 32
    """Number of quantiles of the return's distribution (head quantile)."""
    iqn_learn: Annotated[int, Between(1, 10_000)] = 8
    """N: number of random fractions at which a gradient step compares quantiles (head iqn)."""
    iqn_target: Annotated[int, Between(1, 10_000)] = 8
    """N': number of random fractions of the target (head iqn)."""
    iqn_choose: Annotated[int, Between(1, 10_000)] = 16
    """K: number of fractions whose mean chooses an action (head iqn)."""
    munchausen_alpha: Annotated[float, Between(0, 1)] = 0.9
    """α: weight of the log-policy in the reward (bootstrap munchausen)."""
    munchausen_tau: Annotated[float, Between(0, LARGE, above=True)] = 0.03
    """τ: temperature of the soft policy, in units of return (bootstrap munchausen)."""
    munchausen_clip: Annotated[float, Between(-LARGE, 0)] = -1.0
    """l₀: the lower bound of τ log π in the reward (bootstrap munchausen)."""

    def __post_init__(self) -> None:
        check_values(self, "learn.")
        for axis, name in ((HEADS, "head"), (BOOTSTRAPS, "bootstrap"), (OPTIMIZERS, "optimizer")):
            axis.check(getattr(self, name), getattr(self, f"{name}_kwargs"), self)
        require(
            self.weight_decay == 0 or hasattr(OPTIMIZERS.read(self.optimizer, self), "weight_decay"),
            "learn.weight_decay needs --learn.optimizer adamw (the others would fold it into the moments).",
        )


@dataclass(frozen=True)
class PQNConfig:
    """Rollouts and their λ-returns (learn.method pqn only)."""

    rollout: Annotated[int, Between(1, 10**6)] = 32
    """T: number of steps of every environment between two rounds of learning."""
    epochs: Annotated[int, Between(1, 10_000)] = 2
    """Number of passes over each rollout."""
    minibatches: Annotated[int, Between(1, 10**6)] = 32
    """Number of gradient steps in each pass; rollout · envs must be a multiple of it."""
    trace: Annotated[float, Between(0, 1)] = 0.65
    """λ of the returns; 0: one step, 1: all rewards up to the end of the rollout."""

    def __post_init__(self) -> None:
        check_values(self, "pqn.")


@dataclass(frozen=True)
class ExploreConfig:
    """ε-greedy exploration; every environment draws its own random actions."""

    schedule: Literal["linear", "exponential", "spread"] = "linear"
    """linear or exponential: ε falls from start to end. spread: environment i always keeps its own ε;
    these fall from start to end in equal factors."""
    start: Annotated[float, Between(0, 1)] = 1.0
    """ε at the start (spread: the largest ε)."""
    end: Annotated[float, Between(0, 1)] = 0.005
    """ε at the end (spread: the smallest ε)."""
    over: Annotated[int, Between(1, MANY)] = 1_000_000
    """Number of transitions over which ε falls, or a share of the budget: 10%."""

    def __post_init__(self) -> None:
        check_values(self, "explore.")
        require(
            self.end <= self.start,
            f"explore needs 0 ≤ end ≤ start ≤ 1, and has start {self.start} and end {self.end}.",
        )
        require(
            self.end > 0 or self.schedule == "linear",
            f"explore.end must be above 0 with the {self.schedule} schedule, because ε falls by a factor.",
        )
