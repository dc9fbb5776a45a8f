"""Settings of demonstrations: episodes of an expert before the training's own."""

from __future__ import annotations

from dataclasses import dataclass

from flashdqn.config.values import require


@dataclass(frozen=True)
class DemosConfig:
    """Demonstrations that fill the replay before the clock starts; counted and reported apart from the training."""

    source: str = "none"
    """Who shows how: random, for any task; a task's own experts, which `flashdqn envs` lists; none."""
    episodes: int = 0
    """Episodes to show."""
    chance: float = 0.0
    """Probability of a random legal action instead of the expert's, so that the replay also holds what is worse."""
    pretrain_steps: int = 0
    """Gradient steps on the demonstrations alone, before the first transition of the training's own."""
    keep: int = 0
    """Transitions of the demonstrations that stay for good, beside the replay, where new ones overwrite old ones;
    a part of every batch comes from them, and the expert's actions there are taught by a margin (DQfD)."""
    share: float = 0.25
    """Of every batch, the part that is kept demonstrations."""
    margin: float = 0.8
    """In these, the expert's action shall be worth so much more than any other."""
    margin_weight: float = 1.0
    """Weight of that in the loss; 0: they teach as other transitions do."""

    def __post_init__(self) -> None:
        require(self.episodes >= 0, f"demos.episodes must not be negative, and is {self.episodes}.")
        require(0 <= self.chance <= 1, f"demos.chance must lie in 0 … 1, and is {self.chance}.")
        require(
            self.pretrain_steps >= 0,
            f"demos.pretrain_steps must not be negative, and is {self.pretrain_steps}.",
        )
        require(self.keep >= 0, f"demos.keep must not be negative, and is {self.keep}.")
        require(
            self.keep == 0 or self.source != "random",
            "demos.keep needs an expert to learn from, and demos.source is random.",
        )
        require(0 < self.share < 1, f"demos.share must lie between 0 and 1, and is {self.share}.")
        require(self.margin >= 0, f"demos.margin must not be negative, and is {self.margin}.")
        require(
            self.margin_weight >= 0, f"demos.margin_weight must not be negative, and is {self.margin_weight}."
        )
        require(
            self.source == "none" or self.episodes > 0,
            f"demos.source {self.source} needs demos.episodes above 0: how many to show.",
        )
        # `--demos.source none` alone turns off all that a preset has; one of the others alone is a mistake.
        shown, alone = self.episodes > 0, self.pretrain_steps > 0 or self.keep > 0
        require(
            self.source != "none" or shown == alone,
            "demos.episodes, demos.pretrain_steps and demos.keep need demos.source: who shows them.",
        )

    @property
    def asked_for(self) -> bool:
        """Whether there are any."""
        return self.source != "none"

    @property
    def kept(self) -> int:
        """Transitions to keep for good."""
        return self.keep if self.asked_for else 0
