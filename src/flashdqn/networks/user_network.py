"""A user's torso: any module that is made from the observation's shape and says how many features it gives.

    class MyTorso(nn.Module):
        def __init__(self, shape, width=64):    # network.kwargs are passed by name
            …
            self.features = width

        def forward(self, obs):                 # [B, *shape] float32 → [B, features]
            …

The torso initializes its own weights, from the run's seed. `docs/own-networks.md` has the whole contract.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flashdqn.core.errors import ConfigError
from flashdqn.core.user_code import import_named, names_code

#: What a torso must not hold, and what to use instead.
_REFUSED = (
    (
        nn.modules.batchnorm._BatchNorm,
        "normalizes over the batch, and its running means would not reach the target network: use nn.LayerNorm",
    ),
    (nn.modules.dropout._DropoutNd, "draws random numbers that no checkpoint holds: leave it out"),
)


def is_user_torso(torso: str) -> bool:
    """Whether a setting names a user's torso."""
    return names_code(torso)


def build_user_torso(name: str, shape: tuple[int, ...], kwargs: dict[str, Any], seed: int) -> nn.Module:
    """Make the torso, with its own initial weights from `seed`, and try it on two observations."""
    make = import_named(name, "the torso")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            torso = make(shape, **kwargs)
        except ConfigError:
            raise
        except Exception as error:  # the user's own code
            raise ConfigError(
                f"The torso '{name}' cannot be made for observations of shape {list(shape)} with the arguments "
                f"{kwargs}: {type(error).__name__}: {error}"
            ) from error
        check_torso(torso, name, shape)
    return torso  # type: ignore[no-any-return]


def check_torso(torso: object, name: str, shape: tuple[int, ...]) -> None:
    """Refuse a torso that breaks the contract, and say why."""
    where = f"The torso '{name}'"
    if not isinstance(torso, nn.Module):
        raise ConfigError(f"{where} must be a torch.nn.Module, and is a {type(torso).__name__}.")
    features = getattr(torso, "features", None)
    if type(features) is not int or features < 1:
        raise ConfigError(f"{where} must say how many features it gives, as self.features: {features!r}.")
    for parameter, value in torso.named_parameters():
        if value.dtype != torch.float32:
            raise ConfigError(f"{where}: its weights must be float32, and {parameter} is {value.dtype}.")
    for module in torso.modules():
        for kind, reason in _REFUSED:
            if isinstance(module, kind):
                raise ConfigError(f"{where} holds a {type(module).__name__}, which {reason}.")
    try:
        with torch.no_grad():
            out = torso(torch.zeros(2, *shape))
    except Exception as error:  # the user's own code
        raise ConfigError(
            f"{where} cannot read a batch of observations of shape {list(shape)}: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(out, torch.Tensor) or out.shape != (2, features) or out.dtype != torch.float32:
        got = f"{out.dtype} {list(out.shape)}" if isinstance(out, torch.Tensor) else type(out).__name__
        raise ConfigError(f"{where} must turn two observations into float32 [2, {features}], and gave {got}.")
