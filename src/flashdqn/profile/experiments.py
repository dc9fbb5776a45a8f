"""What could be changed about a training: a list of experiments, each of which changes one setting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from flashdqn.config import Config
from flashdqn.config.settings import apply_settings
from flashdqn.core.errors import ConfigError
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.envs.tasks import find_task
from flashdqn.profile.result import Role

BOARDS = (32, 64, 256, 1024)
#: Transitions between reports that no run will reach.
NEVER = 1_000_000_000_000

GROUPS = ("ratio", "boards", "features", "batch", "threads", "logging", "modes")
SAME = "same learning"
ROUNDING = "same learning, up to rounding"


@dataclass(frozen=True)
class Experiment:
    """A training with something changed."""

    name: str
    group: str
    settings: dict[str, Any]  # by their dotted names
    role: Role
    learning: str
    quiet: bool = False  # without a display

    def of(self, config: Config) -> Config:
        """The configuration with this change; raises ConfigError if that is not possible."""
        return apply_settings(config, self.settings)

    @property
    def flags(self) -> str:
        """The settings as flags on the command line."""
        return " ".join(format_flag(setting, value) for setting, value in self.settings.items())


BASELINE = Experiment("baseline", "baseline", {}, "baseline", "your own configuration")
#: The same training once more: how much two equal trainings differ.
AGAIN = Experiment("again", "baseline", {}, "baseline", "the same once more: the effect of chance")


def list_experiments(
    config: Config, cuda: bool, cores: int, threads: tuple[int, int] = (0, 0)
) -> list[Experiment]:
    """All experiments that differ from `config`; `threads` are its own, PyTorch's and the games'."""
    found: list[Experiment] = []
    for one in (
        *_ratio_experiments(config),
        *_board_experiments(config),
        *_feature_experiments(config),
        *_batch_experiments(config),
        *([] if cuda else _thread_experiments(cores, threads)),
        *_logging_experiments(config),
        *_mode_experiments(config, cuda),
    ):
        if all(one.settings != other.settings for other in found):
            found.append(one)
    return found


#: What experiments were called until 0.1.0.
OLD_NAMES = {"mode-written": "mode-native"}


def select_experiments(known: list[Experiment], only: Iterable[str], skip: Iterable[str]) -> list[Experiment]:
    """The experiments in `only` (all if it is empty) without those in `skip`; by name or by group."""
    only, skip = ([OLD_NAMES.get(word, word) for word in words] for words in (only, skip))
    words = [*GROUPS, *(one.name for one in known)]
    for word in (*only, *skip):
        if word != "phases" and word not in words:
            raise ConfigError(
                f"There is no experiment '{word}' for this training{suggest_nearest(word, words)}"
            )
    wanted = [one for one in known if not only or {one.name, one.group} & set(only)]
    return [one for one in wanted if not {one.name, one.group} & set(skip)]


def combine_experiments(several: list[Experiment]) -> Experiment:
    """All of these at once; none of them changes what is learned."""
    settings = {key: value for one in several for key, value in one.settings.items()}
    quiet = any(one.quiet for one in several)
    return Experiment("recommended", "recommended", settings, "same", "all of these at once", quiet)


def asked_ratio(config: Config) -> float:
    """Updates per transition that a configuration asks for."""
    if config.learn.method == "pqn":
        return config.pqn.epochs * config.pqn.minibatches / (config.pqn.rollout * config.envs)
    return config.train_ratio


def relative_ratio(config: Config, baseline: Config) -> float:
    """Its updates per transition against the baseline's; 1 where neither has any."""
    ours, theirs = asked_ratio(config), asked_ratio(baseline)
    return 1.0 if ours == theirs else ours / theirs if theirs else float("inf")


def format_flag(setting: str, value: Any) -> str:
    """One setting as a flag on the command line."""
    name = setting.replace("_", "-")
    if isinstance(value, bool):
        group, dot, last = name.rpartition(".")
        return f"--{name}" if value else f"--{group}{dot}no-{last}"
    return f"--{name} {value:.10g}" if isinstance(value, float) else f"--{name} {value}"


