"""`--env.…` for a trained agent: the settings of the environment that it plays in, on top of its run's own."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from flashdqn.cli.arguments import flag_names, parse
from flashdqn.envs.task import EnvConfig

if TYPE_CHECKING:
    from flashdqn.config import Config

PREFIX = "--env."


@dataclass(frozen=True)
class EnvArguments:
    """Settings of the environment that an agent plays in; by default those of its training."""

    env: EnvConfig


def split_env_flags(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The words of the `--env.…` flags, and the other words.

    The type of an environment is known only when its run is open. Until then a flag takes the word behind it, and
    all words up to the next flag if the run was named before.
    """
    ours: list[str] = []
    rest: list[str] = []
    taking = 0  # how many more words the last flag may take
    for i, word in enumerate(arguments):
        if word.startswith(PREFIX):
            ours.append(word)
            taking = 0 if "=" in word else len(arguments) if names_run(arguments[:i]) else 1
        elif taking and not word.startswith("--"):
            ours.append(word)
            taking -= 1
        else:
            rest.append(word)
            taking = 0
    return ours, rest


def names_run(words: list[str]) -> bool:
    """Whether one of the words is the run: not a flag, and not right behind one."""
    return any(
        not word.startswith("-") and (not left.startswith("--") or "=" in left)
        for left, word in pairwise(("", *words))
    )


class EnvChange:
    """Applies the flags to a run's configuration, and refuses what its network cannot take."""

    def __init__(self, command: str, words: list[str]) -> None:
        self.command, self.words = command, words
        #: what was changed, for people; empty if nothing was
        self.text = ""

    def __call__(self, config: Config) -> Config:
        """The configuration with the flags on top."""
        from flashdqn.agent.other_env import change_env, format_changes

        if not self.words:
            return config
        changed = change_env(config, parse_env_flags(self.command, self.words, config.env))
        if changed != config:
            self.text = f", with {format_changes(config, changed)}"
        return changed


def parse_env_flags(command: str, words: list[str], env: EnvConfig) -> EnvConfig:
    """The settings of an environment with the flags on top."""
    parsed: EnvArguments = parse(command, EnvArguments, words, flag_names(env, "env."), EnvArguments(env))
    return parsed.env
