"""What a training would have to compile, and whether its budget is worth the wait; without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

from flashdqn.compute.compilation import CUDA_MARK, get_log
from flashdqn.config import Config
from flashdqn.envs.tasks import find_task

#: On the CPU, compiling is tried for trainings that are at least this long; the episode length is a guess.
LONG_UPDATES, LONG_SECONDS, EPISODE_LENGTH = 30_000, 180.0, 50

#: What the CPU's backends compile.
EAGER_KERNELS = ("record_step", "pick_batch")
#: What the hand-written one compiles in addition: for plain networks, and for all others by head.
NATIVE_KERNELS = ("run_policy", "run_updates_by_halves", "adam_step")
HEADS = ("scalar", "categorical", "quantile")

#: Compiled code is kept: compiling is worth it if it pays within this many trainings like this one.
REUSES = 4
#: Seconds of a gradient step by plain operations, as a guess.
USUAL_UPDATE = 0.8e-3


def guess_kernels(config: Config, device: str, jobs: Sequence[str] | None = None) -> tuple[str, ...]:
    """The kernels that a training will probably compile besides its environment's, before its parts exist; `jobs`
    are the names of the large ones, if they are known already."""
    if device == "cuda":
        return tuple(name + CUDA_MARK for name in find_task(config.env.task).kernels(config.env))
    mode = config.runtime.mode
    wait = sum(map(get_log().guess_seconds, list_native_kernels(config)))
    if device != "cpu" or (mode == "auto" and not is_worth_waiting(config, wait, USUAL_UPDATE)):
        return ()
    if mode not in ("auto", "native") or not may_be_native(config):
        return EAGER_KERNELS
    return (*EAGER_KERNELS, *(list_native_kernels(config) if jobs is None else jobs))


def may_be_native(config: Config) -> bool:
    """Whether the updates may be hand-written ones, as far as the settings say."""
    network, learn = config.network, config.learn
    return network.torso in ("auto", "mlp") and not network.normalize and learn.head in HEADS


def list_native_kernels(config: Config) -> tuple[str, ...]:
    """The kernels of hand-written acting and updating, as far as the settings say."""
    network, learn, demos = config.network, config.learn, config.demos
    plain = learn.head == "scalar" and not (network.dueling or network.noisy or network.layer_norm)
    usual = learn.bootstrap != "munchausen" and learn.method == "replay"
    updates_plain = plain and usual and not (demos.kept and demos.margin_weight)
    policy = "run_policy" if plain else f"run_{learn.head}_policy"
    updates = "run_updates_by_halves" if updates_plain else f"run_{learn.head}_updates"
    return policy, updates, "adam_step"


def may_use_torch_compiler(config: Config) -> bool:
    """Whether PyTorch's compiler will probably be needed on a GPU, as far as the settings say; only an estimate."""
    hand_written = may_be_native(config) and config.runtime.precision == "fp32" and not config.demos.kept
    compiles = config.runtime.mode == "compile" or not may_be_fused(config)
    return config.runtime.mode in ("auto", "graph", "compile") and not hand_written and compiles


def may_be_fused(config: Config) -> bool:
    """Whether the layers around convolutions are probably hand-written on a GPU (`networks/fused`)."""
    return config.network.torso in ("resnet", "cells") and config.network.layer_norm


def is_worth_waiting(config: Config, wait: float, update: float) -> bool:
    """Whether compiling can pay: the updates of this training, as they are now (`update` seconds each), would take
    long enough. The code is kept, so a training may wait for what pays when it is run `REUSES` times."""
    if config.max_time is not None:
        return config.max_time * REUSES >= wait
    return count_updates(config) * update * REUSES >= wait


def count_updates(config: Config) -> float:
    """About how many gradient steps a budget allows."""
    transitions = max(config.steps or 0, EPISODE_LENGTH * (config.episodes or 0))
    if config.learn.method == "pqn":
        return transitions * config.pqn.epochs / config.update_size
    return max(0, transitions - config.learn.starts) * config.train_ratio


def is_long_training(config: Config) -> bool:
    """Whether the budget of a training on the CPU is worth the half minute that compiling may take."""
    transitions = max(config.steps or 0, EPISODE_LENGTH * (config.episodes or 0))
    return transitions * config.train_ratio >= LONG_UPDATES or (config.max_time or 0) >= LONG_SECONDS
