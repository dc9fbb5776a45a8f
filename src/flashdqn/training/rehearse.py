"""Let helper processes compile a training's functions by PyTorch, several at the same time, before they are needed;
or, where layers are hand-written, the kernels of these layers by Triton.

PyTorch's compiler is Python code: one process compiles one function after the other. A helper makes the same
functions from the same settings, and compiles one of them. The compiled code is in PyTorch's cache then, where this
process finds it. Only the functions of the network are worth a process. Nothing depends on the helpers: what they
have not compiled, this process compiles itself.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from flashdqn.compute.cache_folder import find_cache_folder
from flashdqn.compute.compile_ahead import FUSED_LAYERS, CallJob
from flashdqn.compute.core_count import cores
from flashdqn.config import Config
from flashdqn.config.settings import apply_settings, list_named_code, to_dict
from flashdqn.core.files import read_json_object, write_signed_json
from flashdqn.envs.tasks import find_task
from flashdqn.training.compile_budget import may_be_fused, may_use_torch_compiler

#: The functions of `backends/compiled.py` that contain a network, the slowest first.
FUNCTIONS = ("gradients", "goals", "act")
#: The file in the cache folder with the trainings whose functions are compiled, and how many it remembers.
DONE_FILE, MOST_DONE = "torch-compiled.json", 200
#: Every helper has processes of its own that compile: with fewer cores they would only wait for each other.
LEAST_CORES = 8
#: A helper takes memory of the GPU: at least this share must be free.
FREE_SHARE = 0.5


def plan_rehearsals(config: Config) -> list[CallJob]:
    """The work of helpers for a training on a GPU. Nothing if its code is compiled already, as far as is known; nor
    if it imports a user's code, or plays outside games: these are not started twice."""
    own = bool(find_task(config.env.task).kernels(config.env))
    names = list(FUNCTIONS) if may_use_torch_compiler(config) else [FUSED_LAYERS] * may_be_fused(config)
    if cores() < LEAST_CORES or not own or list_named_code(config) or not names or is_done(config):
        return []
    settings = to_dict(config)
    return [
        CallJob(__name__, "rehearse", {"settings": settings, "name": name}, (name,), wait=True)
        for name in names
    ]


def make_key(config: Config) -> str:
    """What the compiled code depends on, and more."""
    groups = to_dict(config)
    kept = {
        name: groups[name]
        for name in ("env", "envs", "network", "learn", "replay", "demos", "pqn", "runtime")
    }
    found = [importlib.metadata.version("torch"), kept]
    return hashlib.sha256(json.dumps(found, sort_keys=True, default=str).encode()).hexdigest()[:32]


def is_done(config: Config) -> bool:
    """Whether a training like this one has compiled its functions."""
    folder = find_cache_folder()
    return folder is not None and make_key(config) in read_json_object(folder / DONE_FILE)


def note_done(config: Config) -> None:
    """Remember that the functions of such a training are compiled; a cache that cannot be written does without."""
    if (folder := find_cache_folder()) is None or is_done(config):
        return
    known = {**read_json_object(folder / DONE_FILE), make_key(config): True}
    with suppress(OSError):
        write_signed_json(folder / DONE_FILE, dict(list(known.items())[-MOST_DONE:]), mode=0o600)


def rehearse(settings: Mapping[str, Any], name: str, device: str = "cuda") -> None:
    """The helper: make the parts of a training, without games, and call one of its functions once."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(max(2, cores() // len(FUNCTIONS))))
    import torch

    from flashdqn.compute.device import choose_device
    from flashdqn.compute.graphs import load_torch_compiler
    from flashdqn.compute.kernels import skip_kernels
    from flashdqn.compute.precision import allow_tf32
    from flashdqn.compute.threads import limit_threads
    from flashdqn.envs import build_env
    from flashdqn.training.assemble import assemble_parts
    from flashdqn.training.backends.compiled import CompiledBackend
    from flashdqn.training.backends.compiler import Compiler
    from flashdqn.training.backends.eager import EagerBackend

    config = apply_settings(Config(), settings)
    if name == FUSED_LAYERS:  # they do not depend on what is played
        config = replace(config, env=find_task(config.env.task).smallest(config.env))
    else:
        load_torch_compiler()
    place = choose_device(device)
    if place.type == "cuda":
        free, total = torch.cuda.mem_get_info(place)
        if free < FREE_SHARE * total:
            return
    rows = config.replay.n_step + 8
    config = replace(config, replay=replace(config.replay, capacity=rows * config.envs))
    with limit_threads(1, 1), allow_tf32(place):
        with skip_kernels():
            env = build_env(config.env, config.envs, place)
        parts = assemble_parts(config, env)
        parts.collector.start(0)
        for _ in range(parts.sampler.least_rows):
            parts.collector.collect()
        if name == FUSED_LAYERS:
            plain = EagerBackend(parts, Compiler())
            plain.update(plain.sample(1))
        else:
            CompiledBackend(parts, Compiler()).call_once(name)
