"""Inside a worker: environments that are played with the latest weights, each by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from flashdqn.core.contract import VecEnv, make_branches
from flashdqn.core.ops import choose_epsilon_greedy
from flashdqn.core.types import Step
from flashdqn.envs import build_env
from flashdqn.learn.learner import build_learner
from flashdqn.replay.pieces import Array, EnvStream, Piece, PieceWriter
from flashdqn.replay.ring import Kind
from flashdqn.training.workers.board import SharedBoard
from flashdqn.training.workers.spec import PIECE_SECONDS, WorkerSpec

CPU = torch.device("cpu")
T = TypeVar("T")


class WorkerPolicy:
    """The network of a worker, on the CPU; its environments take turns."""

    def __init__(self, spec: WorkerSpec, env: VecEnv, stream: EnvStream, players: int, handle: int) -> None:
        learner = build_learner(spec.config, env, CPU)
        self.policy, self.head, self.noise = learner.policy, learner.head, learner.noise
        self.branches = make_branches(env)
        self._weights = [tensor.detach() for tensor in learner.online.state_dict().values()]
        self._staging = [torch.empty_like(tensor) for tensor in self._weights]
        self.board = SharedBoard(self._weights, players, handle)
        for number, generator in enumerate(learner.generators.values()):
            generator.manual_seed(spec.make_seed(stream, 2 + number))
        self._generator = torch.Generator().manual_seed(spec.make_seed(stream, 1))
        draws = 2 if self.branches is None else 1 + self.branches.count
        self._luck = torch.zeros((draws, 1))
        self._version = -1
        self._turn = threading.Lock()

    @torch.no_grad()
    def act(self, obs: Tensor, mask: Tensor | None, player: int) -> tuple[Tensor, int]:
        """An action, [1], and the gradient steps of the weights that chose it."""
        with self._turn:
            self._refresh()
            self._luck.uniform_(generator=self._generator)
            eps = torch.full((1,), float(self.board.eps[player]))
            q = self.head.q(self.policy(obs))
            return choose_epsilon_greedy(q, mask, eps, self._luck, self.branches), self._version

    def _refresh(self) -> None:
        """Take over the learner's latest weights, if there are new ones."""
        version = self.board.copy_into(self._staging, self._version)
        if version is None:
            return
        torch._foreach_copy_(self._weights, self._staging)
        self._version = version
        if self.noise is not None:  # own noise: the environments would explore alike with the learner's
            self.noise.resample()


class EnvPlayer:
    """Plays one environment and hands out pieces."""

    def __init__(
        self,
        spec: WorkerSpec,
        stream: EnvStream,
        find_policy: Callable[[VecEnv, EnvStream], WorkerPolicy],
        beat: Callable[[int, float], None],
        send: Callable[[Piece], None],
    ) -> None:
        """`find_policy` makes the worker's policy or returns it; `beat` notes when something was done last;
        `send` waits until the learner wants a piece, which is not counted as hanging."""
        self.spec, self.stream = spec, stream
        self.find_policy, self.beat, self.send = find_policy, beat, send

    def play(self) -> None:
        """Play for ever; whatever an environment raises is raised."""
        env = self._call(lambda: build_env(self.spec.one, 1, CPU))
        policy = self.find_policy(env, self.stream)
        obs = self._call(lambda: env.reset(self.spec.make_seed(self.stream, 0))).clone()
        notes, begun = Notes(env, self.stream), monotonic()
        notes.add_start(obs)
        while True:
            action, version = policy.act(obs, env.mask, self.stream.player)
            step = self._step(env, action)
            obs = step.obs.clone()
            if notes.add_step(action, step, version):
                obs = self._step(env, action).obs.clone()  # the action is ignored: a new episode begins
                notes.add_start(obs)
            if len(notes.writer) >= self.spec.cells or monotonic() - begun > PIECE_SECONDS:
                self.send(notes.writer.take())
                begun = monotonic()

    def _step(self, env: VecEnv, action: Tensor) -> Step:
        return self._call(lambda: env.step(action))

    def _call(self, function: Callable[[], T]) -> T:
        self.beat(self.stream.player, monotonic())
        answer = function()
        self.beat(self.stream.player, monotonic())
        return answer


class Notes:
    """Writes down what one environment does."""

    def __init__(self, env: VecEnv, stream: EnvStream) -> None:
        spec = env.obs_spec
        self.env, self.outcomes, self.version = env, len(env.outcome_names), 0
        self.frame = spec.frame.shape[0] if spec.stack > 1 else 0
        self.writer = PieceWriter(stream, spec.stack)

    def add_start(self, obs: Tensor) -> None:
        """An episode has begun."""
        self.writer.add_reset(self._newest(obs), self._legal(), self.version, self.outcomes)

    def add_step(self, action: Tensor, step: Step, version: int) -> bool:
        """A step was taken; returns whether it was an episode's last."""
        self.version = version
        kind = Kind.TERMINATED if step.terminated[0] else Kind.TRUNCATED if step.truncated[0] else Kind.STEP
        ended = kind != Kind.STEP
        summed = self.env.outcomes[0].numpy() if ended else np.zeros(self.outcomes, np.float32)
        happened = kind, int(action[0]), float(step.reward[0])
        self.writer.add_step(*happened, self._newest(step.obs), self._legal(), version, summed)
        return ended

    def _newest(self, obs: Tensor) -> Array:
        whole: Array = obs[0].numpy()
        return whole[-self.frame :] if self.frame else whole

    def _legal(self) -> Array | None:
        return None if self.env.mask is None else self.env.mask[0].numpy()
