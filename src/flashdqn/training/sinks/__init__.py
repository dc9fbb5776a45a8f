"""Where figures go besides the run folder: TensorBoard, Weights & Biases, MLflow.

A sink may fail or be slow: the network is down, or the disk is full. That is noted once, and training continues. A
sink that talks to a server works in its own thread, so nothing waits for it.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from flashdqn.config import Config, LogConfig
from flashdqn.config.settings import flatten_keys, to_dict
from flashdqn.core.errors import ConfigError
from flashdqn.runs.records import read_record_or_nothing, write_record
from flashdqn.training.sinks.background import Background, Guarded

#: The file in the run folder with each sink's own run, which a resumed training continues.
RUNS = "loggers.json"
#: A run's name as a sink gives it: nothing that could be a path or an address.
RUN_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_REMEMBERING = threading.Lock()  # sinks open in threads


class Sink(Protocol):
    """Receives figures."""

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Figures at a step: `train/loss`, `eval/mean_score`."""

    def flush(self) -> None:
        """Write everything received so far: a checkpoint follows."""

    def close(self, summary: Mapping[str, Any] | None) -> None:
        """Close the sink, with the run's summary, or None if it failed."""


@dataclass(frozen=True)
class About:
    """What a sink needs to know about the run when it opens."""

    path: Path  # the run folder
    config: dict[str, Any]  # every setting by its dotted name
    log: LogConfig
    step: int  # later figures belong to a training that was cut off
    known: str | None  # the name of the sink's own run, if this is a resumed training

    def remember(self, sink: str, run: str) -> None:
        """Keep the name of the sink's run for a later resume."""
        with _REMEMBERING:
            write_record(self.path / RUNS, read_runs(self.path) | {sink: run})


def open_sinks(config: Config, path: Path, step: int, note: Callable[[str], None]) -> list[Sink]:
    """All sinks that the configuration asks for."""
    log, settings, known = config.log, flatten_settings(to_dict(config)), read_runs(path)

    def about(name: str) -> About:
        return About(path, settings, log, step, known.get(name))

    sinks: list[Sink] = []
    if log.tensorboard:
        from flashdqn.training.sinks.tensorboard import TensorBoard

        sinks.append(Guarded("TensorBoard", lambda: TensorBoard(about("tensorboard")), note))
    if log.wandb:
        from flashdqn.training.sinks.weights_and_biases import WeightsAndBiases

        sinks.append(Background("Weights & Biases", lambda: WeightsAndBiases(about("wandb")), note))
    if log.mlflow:
        from flashdqn.training.sinks.ml_flow import MLflow

        sinks.append(Background("MLflow", lambda: MLflow(about("mlflow")), note))
    return sinks


def check_installed(log: LogConfig) -> None:
    """Raise an error that names a missing package, before anything is computed."""
    for wanted, module in ((log.wandb, "wandb"), (log.mlflow, "mlflow")):
        if wanted and not installed(module):
            raise ConfigError(
                f"--log.{module} needs the package {module}, which is not installed: "
                f"pip install 'flashdqn[{module}]'"
            )


def installed(module: str) -> bool:
    """Whether a package can be imported; it is not imported yet."""
    return module in sys.modules or importlib.util.find_spec(module) is not None


def read_runs(path: Path) -> dict[str, str]:
    """The sinks' own runs, by sink."""
    names = read_record_or_nothing(path / RUNS)
    return {sink: run for sink, run in names.items() if isinstance(run, str) and RUN_NAME.fullmatch(run)}


def flatten_settings(data: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings by their dotted names, as plain data: no empty groups, and lists for tuples."""
    named = {name: value for name, value in flatten_keys(data).items() if not isinstance(value, Mapping)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in named.items()}
