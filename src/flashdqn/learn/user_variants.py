"""Heads, bootstraps, samplers and optimizers of the user's, each made from its name and checked before it is used.

`docs/own-variants.md` has the contracts. What breaks one is said in a sentence, before the training starts.
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
    """`Name(**kwargs)`, with `device=…` if it takes one."""
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
    """`Name(**kwargs)`, which must give something to call."""
    made = make_named(name, "the bootstrap", **kwargs)
    if not callable(made):
        raise ConfigError(
            f"The bootstrap '{name}' must give something that is called as "
            f"bootstrap(online, target, transition, head), and gave a {type(made).__name__}."
        )
    return made  # type: ignore[no-any-return]


def try_variants(head: Head, bootstrap: Bootstrap, name: str, num_actions: int, device: torch.device) -> None:
    """Compute the loss of two transitions with a network that knows nothing; what fails is said by `name`."""
    if head.fractions is not None:
        return  # its output is the network's own form
    known = torch.zeros(2, num_actions * head.size, device=device)
    obs, number = torch.zeros(2, 1, device=device), torch.ones(2, device=device)
    action = torch.zeros(2, dtype=torch.int64, device=device)
    legal = torch.ones(2, num_actions, dtype=torch.bool, device=device)
    batch = Batch(Transition(obs, action, number, number, obs, legal, legal), number, action)
    net: Net = lambda _: known  # noqa: E731
    try:
        q, (loss, priority, _) = head.q(known), td_loss(net, net, batch, head, bootstrap)
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
    """An optimizer of the user's as the learner calls it: its `step(gradient)` moves the flat parameters in place.

    Its state is written into its own tensors when a run is resumed, because graphs know their addresses.
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
        """The same with a gradient from elsewhere, [P]."""
        self.steps.add_(1)
        self.own.step(gradient)

    def state_dict(self) -> dict[str, Tensor]:
        """Its own tensors, and the number of steps."""
        return {"steps": self.steps} | {f"own.{key}": x for key, x in self.own.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])


class UserSampler:
    """A sampler of the user's as the loop calls it. It must have `batches(count, size)`; what it need not hear of,
    it leaves out."""

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
        """One batch."""
        return self.batches(1, size)[0]

    def batches(self, count: int, size: int, pick: Pick | None = None) -> list[Batch]:
        """`count` batches of `size` transitions."""
        return self.own.batches(count, size)  # type: ignore[no-any-return]

    def update(self, index: Tensor, priority: Tensor) -> None:
        """The learner's priorities for what lay at `index`."""
        self._tell("update", index, priority)

    def appended(self) -> None:
        """The ring has one more row."""
        self._tell("appended")

    def rows_added(self) -> None:
        """The same, for the host."""
        self._tell("rows_added")

    def drawing(self, count: int) -> None:
        """The next call of `batches` asks for `count` of them."""
        self._tell("drawing", count)

    def draw_again(self) -> None:
        """The same may be drawn once more."""
        self._tell("draw_again")

    def set_beta(self, beta: float) -> None:
        """The exponent of importance weights, as its schedule has it."""
        self._tell("set_beta", beta)

    def state_dict(self) -> dict[str, Tensor]:
        """What resuming needs besides the ring and the generator."""
        return self._tell("state_dict") or {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint, after the ring did."""
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
