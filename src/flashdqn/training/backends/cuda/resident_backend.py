"""Whole iterations on the device: rates, actions, games, recording, what is due, and the updates, without the host.

Every iteration draws random numbers for as many updates as can be due at once, and uses those of the due ones. So
the numbers that an update gets do not depend on how many iterations are launched together; but they are others than
those of a backend that draws only for the updates that it does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import cast

import torch
from torch import Tensor

from flashdqn.compute.nvrtc import explain_missing_nvrtc
from flashdqn.config import Config
from flashdqn.core.contract import get_action_buffer
from flashdqn.core.types import Batch, Step
from flashdqn.replay.samplers import TRIES
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.compiler import Compiler
from flashdqn.training.backends.cuda.acting import ActingKernel, SetRates
from flashdqn.training.backends.cuda.backend import (
    LARGE_BATCH,
    Act,
    choose_acting,
    prefers_resident,
    suits_acting_kernel,
)
from flashdqn.training.backends.cuda.recording import OBS_TYPES, RecordingKernel, make_decision
from flashdqn.training.backends.cuda.resident import ResidentUpdates
from flashdqn.training.iterations import SEVERAL
from flashdqn.training.ratio import TrainRatio, build_ratio

#: Updates that one iteration can do.
MOST_UPDATES = 256


class ResidentBackend:
    """Uniform replay and what `ResidentUpdates` supports; acting in one kernel if the network is a plain MLP."""

    compiles_recording = False

    def __init__(self, parts: Parts, compiler: Compiler) -> None:
        config, device = parts.config, parts.learner.device
        ratio = build_ratio(config)
        assert isinstance(ratio, TrainRatio)  # `fits` refuses rollouts
        self.parts, self.most = parts, count_most_updates(config)
        self._resident = ResidentUpdates(parts, self.most)
        self._acting: ActingKernel | None = None
        if suits_acting_kernel(parts):
            self._acting = ActingKernel(parts, get_action_buffer(parts.collector.env))
            self._act: Act = self._acting
        else:
            self._set_rates = SetRates(parts)
            self._act = choose_acting(parts, compiler)
        self._record = RecordingKernel(parts)
        self._due = torch.zeros(1, dtype=torch.int32, device=device)
        self._decision = make_decision(ratio, self.most, self._due)
        self._numbers = torch.arange(self.most + 1, dtype=torch.int32, device=device)
        self._drawn = Draws(parts, self.most)

    @classmethod
    def fits(cls, parts: Parts) -> str | None:
        """None if the kernels support these parts; else why not."""
        collector = parts.collector
        if parts.sampler.uniform is not parts.sampler:
            return "iterations on the device draw uniformly, and this replay does not"
        if parts.ring.elapsed is not None:
            return "iterations on the device discount every step alike, and these steps take different times"
        if collector.branches is not None:
            return "iterations on the device do not support actions in branches"
        if collector.normalizer is not None:
            return "iterations on the device do not keep the means of observations"
        if collector.obs.dtype not in OBS_TYPES:
            return f"iterations on the device do not support observations in {collector.obs.dtype}"
        if (most := count_most_updates(parts.config)) > MOST_UPDATES:
            return f"a step of all environments earns {most} updates, and one iteration can do {MOST_UPDATES}"
        if (reason := ResidentUpdates.fits(parts) or explain_missing_nvrtc()) is not None:
            return reason
        if not prefers_resident(parts):
            return f"from a batch of {LARGE_BATCH} on, an update in several kernels is faster"
        return None

    def act(self, obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor) -> Tensor:
        """The network's choice, or a random one."""
        return self._act(obs, mask, eps, luck)

    def record(self, action: Tensor, step: Step, outcomes: Tensor) -> None:
        """Store the step, in one kernel."""
        self._record(action, step, outcomes)

    def sample(self, count: int) -> list[Batch]:
        """Random numbers, once for each update: the kernel of the updates looks them up in the ring itself."""
        return cast(list[Batch], [self._drawn.draw_bits(0)] * count)

    def update(self, batches: list[Batch]) -> None:
        """All updates in one kernel."""
        count = len(batches)
        self._resident.updates(cast(list[Tensor], batches)[0], self._numbers[count : count + 1])

    @torch.no_grad()
    def iterate(self, count: int) -> None:
        """`count` iterations. The random numbers come from a side stream, so nothing waits for them."""
        collector, env = self.parts.collector, self.parts.collector.env
        for luck, bits in self._drawn.draw_all(count):
            if self._acting is not None:
                action = self._acting(collector.obs, collector.mask, collector.eps, luck, decide=True)
            else:
                self._set_rates()
                action = self._act(collector.obs, collector.mask, collector.eps, luck)
            step = env.step(action)
            self._record(action, step, env.outcomes, self._decision)
            self._resident.updates(bits, self._due)


class Draws:
    """Random numbers for iterations: two for each action, and those that select the batches."""

    def __init__(self, parts: Parts, most: int) -> None:
        self.generators = parts.collector.generator, parts.generators["replay"]
        self.device, shape = parts.learner.device, (TRIES, most * parts.config.update_size)
        # Each iteration of a graph has its own, made before: what is made while a graph is captured belongs to it.
        self._buffers = [
            (
                torch.zeros_like(parts.collector.luck),
                torch.zeros(shape, dtype=torch.int64, device=self.device),
            )
            for _ in range(SEVERAL)
        ]
        self._side = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None  # type: ignore[no-untyped-call,unused-ignore]

    def draw_bits(self, place: int) -> Tensor:
        """Numbers for the samples of one iteration, [TRIES, most · batch], in the buffers of a place."""
        return self._buffers[place][1].random_(generator=self.generators[1])

    def draw_all(self, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Numbers for `count` iterations, one after the other: [2, N] for actions, and those for samples."""
        if self._side is None:
            for _ in range(count):
                yield self._draw(0)
            return
        here = torch.cuda.current_stream(self.device)
        self._side.wait_stream(here)
        ready = []
        with torch.cuda.stream(self._side):
            for place in range(count):
                drawn = self._draw(place)
                ready.append((drawn, self._side.record_event()))
        for drawn, event in ready:
            here.wait_event(event)
            yield drawn

    def _draw(self, place: int) -> tuple[Tensor, Tensor]:
        luck, _ = self._buffers[place]
        return luck.uniform_(generator=self.generators[0]), self.draw_bits(place)


def count_most_updates(config: Config) -> int:
    """The most updates that a step of all environments can earn."""
    return max(1, math.ceil(Fraction(repr(float(config.train_ratio))) * config.envs))
