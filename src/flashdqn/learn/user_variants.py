"""The user's own heads, bootstraps, samplers and optimizers, each made from its name and checked before it is used.

`docs/own-variants.md` has the contracts. A broken contract is reported in one sentence before the training starts.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flashdqn.core.errors import ConfigError
from flashdqn.core.types import Batch, Transition
from flashdqn.core.user_code import import_named, make_named
from flashdqn.learn.bootstraps import Bootstrap, Net
from flashdqn.learn.flat import Flat
from flashdqn.learn.heads import Head
from flashdqn.learn.loss import td_loss
from flashdqn.networks.implicit import Fractions
from flashdqn.replay.ring import Ring
from flashdqn.replay.samplers import Pick

HEAD_METHODS = ("q", "select", "expect", "mean", "target", "compare")


def make_user_head(name: str, kwargs: dict[str, Any], device: torch.device) -> Head:
    """Make the head by `Name(**kwargs)`, with `device=…` if it takes one."""
    made = _make_with_device(name, "the head", kwargs, device)
    _require_methods(made, "the head", name, HEAD_METHODS)
    size, fractions = getattr(made, "size", None), getattr(made, "fractions", None)
    if type(size) is not int or size < 1:
        raise ConfigError(
            f"The head '{name}' must say how many numbers it needs per action, as self.size: {size!r}."
        )
    if fractions is not None and not isinstance(fractions, Fractions):
        raise ConfigError(
            f"The head '{name}' must have fractions None, or Fractions(…), and has {fractions!r}."
        )
    if not hasattr(made, "fractions"):
        made.fractions = None
    return made  # type: ignore[no-any-return]


def make_user_bootstrap(name: str, kwargs: dict[str, Any]) -> Bootstrap:
    """Make the bootstrap by `Name(**kwargs)`, which must return a callable."""
    made = make_named(name, "the bootstrap", **kwargs)
    if not callable(made):
        raise ConfigError(
            f"The bootstrap '{name}' must give something that is called as "
            f"bootstrap(online, target, transition, head), and gave a {type(made).__name__}."
        )
    return made  # type: ignore[no-any-return]


def try_variants(head: Head, bootstrap: Bootstrap, name: str, num_actions: int, device: torch.device) -> None:
    """Compute the loss of two transitions with a network whose output is zero; `name` is for messages."""
    if head.fractions is not None:
        return  # the network itself decides the form of its output
    output = torch.zeros(2, num_actions * head.size, device=device)
    obs, number = torch.zeros(2, 1, device=device), torch.ones(2, device=device)
    action = torch.zeros(2, dtype=torch.int64, device=device)
    legal = torch.ones(2, num_actions, dtype=torch.bool, device=device)
    batch = Batch(Transition(obs, action, number, number, obs, legal, legal), number, action)
    net: Net = lambda _: output  # noqa: E731
    try:
        q, (loss, priority, _) = head.q(output), td_loss(net, net, batch, head, bootstrap)
    except Exception as error:  # the user's own code
        raise ConfigError(
            f"{name} cannot learn from two transitions: {type(error).__name__}: {error}"
        ) from error
    for what, found, wanted in (
        ("q", q, (2, num_actions)),
        ("priorities", priority, (2,)),
        ("loss", loss, ()),
    ):
        if not isinstance(found, Tensor) or found.shape != wanted:
            got = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise ConfigError(
                f"{name} must give {what} of shape {list(wanted)} for two transitions, and gave {got}."
            )


class UserOptimizer:
    """A user's optimizer as the learner calls it: its `step(gradient)` moves the flat parameters in place.

    When a run is resumed, its state is written into the same tensors, because graphs know their addresses.
    """

    def __init__(self, name: str, kwargs: dict[str, Any], flat: Flat, lr: Tensor) -> None:
        self.flat = flat
        self.own = make_named(name, "the optimizer", flat.values, lr, **kwargs)
        _require_methods(self.own, "the optimizer", name, ("step", "state_dict"))
        self.steps = torch.zeros((), device=flat.values.device)

    def step(self) -> None:
        """Move the parameters by their gradient."""
        self.step_by_formula(self.flat.gradient)

    def step_by_formula(self, gradient: Tensor) -> None:
        """Move the parameters by the given gradient, [P]."""
        self.steps.add_(1)
        self.own.step(gradient)

    def state_dict(self) -> dict[str, Tensor]:
        """The optimizer's tensors, and the number of steps."""
        return {"steps": self.steps} | {f"own.{key}": x for key, x in self.own.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a checkpoint."""
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])


class UserSampler:
    """A user's sampler as the loop calls it. It must have `batches(count, size)`; it leaves out the other methods
    that it does not need."""

    wants_priorities = True
    draws_on_device = True
    uniform = None

    def __init__(
        self,
        name: str,
        kwargs: dict[str, Any],
        ring: Ring,
        n_step: int,
        gamma: float,
        generator: torch.Generator,
    ) -> None:
        self.own = make_named(name, "the sampler", ring, n_step, gamma, generator, **kwargs)
        self.least_rows = n_step + 3
        _require_methods(self.own, "the sampler", name, ("batches",))

    def sample(self, size: int) -> Batch:
        """Draw one batch."""
        return self.batches(1, size)[0]

    def batches(self, count: int, size: int, pick: Pick | None = None) -> list[Batch]:
        """Draw `count` batches of `size` transitions."""
        return self.own.batches(count, size)  # type: ignore[no-any-return]

    def update(self, index: Tensor, priority: Tensor) -> None:
        """Take the learner's priorities for the transitions at `index`."""
        self._tell("update", index, priority)

    def appended(self) -> None:
        """Tell the sampler that the ring has one more row."""
        self._tell("appended")

    def rows_added(self) -> None:
        """The host's part of `appended`."""
        self._tell("rows_added")

    def drawing(self, count: int) -> None:
        """The host's part of drawing `count` batches, before they are drawn."""
        self._tell("drawing", count)

    def draw_again(self) -> None:
        """Allow the same batches to be drawn once more."""
        self._tell("draw_again")

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the importance weights, from its schedule."""
        self._tell("set_beta", beta)

    def state_dict(self) -> dict[str, Tensor]:
        """The tensors that resuming needs besides the ring and the generator."""
        return self._tell("state_dict") or {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a checkpoint, after the ring has been loaded."""
        self._tell("load_state_dict", state)

    def _tell(self, method: str, *parts: Any) -> Any:
        call = getattr(self.own, method, None)
        return None if call is None else call(*parts)


def _make_with_device(name: str, what: str, kwargs: dict[str, Any], device: torch.device) -> Any:
    try:
        takes_device = "device" in inspect.signature(import_named(name, what)).parameters
    except (TypeError, ValueError):  # not callable, or built in
        takes_device = False
    return make_named(name, what, **({"device": device} if takes_device else {}), **kwargs)


def _require_methods(made: object, what: str, name: str, methods: tuple[str, ...]) -> None:
    missing = [method for method in methods if not callable(getattr(made, method, None))]
    if missing:
        raise ConfigError(
            f"{what.capitalize()} '{name}' has no {', '.join(missing)}: docs/own-variants.md has the contract."
        )
