"""Settings of evaluation, reports and execution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from flashdqn.config.values import require


@dataclass(frozen=True)
class EvalConfig:
    """Evaluation during training: games with ε = 0 and separate seeds."""

    every: int = 500_000
    """Number of transitions between evaluations; 0: only at the end."""
    episodes: int = 100
    """Number of games in each evaluation."""

    def __post_init__(self) -> None:
        require(self.every >= 0, f"eval.every must not be negative, and is {self.every}.")
        require(self.episodes > 0, f"eval.episodes must be above 0, and is {self.episodes}.")


@dataclass(frozen=True)
class LogConfig:
    """Reports and checkpoints."""

    every: int = 0
    """Number of transitions between reports; 0: 25,000, or 100 vector steps if that is more."""
    checkpoint_every: int = 1_000_000
    """Number of transitions between checkpoints that can be resumed; 0: only at the end."""
    checkpoint_minutes: float = 5.0
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
        require(self.every >= 0, f"log.every must not be negative, and is {self.every}.")
        require(
            self.checkpoint_every >= 0,
            f"log.checkpoint_every must not be negative, and is {self.checkpoint_every}.",
        )
        require(
            0 <= self.checkpoint_minutes < math.inf,
            f"log.checkpoint_minutes must be 0 or a number of minutes, and is {self.checkpoint_minutes}.",
        )


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
    threads: int = 0
    """CPU threads for PyTorch and for the games; 0: one where the work is too small to share, else the number
    that is fastest in a trial. Hand-written updates try this while they train; results do not depend on it."""
    warmup: bool = True
    """Compile, allocate and touch everything before the clock starts."""

    def __post_init__(self) -> None:
        if self.mode == "written":  # the name of `native` until 0.1.0
            object.__setattr__(self, "mode", "native")
        require(self.threads >= 0, f"runtime.threads must not be negative, and is {self.threads}.")
