"""Every variant finds the known values of tiny MDPs, through the real loop: collector, ring, sampler, learner.

One-step targets may learn from any data, so there the answer is Q*. n-step targets without correction learn
the value of n − 1 steps *of the behavior* and the best from there on. Only where no behavior comes
between are they exact: in episodes of one step (`Crossing`, and `MaskedBandit` cut after every pull). For the
longer walks of `Chain` the behavior is made wholly random, and the answer is the fixed point of the n-step
operator under it, which differs from Q*; that, too, is known exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor
from toy_envs import Chain, Crossing, MaskedBandit

from flashdqn.config import Config, ExploreConfig, LearnConfig, LogConfig, NetworkConfig, ReplayConfig
from flashdqn.core.contract import VecEnv
from flashdqn.runs.folder import RunFolder
from flashdqn.training.assemble import assemble_parts
from flashdqn.training.loop import Loop
from flashdqn.training.progress import Silent

GAMMA = 0.7
ENVS = 16

variants = pytest.mark.parametrize(
    ("bootstrap", "huber", "target_every"),
    [(b, h, t) for b in ("greedy", "double") for h in (1.0, 0.0) for t in (10, 0)],
    ids=[f"{b}-{h}-{t}" for b in ("greedy", "double") for h in ("huber", "square") for t in ("hard", "soft")],
)
n_steps = pytest.mark.parametrize("n", [1, 3])
Kind = Literal["greedy", "double"]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tensors of this size only get slower with more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def learned_q(
    env: VecEnv,
    states: int,
    folder: Path,
    *,
    bootstrap: Kind,
    huber: float,
    target_every: int,
    n: int,
    eps: float,
    updates: int = 250,
) -> Tensor:
    """Q of the one-hot states, [S, A], after a training."""
    config = Config(
        envs=env.num_envs,
        train_ratio=0.25,
        seed=1,
        network=NetworkConfig(torso="mlp", hidden=(32,)),
        replay=ReplayConfig(capacity=5000, n_step=n),
        learn=LearnConfig(
            bootstrap=bootstrap,
            gamma=GAMMA,
            batch_size=128,
            starts=500,
            lr=0.01,
            lr_end=0.0005,
            lr_over=500 + updates * 4,
            huber=huber,
            target_every=target_every,
            target_tau=0.1,
        ),
        explore=ExploreConfig(start=eps, end=eps),
        log=LogConfig(tensorboard=False),
    )
    parts = assemble_parts(config, env)
    loop = Loop(config, parts, RunFolder(folder), Silent(), games=env)
    loop.start()
    while parts.learner.updates < updates:
        loop.iterate()
    with torch.no_grad():
        return parts.learner.head.q(parts.learner.online(torch.eye(states)))


@variants
def test_chain_one_step(tmp_path: Path, bootstrap: Kind, huber: float, target_every: int) -> None:
    """Cut by a clock that no observation shows: only bootstrapping over truncations gives Q*."""
    env = Chain(ENVS, num_states=4, time_limit=7)
    q = learned_q(env, 4, tmp_path, bootstrap=bootstrap, huber=huber, target_every=target_every, n=1, eps=0.6)
    torch.testing.assert_close(q[:-1], env.q_star(GAMMA)[:-1], rtol=0, atol=0.02)
    assert q[:-1].argmax(1).tolist() == [1, 1, 1]


@variants
def test_chain_three_steps(tmp_path: Path, bootstrap: Kind, huber: float, target_every: int) -> None:
    env = Chain(ENVS, num_states=4, time_limit=None)
    q = learned_q(env, 4, tmp_path, bootstrap=bootstrap, huber=huber, target_every=target_every, n=3, eps=1.0)
    expected = uncorrected_chain(4, n=3)
    torch.testing.assert_close(q[:-1], expected[:-1], rtol=0, atol=0.06)
    # The bound tells the two answers apart.
    assert float((expected - env.q_star(GAMMA))[:-1].abs().max()) > 0.1


def uncorrected_chain(states: int, n: int) -> Tensor:
    """The fixed point of Q(s, a) = r + γ E[… n − 1 steps of random walk …] + γ^n max Q, [S, A]."""
    state = torch.arange(states)[:, None]
    reached = (state + torch.tensor([-1, 1])).clamp(0, states - 1)  # [S, A]
    arrived = (reached == states - 1).float()
    q = torch.zeros(states, 2)
    for _ in range(100):
        value = q.amax(1)
        for _ in range(n):
            q = arrived + GAMMA * (1 - arrived) * value[reached]
            value = q.mean(1)
    return q


@variants
@n_steps
@pytest.mark.parametrize("ending", ["terminated", "truncated"])
def test_crossing(
    tmp_path: Path,
    ending: Literal["terminated", "truncated"],
    n: int,
    bootstrap: Kind,
    huber: float,
    target_every: int,
) -> None:
    """Twins that differ in one flag: 1 against 1 / (1 − γ) = 3.33."""
    env = Crossing(ending, ENVS)
    q = learned_q(env, 1, tmp_path, bootstrap=bootstrap, huber=huber, target_every=target_every, n=n, eps=0.5)
    torch.testing.assert_close(q, env.q_star(GAMMA), rtol=0, atol=0.02)


@variants
@n_steps
def test_masked_bandit(tmp_path: Path, n: int, bootstrap: Kind, huber: float, target_every: int) -> None:
    """Values near −4, while the illegal actions stay near 0: whoever looks at those is far off."""
    env = MaskedBandit(ENVS, time_limit=10 if n == 1 else 1)
    q = learned_q(env, 3, tmp_path, bootstrap=bootstrap, huber=huber, target_every=target_every, n=n, eps=0.5)
    torch.testing.assert_close(q[env.legal], env.q_star(GAMMA)[env.legal], rtol=0, atol=0.03)