def describe_updates(relative: float) -> str:
    """What `relative` times the updates per transition mean."""
    if relative == 0:
        return "learns nothing"
    words = {0.125: "an eighth of the", 0.25: "a quarter of the", 0.5: "half as many", 2.0: "twice as many"}
    return f"learns from {words.get(relative, f'{relative:.3g} times as many')} updates"


def _make_ratio_experiment(name: str, config: Config, ratio: float) -> Experiment:
    relative = ratio / config.train_ratio
    role: Role = "bound" if ratio == 0 else "trade" if relative < 1 else "more"
    return Experiment(name, "ratio", {"train_ratio": ratio}, role, describe_updates(relative))


def _ratio_experiments(config: Config) -> Iterator[Experiment]:
    """Less and more training; PQN's ratio follows from its rollouts."""
    if config.learn.method == "pqn" or config.train_ratio == 0:
        return
    yield _make_ratio_experiment("no-training", config, 0.0)
    yield _make_ratio_experiment("ratio-half", config, config.train_ratio / 2)
    yield _make_ratio_experiment("ratio-double", config, config.train_ratio * 2)
    if config.train_ratio != 1 / config.envs:
        yield _make_ratio_experiment("iteration", config, 1 / config.envs)


def _board_experiments(config: Config) -> Iterator[Experiment]:
    """More and fewer environments, as many as the task allows."""
    limit = find_task(config.env.task).most_envs
    most = max(BOARDS) if limit is None else limit(config.env, config.envs)
    for count in (count for count in BOARDS if count != config.envs and count <= most):
        role: Role = "same"
        learning = "same updates per transition"
        if config.learn.method == "pqn":  # a rollout earns the same updates, however many transitions it has
            role = "trade" if count > config.envs else "more"
            learning = f"{describe_updates(config.envs / count)}, of other batches"
        yield Experiment(f"boards-{count}", "boards", {"envs": count}, role, learning)


def _feature_experiments(config: Config) -> Iterator[Experiment]:
    """Cheaper variants of the task itself."""
    for trial in find_task(config.env.task).trials(config.env):
        settings = {f"env.{name}": value for name, value in trial.settings.items()}
        yield Experiment(trial.name, "features", settings, "trade", trial.learning)


def _batch_experiments(config: Config) -> Iterator[Experiment]:
    size = config.learn.batch_size
    if config.learn.method == "pqn" or config.train_ratio == 0:
        return
    if size > 1:
        learning = "as many updates, each from half as many samples"
        yield Experiment("batch-half", "batch", {"learn.batch_size": size // 2}, "trade", learning)
    learning = "as many updates, each from twice as many samples"
    yield Experiment("batch-double", "batch", {"learn.batch_size": size * 2}, "more", learning)


def _thread_experiments(cores: int, used: tuple[int, int]) -> Iterator[Experiment]:
    """One thread for everything, or all cores for everything."""
    for count in sorted({1, cores}):
        if used != (count, count):
            yield Experiment(f"threads-{count}", "threads", {"runtime.threads": count}, "same", ROUNDING)


def _logging_experiments(config: Config) -> Iterator[Experiment]:
    if config.log.tensorboard:
        settings = {"log.tensorboard": False}
        yield Experiment("no-tensorboard", "logging", settings, "same", f"{SAME}; no TensorBoard")
    learning = f"{SAME}; no metrics.csv, TensorBoard or display"
    yield Experiment("no-logging", "logging", {"log.every": NEVER}, "same", learning, quiet=True)


def _mode_experiments(config: Config, cuda: bool) -> Iterator[Experiment]:
    """The other ways to run the work; compiling comes last, because it may take half a minute."""
    for mode in ("eager", "native", *(["graph"] if cuda else []), "compile"):
        if mode != config.runtime.mode:
            yield Experiment(f"mode-{mode}", "modes", {"runtime.mode": mode}, "same", ROUNDING)
