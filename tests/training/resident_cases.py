"""Parts of a training for the resident update, and the kernel compiled for this machine's CPU."""

from __future__ import annotations

import copy
import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from flashdqn.compute.nvrtc import write_constant
from flashdqn.config import Config, LearnConfig, NetworkConfig, ReplayConfig
from flashdqn.core.contract import ObsSpec
from flashdqn.core.types import Batch
from flashdqn.learn.heads import ScalarHead
from flashdqn.learn.learner import Learner
from flashdqn.networks.build import build_network
from flashdqn.replay.ring import Kind, Ring
from flashdqn.replay.samplers import TRIES, UniformSampler

COMPILER = shutil.which("g++")
HOST = """
extern "C" void run_on_host(const Arguments* given, int seed) {
  static Arguments arguments;
  arguments = *given;
  host::run(BLOCKS, THREADS, SHARED_FLOATS, seed, [] { update_resident(arguments); });
}
"""


class HostKernel:
    """Stands in for `CompiledCuda`: the same source by a C++ compiler, each CUDA thread a fiber."""

    seed, tf32, strict = 0, False, True

    def __init__(self, source: str, function: str, constants: dict[str, Any], **_: Any) -> None:
        assert COMPILER is not None
        folder = Path(tempfile.gettempdir()) / f"flashdqn-resident-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        header = (Path(__file__).parent / "cuda_on_host.h").read_text(encoding="utf-8")
        flags = [f"-D{name}={write_constant(value)}" for name, value in constants.items()]
        flags += [f"-DTF32={int(self.tf32)}", f"-DSTRICT={int(self.strict)}"]
        text = f"{header}\n{source}\n{HOST}"
        name = hashlib.sha256(f"{text}{flags}".encode()).hexdigest()[:24]
        library = folder / f"{name}.so"
        if not library.exists():
            (folder / f"{name}.cpp").write_text(text, encoding="utf-8")
            options = [
                "-std=c++17",
                "-O1",
                "-fPIC",
                "-shared",
                "-fno-strict-aliasing",
                "-U_FORTIFY_SOURCE",
                "-w",
            ]
            command = [COMPILER, *options, *flags, f"{folder}/{name}.cpp", "-o", f"{library}.{os.getpid()}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[:3000]
            Path(f"{library}.{os.getpid()}").rename(library)
        self._run = ctypes.CDLL(str(library)).run_on_host

    def __call__(self, blocks: int, threads: int, arguments: Any) -> None:
        self._run(ctypes.byref(arguments[0]), self.seed)


@dataclass(frozen=True)
class Case:
    """A network, a ring and a way of learning."""

    hidden: tuple[int, ...] = (24, 40)
    inputs: int = 11
    actions: int = 3
    batch: int = 16
    n_step: int = 1
    bytes: bool = False
    masked: bool = False
    envs: int = 5
    learn: dict[str, Any] = field(default_factory=dict)

    def make_parts(self, device: str = "cpu") -> Any:
        defaults = {"lr": 0.01, "grad_clip": 0.5, "huber": 1.0, "target_every": 0, "target_tau": 0.1}
        learn = LearnConfig(**(defaults | {"bootstrap": "double", "batch_size": self.batch} | self.learn))
        spec = ObsSpec((self.inputs,), torch.uint8 if self.bytes else torch.float32)
        network = NetworkConfig(torso="mlp", hidden=self.hidden)
        made = build_network(network, spec, self.actions, torch.Generator().manual_seed(1))
        learner = Learner(learn, made, ScalarHead(learn.huber), torch.device(device))
        with torch.no_grad():  # the target differs from the online network
            learner.target_flat.values.mul_(0.9)
        config = Config(learn=learn, network=network, replay=ReplayConfig(n_step=self.n_step), envs=self.envs)
        return SimpleNamespace(
            config=config, learner=learner, ring=self.make_ring(spec, device), demonstrations=None, exchange=None,
            collector=SimpleNamespace(branches=None),
        )  # fmt: skip

    def make_ring(self, spec: ObsSpec, device: str) -> Ring:
        """Thirty rows, of which the last few overwrote the first; episodes of about four steps."""
        g = torch.Generator().manual_seed(2)
        ring = Ring(30 * self.envs, self.envs, spec, self.actions, torch.device("cpu"), self.masked)
        if self.bytes:
            ring.obs.random_(0, 256, generator=g)
        else:
            ring.obs.normal_(generator=g)
        ring.action.random_(0, self.actions, generator=g)
        ring.reward.normal_(generator=g)
        chance = torch.rand(ring.kind.shape, generator=g)
        ring.kind.fill_(int(Kind.STEP))
        ring.kind[chance < 0.3] = int(Kind.TERMINATED)
        ring.kind[chance < 0.15] = int(Kind.TRUNCATED)
        reset = torch.zeros_like(chance, dtype=torch.bool)
        reset[1:] = (ring.kind[:-1] == int(Kind.TERMINATED)) | (ring.kind[:-1] == int(Kind.TRUNCATED))
        ring.kind[reset & (torch.rand(chance.shape, generator=g) < 0.9)] = int(Kind.RESET)
        if ring.mask is not None:
            ring.mask.copy_(torch.rand(ring.mask.shape, generator=g) < 0.5)
        ring.head.fill_(3)
        ring.filled.fill_(ring.rows - 1)
        for name in ("obs", "action", "reward", "kind", "mask", "head", "filled"):
            column = getattr(ring, name)
            setattr(ring, name, None if column is None else column.to(device))
        ring.device = torch.device(device)
        return ring


def draw_bits(case: Case, most: int, device: str = "cpu") -> Tensor:
    g = torch.Generator().manual_seed(3)
    bits = torch.empty((TRIES, most * case.batch), dtype=torch.int64)
    return bits.random_(generator=g).to(device)


def pick_batches(parts: Any, case: Case, bits: Tensor) -> Batch:
    """What `UniformSampler` picks for these random numbers."""
    gamma = parts.config.learn.gamma
    return UniformSampler(parts.ring, case.n_step, gamma, torch.Generator()).pick(bits)


def list_state(parts: Any) -> dict[str, Tensor]:
    learner = parts.learner
    return {
        "online": learner.flat.values, "target": learner.target_flat.values, "first": learner.adam.first,
        "second": learner.adam.second, "steps": learner.adam.steps, "sums": learner.sums,
    }  # fmt: skip


def distance(found: Tensor, expected: Tensor) -> float:
    assert torch.isfinite(found).all()
    return float((found.double() - expected.double()).norm() / expected.double().norm().clamp_min(1e-12))


def copy_state(parts: Any) -> dict[str, Tensor]:
    return copy.deepcopy({name: tensor.detach() for name, tensor in list_state(parts).items()})
