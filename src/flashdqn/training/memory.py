"""What a training will allocate, computed before it is allocated, and compared with the machine.

The network is counted where it is built (`networks/build.py`), the data of a task where they are made. Here is the
rest: the replay, the environments, those of evaluation, and the batches with what a gradient step keeps of them.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from flashdqn.compute.device import format_bytes, free_bytes
from flashdqn.config import Config, ReplayConfig
from flashdqn.core.contract import (
    ObsSpec,
    VecEnv,
    close_env,
    count_actions,
    get_decoder,
    is_timed,
    stores_masks,
)
from flashdqn.core.errors import ConfigError
from flashdqn.envs.task import EnvConfig
from flashdqn.envs.tasks import build_evaluation_env, find_task
from flashdqn.replay.prioritized import priority_bytes
from flashdqn.replay.ring import ring_bytes, rows_for_capacity

#: A replay of at least this many bytes is announced.
WORTH_SAYING = 10**9
#: The share of the free memory that may be planned for.
USABLE = 0.9
#: Bytes of an environment besides its observations and its state: returns, lengths, flags.
BESIDE = 64
#: The loss and its gradient take about this many times what the forward pass keeps.
BACKWARD = 2


@dataclass(frozen=True)
class Need:
    """Something large that a training allocates."""

    what: str  # "A ring of 500,000 transitions"
    size: int  # bytes
    advice: str  # "lower --replay.capacity"


def find_room(device: torch.device, needed: int = 0) -> int:
    """Bytes that may be planned for; garbage of an earlier training is collected if it stands in the way."""
    free = int(free_bytes(device) * USABLE)
    if needed > free:
        gc.collect()
        torch.cuda.empty_cache()
        free = int(free_bytes(device) * USABLE)
    return free


def check_needs(needs: Sequence[Need], device: torch.device) -> None:
    """Refuse what does not fit into memory together; the largest need is named."""
    total = sum(need.size for need in needs)
    free = find_room(device, total)
    if total <= free:
        return
    largest = max(needs, key=lambda need: need.size)
    rest = f", and all together {format_bytes(total)}" if len(needs) > 1 else ""
    raise ConfigError(
        f"{largest.what} would take {format_bytes(largest.size)}{rest}, but {format_bytes(free)} are free on "
        f"{device}: {largest.advice}."
    )


def check_training_fits(config: Config, probe: VecEnv, kept: int = 0) -> None:
    """Refuse a training that does not fit into memory. `probe` is its environment with one board, and `kept` are
    the bytes that a gradient step keeps of each sample, if they are known."""
    check_needs(list_needs(config, probe, kept), probe.device)


def list_needs(config: Config, probe: VecEnv, kept: int = 0) -> list[Need]:
    """All that a training allocates besides its network."""
    each, boards, games = bytes_per_env(config.env, probe), config.envs, config.eval.episodes
    batch, spec = config.update_size, probe.obs_spec
    read = 4 * math.prod(spec.shape if (decoder := get_decoder(probe)) is None else decoder.shape)
    sample = (
        2 * (spec.nbytes + read)
        + 40 * config.replay.n_step
        + count_head_bytes(config, probe.device)
        + BACKWARD * kept
    )
    ring = replay_bytes(ring_config(config), probe, stores_masks(probe), boards)
    smaller = "--learn.batch-size" if config.learn.method == "replay" else "--pqn.rollout or --envs"
    if count_head_bytes(config, probe.device) > BACKWARD * kept:
        smaller += f", or the numbers of --learn.head {config.learn.head}"
    return [
        Need(f"A replay for {config.replay.capacity:,} transitions", ring, "lower --replay.capacity"),
        Need(
            f"{config.demos.kept:,} demonstrations", config.demos.kept * 2 * spec.nbytes, "lower --demos.keep"
        ),
        Need(f"{boards:,} environments", boards * (each + read + kept // 2), "lower --envs"),
        Need(
            f"The evaluation of {games:,} games at once",
            games * (each + read + kept // 2),
            "lower --eval.episodes",
        ),
        Need(f"A gradient step on {batch:,} transitions", batch * sample, f"lower {smaller}"),
    ]


def bytes_per_env(config: EnvConfig, env: VecEnv) -> int:
    """Bytes that each environment takes, by one that is there."""
    state: list[Tensor] = []
    with suppress(Exception):  # a user's own environment, which may not have a state before its first step
        state = list(env.state_dict().values())
    held = sum(tensor.nbytes for tensor in state) // max(1, len(env.outcomes))
    seen = 2 * env.obs_spec.nbytes + env.num_actions * (1 + 4)
    return held + seen + BESIDE + find_task(config.task).bytes_per_env(config)


def count_head_bytes(config: Config, device: torch.device) -> int:
    """Bytes of a sample's loss: quantile heads compare every quantile with every other, and so does the projection
    of atoms on CUDA."""
    learn = config.learn
    pairs = {
        "categorical": learn.atoms**2 if device.type == "cuda" else 0,
        "quantile": learn.quantiles**2,
        "iqn": learn.iqn_learn * learn.iqn_target,
    }
    return 4 * 6 * pairs.get(learn.head, 0)


def measure_kept_bytes(network: nn.Module, obs_spec: ObsSpec) -> int:
    """Bytes that a forward pass keeps of one sample for the backward pass, without the weights."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    # The graph itself gets nothing: if it held its own tensors, it would never be freed.
    def note(tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage

    obs = torch.zeros((1, *obs_spec.shape), dtype=obs_spec.dtype)
    with (
        torch.random.fork_rng(devices=[]),
        torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor),
    ):
        network(obs)
    return sum(storage.nbytes() for storage in kept.values())


