"""What can be chosen about an Atari game, of those that Gymnasium names ALE/…"""

from __future__ import annotations

from dataclasses import dataclass

from flashdqn.core.errors import ConfigError

#: Frames after which a game is cut off, half an hour of play, as in ALE's v5.
MAX_FRAMES = 108_000


@dataclass(frozen=True)
class AtariConfig:
    """Frames and episodes of Atari games (ALE/…), as Machado et al. 2018 advise; others take no notice."""

    preprocess: bool = True
    """Small grey frames, by the settings below. Off: the environment as it is registered."""
    size: int = 84
    """Height and width of a frame."""
    frame_skip: int = 4
    """Frames that an action is held for; what is seen is the maximum of the last two."""
    sticky: float = 0.25
    """Chance that a frame repeats the last action instead of the one that was chosen."""
    noops: int = 0
    """Do nothing for up to so many frames at the start of a game (30 in Mnih et al. 2015)."""
    fire: bool = False
    """Press the button at the start of a game where it has one."""
    life_loss: bool = False
    """A lost life ends the episode, while the game goes on; evaluation plays whole games in any case."""
    full_actions: bool = False
    """All 18 actions, also those that do nothing in this game."""

    def __post_init__(self) -> None:
        for name, least in (("size", 8), ("frame_skip", 1), ("noops", 0)):
            if (value := getattr(self, name)) < least:
                raise ConfigError(f"env.atari.{name} must be at least {least}, and is {value}.")
        if not 0 <= self.sticky <= 1:
            raise ConfigError(f"env.atari.sticky is a chance, 0 … 1, and is {self.sticky}.")
