"""Settings of evaluation, reports and execution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from flashdqn.core.ranges import MANY, Between, check_values


@dataclass(frozen=True)
class EvalConfig:
    """Evaluation during training: games with ε = 0 and separate seeds."""

    every: Annotated[int, Between(0, MANY)] = 500_000
    """Number of transitions between evaluations; 0: only at the end."""
    episodes: Annotated[int, Between(1, 10**6)] = 100
    """Number of games in each evaluation."""
    max_share: Annotated[float, Between(0, 1, above=True)] = 0.1
    """The share of the training time that evaluations may take. One that would take more is skipped, and counted in
    the summary. Two seconds in all are always allowed. The last one is never skipped; with --max-time it may play
    fewer games. 1: no limit."""

    def __post_init__(self) -> None:
        check_values(self, "eval.")


@dataclass(frozen=True)
class LogConfig:
    """Reports and checkpoints."""

    every: Annotated[int, Between(0, MANY)] = 0
    """Number of transitions between reports; 0: 25,000, or 100 vector steps if that is more."""
    checkpoint_every: Annotated[int, Between(0, MANY)] = 1_000_000
    """Number of transitions between checkpoints that can be resumed; 0: only at the end."""
    checkpoint_minutes: Annotated[float, Between(0, 525_600)] = 5.0
    """Minutes after which the last checkpoint that can be resumed is too old, and another is saved; 0: by steps
    alone. It takes at most a twentieth of the time: after a slow save the next one waits longer."""
    tensorboard: bool = True
    """Write TensorBoard events."""
    game: bool = True
    """Record a game of the best checkpoint for report.html when the training is over."""
    wandb: bool = False
    """Also log to Weights & Biases (pip install wandb)."""
    wandb_project: str = "flashdqn"
    """The project in Weights & Biases."""
    wandb_mode: Literal["auto", "online", "offline"] = "auto"
    """online: send the log at once. offline: keep it in the run folder for `wandb sync`. auto: use WANDB_MODE, else
    online."""
    mlflow: bool = False
    """Also log to MLflow (pip install 'flashdqn[mlflow]')."""
    mlflow_uri: Annotated[str, tyro.conf.arg(metavar="URI|FOLDER")] = ""
    """MLflow's tracking server, database or folder; empty: MLFLOW_TRACKING_URI, else MLflow's own default."""
    mlflow_experiment: str = "flashdqn"
    """The experiment in MLflow."""

    def __post_init__(self) -> None:
        check_values(self, "log.")


@dataclass(frozen=True)
class RuntimeConfig:
    """How the work is executed. None of it changes what is learned, except by rounding."""

    mode: Annotated[
        Literal["auto", "eager", "compile", "native", "graph", "written"],
        tyro.conf.arg(metavar="{auto,eager,compile,native,graph}"),
    ] = "auto"
    """How collection and updates run. eager: operation by operation; compile: by torch.compile; native: a plain
    MLP's update written by hand; graph: CUDA graphs, of hand-written or compiled updates where they work. auto
    runs a short trial before the clock starts, picks the fastest, and says why. A mode that cannot work falls back
    to the next."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Number format that the networks compute with. Losses, targets and weights are always float32."""
    threads: Annotated[int, Between(0, 1024)] = 0
    """CPU threads for PyTorch and for the games; 0: one where the work is too small to share, else the number
    that is fastest in a trial. Hand-written updates try this while they train; results do not depend on it."""
    warmup: bool = True
    """Compile, allocate and touch everything before the clock starts."""

    def __post_init__(self) -> None:
        check_values(self, "runtime.")
        if self.mode == "written":  # the name of `native` until 0.1.0
            object.__setattr__(self, "mode", "native")
