"""Build what a configuration names on each axis: the head, the bootstrap, the optimizer and the sampler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from flashdqn.config import Config, LearnConfig, axes
from flashdqn.config.axes import has_trait
from flashdqn.core.errors import ConfigError
from flashdqn.core.user_code import names_code
from flashdqn.learn.adam import Adam
from flashdqn.learn.bootstraps import Bootstrap, Munchausen, Net, double_target, given_target, greedy_target
from flashdqn.learn.distributional import CategoricalHead, ImplicitQuantileHead, QuantileHead
from flashdqn.learn.flat import Flat
from flashdqn.learn.heads import Head, ScalarHead
from flashdqn.learn.pqn import RolloutSampler
from flashdqn.learn.registry import Registry
from flashdqn.learn.user_variants import (
    UserOptimizer,
    UserSampler,
    make_user_bootstrap,
    make_user_head,
    try_variants,
)
from flashdqn.networks.implicit import Fractions
from flashdqn.replay import PrioritizedSampler, Ring, Sampler, UniformSampler


class Optimizer(Protocol):
    """Moves the flat parameters, and counts its steps on the device."""

    steps: Tensor  # []

    def step(self) -> None:
        """Move the parameters by their gradient."""

    def step_by_formula(self, gradient: Tensor) -> None:
        """Move the parameters by the given gradient, in plain operations that compile well."""

    def state_dict(self) -> dict[str, Tensor]:
        """The tensors that resuming needs."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a checkpoint, in the same tensors."""


def _make_implicit_head(config: axes.ImplicitHeadConfig, device: torch.device) -> Head:
    return ImplicitQuantileHead(
        Fractions(config.iqn_learn, config.iqn_target, config.iqn_choose), config.huber
    )


def _make_munchausen(config: axes.MunchausenConfig) -> Bootstrap:
    return Munchausen(config.munchausen_alpha, config.munchausen_tau, config.munchausen_clip)


def _make_adam(_: Any, config: LearnConfig, flat: Flat, lr: Tensor) -> Optimizer:
    return Adam(config, flat, lr)


class SamplerParts(NamedTuple):
    """The parts that a sampler can be built from."""

    config: Config
    ring: Ring
    policy: Net
    head: Head
    generator: torch.Generator


def _make_uniform(_: axes.UniformConfig, parts: SamplerParts) -> Sampler:
    config = parts.config
    return UniformSampler(parts.ring, config.replay.n_step, config.learn.gamma, parts.generator)


def _make_prioritized(own: axes.PrioritizedConfig, parts: SamplerParts) -> Sampler:
    n_step, gamma = parts.config.replay.n_step, parts.config.learn.gamma
    chances = {"alpha": own.priority, "beta": own.beta, "eps": own.priority_eps}
    return PrioritizedSampler(parts.ring, n_step, gamma, parts.generator, **chances)


def make_rollout_sampler(parts: SamplerParts) -> RolloutSampler:
    """The sampler of PQN's rollouts, with values from the learner's own network."""
    config, ring, policy, head, generator = parts
    return RolloutSampler(ring, policy, head, config.pqn, config.learn.gamma, generator)


def _make_user_sampler(name: str, kwargs: dict[str, Any], parts: SamplerParts) -> Sampler:
    n_step, gamma = parts.config.replay.n_step, parts.config.learn.gamma
    return UserSampler(name, kwargs, parts.ring, n_step, gamma, parts.generator)


HEADS: Registry[Head] = Registry(
    axes.HEADS,
    {
        "scalar": lambda own, device: ScalarHead(own.huber),
        "categorical": lambda own, device: CategoricalHead(own.atoms, own.v_min, own.v_max, device),
        "quantile": lambda own, device: QuantileHead(own.quantiles, own.huber, device),
        "iqn": _make_implicit_head,
    },
    make_user_head,
)
BOOTSTRAPS: Registry[Bootstrap] = Registry(
    axes.BOOTSTRAPS,
    {
        "greedy": lambda own: greedy_target,
        "double": lambda own: double_target,
        "munchausen": _make_munchausen,
    },
    make_user_bootstrap,
)
OPTIMIZERS: Registry[Optimizer] = Registry(
    axes.OPTIMIZERS,
    dict.fromkeys(axes.OPTIMIZERS.choices, _make_adam),
    lambda name, kwargs, config, flat, lr: UserOptimizer(name, kwargs, flat, lr),
)
SAMPLERS: Registry[Sampler] = Registry(
    axes.SAMPLERS,
    {
        "uniform": _make_uniform,
        "prioritized": _make_prioritized,
        "rollout": lambda own, parts: make_rollout_sampler(parts),
    },
    _make_user_sampler,
)


def build_head(config: LearnConfig, device: torch.device) -> Head:
    """Build the head, with its constants on a device."""
    return HEADS.build(config.head, config, config.head_kwargs, device)


def build_bootstrap(config: LearnConfig) -> Bootstrap:
    """Build the bootstrap; the returns of rollouts do not need one."""
    if config.method == "pqn":
        return given_target
    return BOOTSTRAPS.build(config.bootstrap, config, config.bootstrap_kwargs)


def build_optimizer(config: LearnConfig, flat: Flat, lr: Tensor) -> Optimizer:
    """Build what moves the flat parameters, at the learning rate in the tensor `lr`."""
    return OPTIMIZERS.build(config.optimizer, config, config.optimizer_kwargs, config, flat, lr)


def build_sampler(parts: SamplerParts) -> Sampler:
    """Build what draws batches from the ring."""
    config = parts.config
    return SAMPLERS.build(config.sampler, config.replay, config.replay.sampler_kwargs, parts)


def check_variants(config: Config, head: Head, num_actions: int, device: torch.device) -> None:
    """Check the traits of the user's head and bootstrap, which the settings could not know, and try them."""
    learn = config.learn
    named = [
        f"The {axis} '{name}'"
        for axis, name in (("head", learn.head), ("bootstrap", learn.bootstrap))
        if names_code(name)
    ]
    if not named:
        return
    bootstrap = build_bootstrap(learn)
    if learn.method == "pqn" and not has_trait(head, "single_number"):
        raise ConfigError(
            f"learn.method pqn needs a head of one number, and {learn.head} does not have single_number = True."
        )
    if config.replay.n_step > 1 and has_trait(bootstrap, "single_step_only"):
        raise ConfigError(
            f"learn.bootstrap {learn.bootstrap} needs replay.n_step 1, and it is {config.replay.n_step}."
        )
    try_variants(head, bootstrap, " with ".join(named), num_actions, device)
