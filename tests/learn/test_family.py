"""Every algorithm of `--algo` finds the known values of tiny MDPs, through the real loop.

The answers. One-step bootstraps: Q*. Munchausen: the fixed point of its own operator, whose best actions are
those of Q*. Rainbow's three steps learn the value of two steps of behavior: where that matters (`Chain`) the
behavior is random and the answer is the fixed point under it, as in test_tiny_mdps.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from small_training import ENVS, GAMMA, mean_q, trained
from torch import Tensor
from toy_envs import Chain, Crossing, MaskedBandit

from flashdqn.learn.algorithms import ALGORITHMS

BOUND = 0.05  # on |Q − answer|, for values of 1 to 5
every_algorithm = pytest.mark.parametrize("algo", ALGORITHMS)


def answer(env: Any, algo: str) -> Tensor:
    """What the algorithm converges to, [S, A]."""
    return munchausen_q(env) if algo == "munchausen" else env.q_star(GAMMA)


def munchausen_q(env: Any, alpha: float = 0.9, tau: float = 0.03, clip: float = -1.0) -> Tensor:
    """The fixed point of Munchausen's operator, by sweeps over the states; the first action's reward apart."""
    star, gamma = env.q_star(GAMMA), GAMMA
    states, actions = star.shape
    legal = torch.isfinite(star)
    reward, following = torch.zeros(states, actions), torch.zeros(states, actions, states)
    for s in range(states):
        for a in range(actions):
            if isinstance(env, Chain):
                reached = min(max(s + 2 * a - 1, 0), states - 1)
                reward[s, a] = float(reached == states - 1)
                following[s, a, reached] = float(reached != states - 1)
            elif isinstance(env, Crossing):
                reward[s, a], following[s, a, s] = 1.0, float(env.ending == "truncated")
            else:
                reward[s, a], following[s, a] = -env.cost[s, a], 1 / states
    q = torch.zeros(states, actions, dtype=torch.float64)
    for _ in range(300):
        log = torch.log_softmax((q / tau).masked_fill(~legal, -torch.inf), 1).masked_fill(~legal, 0.0)
        policy = log.exp() * legal
        value = (policy * (q - tau * log)).sum(1)
        q = reward + alpha * (tau * log).clamp(clip, 0) + gamma * (following.double() @ value)
    return q.float()


@every_algorithm
def test_chain(tmp_path: Path, algo: str) -> None:
    """Cut by a clock that no observation shows."""
    steps = ALGORITHMS[algo].settings["replay.n_step"]
    env = Chain(ENVS, num_states=4, time_limit=7 if steps == 1 else None)
    parts = trained(env, tmp_path, algo, eps=0.6 if steps == 1 else 1.0)
    expected = answer(env, algo) if steps == 1 else uncorrected_chain(4, steps)
    q = mean_q(parts, 4)[:-1]
    torch.testing.assert_close(q, expected[:-1], rtol=0, atol=BOUND if steps == 1 else 2 * BOUND)
    if steps == 1:
        assert q.argmax(1).tolist() == env.q_star(GAMMA)[:-1].argmax(1).tolist()


def uncorrected_chain(states: int, n: int) -> Tensor:
    """The fixed point of n − 1 steps of random walk and the best from there on, [S, A]."""
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


@every_algorithm
@pytest.mark.parametrize("ending", ["terminated", "truncated"])
def test_crossing(tmp_path: Path, ending: Literal["terminated", "truncated"], algo: str) -> None:
    """Twins that differ in one flag: 1 against 1 / (1 − γ) = 3.33."""
    env = Crossing(ending, ENVS)
    q = mean_q(trained(env, tmp_path, algo, eps=0.5), 1)
    # Both actions are worth the same, and the larger of two noisy values is too large: that is the bootstrap's.
    torch.testing.assert_close(q, answer(env, algo), rtol=0, atol=2 * BOUND if algo == "noisy" else BOUND)


@every_algorithm
def test_masked_bandit(tmp_path: Path, algo: str) -> None:
    """Values near −4, while the illegal actions stay near 0."""
    steps = ALGORITHMS[algo].settings["replay.n_step"]
    env = MaskedBandit(ENVS, time_limit=10 if steps == 1 else 1)
    q = mean_q(trained(env, tmp_path, algo, eps=0.5), 3)
    torch.testing.assert_close(q[env.legal], answer(env, algo)[env.legal], rtol=0, atol=BOUND)
