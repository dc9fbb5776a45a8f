"""The axes of the family: what can be chosen on each, and the few settings that belong to a choice.

Each choice has its own small dataclass. Its fields are keys of the axis's group: the atoms of a categorical head
are `learn.atoms`, and its range stands there. Each dataclass checks what remains, and says what else the settings
must know about the choice.
`learn/build.py` builds the choices. A user's variant is written module:Name and has no entry here: its traits are
read when it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from flashdqn.config.values import require
from flashdqn.core.ranges import describe_value
from flashdqn.core.suggestions import suggest_close
from flashdqn.core.user_code import check_json_serializable, names_code


@dataclass(frozen=True)
class ScalarHeadConfig:
    """The settings of `learn.head scalar`."""

    single_number: ClassVar[bool] = True  # a value is one number, as PQN's returns are
    huber: float


@dataclass(frozen=True)
class CategoricalHeadConfig:
    """The settings of `learn.head categorical`."""

    atoms: int
    v_min: float
    v_max: float

    def __post_init__(self) -> None:
        # The atoms are float32: two that are the same there would divide by 0.
        step = (self.v_max - self.v_min) / max(1, self.atoms - 1)
        require(
            self.v_min < self.v_max and step > 1e-6 * max(abs(self.v_min), abs(self.v_max)),
            f"learn needs v_min < v_max, with room for {self.atoms} atoms in float32 between them, and has "
            f"{self.v_min} and {self.v_max}.",
        )


@dataclass(frozen=True)
class QuantileHeadConfig:
    """The settings of `learn.head quantile`."""

    quantiles: int
    huber: float


@dataclass(frozen=True)
class ImplicitHeadConfig:
    """The settings of `learn.head iqn`."""

    iqn_learn: int
    iqn_target: int
    iqn_choose: int
    huber: float


@dataclass(frozen=True)
class GreedyConfig:
    """`learn.bootstrap greedy` has no settings."""


@dataclass(frozen=True)
class DoubleConfig:
    """`learn.bootstrap double` has no settings."""


@dataclass(frozen=True)
class MunchausenConfig:
    """The settings of `learn.bootstrap munchausen`."""

    single_step_only: ClassVar[bool] = True  # an n-step return lacks log-policy terms
    munchausen_alpha: float
    munchausen_tau: float
    munchausen_clip: float

    def __post_init__(self) -> None:
        require(
            0 <= self.munchausen_alpha < 1,
            f"learn.munchausen_alpha must be at least 0 and below 1, and is {self.munchausen_alpha}: "
            "at 1 the gaps between actions would grow without limit.",
        )


@dataclass(frozen=True)
class AdamConfig:
    """The settings of `learn.optimizer adam` and `radam`."""

    adam_eps: float


@dataclass(frozen=True)
class AdamWConfig:
    """The settings of `learn.optimizer adamw`."""

    adam_eps: float
    weight_decay: float


@dataclass(frozen=True)
class UniformConfig:
    """`replay.sampler uniform` has no settings."""


@dataclass(frozen=True)
class PrioritizedConfig:
    """The settings of `replay.sampler prioritized`."""

    priority: float
    beta: float
    priority_eps: float


@dataclass(frozen=True)
class RolloutConfig:
    """`replay.sampler rollout` takes its settings from the group `pqn`."""


@dataclass(frozen=True)
class Variant:
    """A built-in entry of an axis: one line about it, and the type of its settings."""

    about: str
    config: type[Any]


@dataclass(frozen=True)
class VariantAxis:
    """Where a choice is made: the key, and what can be chosen there."""

    key: str  # learn.head
    choices: Mapping[str, Variant]
    automatic: bool = False  # whether "auto" is also allowed

    @property
    def words(self) -> tuple[str, ...]:
        """What may be written, besides module:Name."""
        return ("auto",) * self.automatic + tuple(self.choices)

    @property
    def metavar(self) -> str:
        """The allowed words as --help shows them."""
        return "|".join((*self.words, "MODULE:NAME"))

    def read(self, name: str, group: Any) -> Any:
        """The settings of a choice, taken from its group; None for "auto" and for a user's variant."""
        if name not in self.choices:
            return None
        config = self.choices[name].config
        return config(**{field.name: getattr(group, field.name) for field in fields(config)})

    def check(self, name: str, kwargs: dict[str, Any], group: Any) -> None:
        """Refuse an unknown word, arguments that nothing takes, and impossible settings. The settings of all
        choices are checked, because a flag that is wrong today must not surprise the user tomorrow."""
        require(
            name in self.words or names_code(name),
            f"{self.key} must be one of {', '.join(self.words)}, or module:Name for your own, and is "
            f"{describe_value(name)}{suggest_close(name, self.words)}",
        )
        require(
            not kwargs or names_code(name),
            f"{self.key}_kwargs are for your own variant, and {self.key} is {describe_value(name)}.",
        )
        check_json_serializable(f"{self.key}_kwargs", kwargs)
        for choice in self.choices:
            self.read(choice, group)


HEADS = VariantAxis(
    "learn.head",
    {
        "scalar": Variant("the expected return", ScalarHeadConfig),
        "categorical": Variant("the return's distribution by fixed atoms (C51)", CategoricalHeadConfig),
        "quantile": Variant("the return's distribution by fixed quantiles (QR-DQN)", QuantileHeadConfig),
        "iqn": Variant("the return's distribution by any quantile (IQN)", ImplicitHeadConfig),
    },
)
BOOTSTRAPS = VariantAxis(
    "learn.bootstrap",
    {
        "greedy": Variant("the target network chooses and judges", GreedyConfig),
        "double": Variant("the online network chooses, the target network judges", DoubleConfig),
        "munchausen": Variant("a soft policy, whose log-probability is a reward", MunchausenConfig),
    },
)
OPTIMIZERS = VariantAxis(
    "learn.optimizer",
    {
        "adam": Variant("Adam", AdamConfig),
        "adamw": Variant("Adam with weight decay that is not in the moments", AdamWConfig),
        "radam": Variant("Adam whose first steps are rectified", AdamConfig),
    },
)
SAMPLERS = VariantAxis(
    "replay.sampler",
    {
        "uniform": Variant("every transition with the same chance", UniformConfig),
        "prioritized": Variant("large errors more often", PrioritizedConfig),
        "rollout": Variant("the last rollout in minibatches (PQN)", RolloutConfig),
    },
    automatic=True,
)


def has_trait(config: object, trait: str) -> bool:
    """Whether a choice, or what it builds, has a trait: `single_step_only`, `online_chooses`, …"""
    return bool(getattr(config, trait, False))
