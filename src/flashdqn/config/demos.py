"""Settings of demonstrations: episodes of an expert before the training's own."""

from __future__ import annotations

from dataclasses import dataclass

from flashdqn.config.values import require


@dataclass(frozen=True)
class DemosConfig:
    """Demonstrations that fill the replay before the clock starts; counted and reported apart from the training."""

    source: str = "none"
    """Who shows how: random, for any task; a task's own experts (fuelbreaks: domirank, betweenness,
    lookahead); none."""
    episodes: int = 0
    """Episodes to show."""
    chance: float = 0.0
    """Probability of a random legal action instead of the expert's, so that the replay also holds what is worse."""
    pretrain_steps: int = 0
    """Gradient steps on the demonstrations alone, before the first transition of the training's own."""

    def __post_init__(self) -> None:
        require(self.episodes >= 0, f"demos.episodes must not be negative, and is {self.episodes}.")
        require(0 <= self.chance <= 1, f"demos.chance must lie in 0 … 1, and is {self.chance}.")
        require(
            self.pretrain_steps >= 0,
            f"demos.pretrain_steps must not be negative, and is {self.pretrain_steps}.",
        )
        require(
            self.source == "none" or self.episodes > 0,
            f"demos.source {self.source} needs demos.episodes above 0: how many to show.",
        )
        require(
            self.source != "none" or self.episodes == self.pretrain_steps == 0,
            "demos.episodes and demos.pretrain_steps need demos.source: who shows them.",
        )

    @property
    def asked_for(self) -> bool:
        """Whether there are any."""
        return self.source != "none"
