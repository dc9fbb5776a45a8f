"""The head and the bootstrap that a configuration names."""

from __future__ import annotations

import torch

from flashdqn.config import LearnConfig
from flashdqn.learn.bootstraps import BOOTSTRAPS, Bootstrap, Munchausen, given_target
from flashdqn.learn.distributional import CategoricalHead, ImplicitQuantileHead, QuantileHead
from flashdqn.learn.heads import Head, ScalarHead
from flashdqn.networks.implicit import Fractions


def build_head(config: LearnConfig, device: torch.device) -> Head:
    """The head, with its constants on a device."""
    if config.head == "categorical":
        return CategoricalHead(config.atoms, config.v_min, config.v_max, device)
    if config.head == "quantile":
        return QuantileHead(config.quantiles, config.huber, device)
    if config.head == "iqn":
        fractions = Fractions(config.iqn_learn, config.iqn_target, config.iqn_choose)
        return ImplicitQuantileHead(fractions, config.huber)
    return ScalarHead(config.huber)


def build_bootstrap(config: LearnConfig) -> Bootstrap:
    """The bootstrap."""
    if config.method == "pqn":
        return given_target
    if config.bootstrap == "munchausen":
        return Munchausen(config.munchausen_alpha, config.munchausen_tau, config.munchausen_clip)
    return BOOTSTRAPS[config.bootstrap]