def check_games_fit(each: int, count: int, device: torch.device) -> None:
    """Refuse to play more games at once than fit into memory; each takes `each` bytes."""
    check_needs([Need(f"Playing {count:,} games at once", count * each, "ask for fewer --episodes")], device)


def check_envs_fit(config: EnvConfig, count: int, device: torch.device) -> None:
    """Refuse to make more environments than fit into memory, by one of them."""
    probe = build_evaluation_env(config, 1, device)
    each = bytes_per_env(config, probe)
    close_env(probe)
    check_needs([Need(f"{count:,} environments", count * each, "ask for fewer")], device)


def ring_config(config: Config) -> ReplayConfig:
    """What the ring holds: the replay, or one rollout."""
    if config.learn.method == "replay":
        return config.replay
    return replace(config.replay, capacity=config.pqn.rollout * config.envs)


def replay_bytes(config: ReplayConfig, env: VecEnv, masked: bool, boards: int | None = None) -> int:
    """Bytes that ring and priorities will take."""
    boards = boards or env.num_envs
    sizes = env.obs_spec, env.num_actions, masked, count_actions(env), is_timed(env)
    needed = ring_bytes(config.capacity, boards, *sizes)
    if config.priority > 0:
        rows = rows_for_capacity(config.capacity, boards, env.obs_spec.stack)
        needed += priority_bytes(rows * boards, env.device)
    return needed


def describe_replay_memory(config: Config, env: VecEnv) -> str | None:
    """A sentence about the memory of the replay; None if it is small."""
    replay = ring_config(config)
    needed = replay_bytes(replay, env, stores_masks(env))
    if needed < WORTH_SAYING:
        return None
    frames = f", each frame once for stacks of {env.obs_spec.stack}" if env.obs_spec.stack > 1 else ""
    return (
        f"The replay of {replay.capacity:,} transitions takes {needed / 1e9:.2f} GB on {env.device}{frames}"
    )


def check_memory_fits(config: Config, env: VecEnv) -> None:
    """Refuse a replay, or a rollout, that does not fit into memory."""
    masked = stores_masks(env)
    if config.learn.method == "replay":
        check_ring_fits(config.replay, env, masked)
    else:
        check_ring_fits(ring_config(config), env, masked, "--pqn.rollout", config.envs)


def check_ring_fits(
    config: ReplayConfig, env: VecEnv, masked: bool, setting: str = "--replay.capacity", unit: int = 1
) -> None:
    """Say how much memory the ring needs before it is allocated, and refuse what does not fit; one `setting` counts
    for `unit` transitions."""
    capacity, needed = config.capacity, replay_bytes(config, env, masked)
    free = find_room(env.device, needed)
    if needed > free:
        fits = capacity * free // needed // unit
        advice = f"use {setting} {fits} or less"
        if not fits:
            each = format_bytes(env.obs_spec.nbytes)
            advice = f"an observation takes {each}, so that not even {setting} 1 fits"
        raise ConfigError(
            f"A ring of {capacity:,} transitions takes {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are "
            f"free on {env.device}: {advice}."
        )
