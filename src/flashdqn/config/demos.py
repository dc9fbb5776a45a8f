"""Settings of demonstrations: an expert's episodes, played before the training's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from flashdqn.config.values import require
from flashdqn.core.ranges import LARGE, MANY, Between, check_values, describe_value


@dataclass(frozen=True)
class DemosConfig:
    """Demonstrations fill the replay before the clock starts. They are counted and reported separately."""

    source: str = "none"
    """Who plays the demonstrations: none; random, for any task; or one of the task's experts, which `flashdqn envs`
    lists."""
    episodes: Annotated[int, Between(0, 10**6)] = 0
    """Number of demonstration episodes."""
    chance: Annotated[float, Between(0, 1)] = 0.0
    """Probability of a random legal action instead of the expert's. The replay then also holds worse actions."""
    pretrain_steps: Annotated[int, Between(0, MANY)] = 0
    """Gradient steps on the demonstrations alone, before the training collects its first transition."""
    keep: Annotated[int, Between(0, 10**12)] = 0
    """Number of demonstration transitions to keep permanently, outside the replay, where new transitions overwrite
    old ones. A part of every batch comes from them, and a margin loss teaches the expert's actions (DQfD)."""
    share: Annotated[float, Between(0, 1)] = 0.25
    """Share of every batch that comes from the kept demonstrations."""
    margin: Annotated[float, Between(0, LARGE)] = 0.8
    """Margin by which the expert's action must be worth more than any other, in kept demonstrations."""
    margin_weight: Annotated[float, Between(0, LARGE)] = 1.0
    """Weight of the margin loss; 0: kept demonstrations are learned from like other transitions."""

    def __post_init__(self) -> None:
        check_values(self, "demos.")
        require(
            self.keep == 0 or self.source != "random",
            "demos.keep needs an expert to learn from, and demos.source is random.",
        )
        require(0 < self.share < 1, f"demos.share must lie between 0 and 1, and is {self.share}.")
        require(
            self.source == "none" or self.episodes > 0,
            f"demos.source {describe_value(self.source)} needs demos.episodes above 0: the number of episodes to "
            "play.",
        )
        # `--demos.source none` alone turns off what a preset sets; one of the others alone is a mistake.
        shown, alone = self.episodes > 0, self.pretrain_steps > 0 or self.keep > 0
        require(
            self.source != "none" or shown == alone,
            "demos.episodes, demos.pretrain_steps and demos.keep need demos.source: who plays them.",
        )

    @property
    def asked_for(self) -> bool:
        """Whether any demonstrations are asked for."""
        return self.source != "none"

    @property
    def kept(self) -> int:
        """Number of transitions to keep permanently."""
        return self.keep if self.asked_for else 0
