"""Policies to compare with: the heuristic against the twin, and choosing the data center by value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from sfc_twin import Request, TwinNetwork
from snake_twin import PlainRandom, plain_key
from test_sfc import SMALL

import flashdqn
from flashdqn.envs.sfc import ServiceChains, SfcConfig, layout
from flashdqn.envs.sfc.baselines import ByValue, Chance, Heuristic
from flashdqn.learn.heads import ScalarHead
from flashdqn.training.evaluate import evaluate


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> SfcConfig:
    path = tmp_path_factory.mktemp("tables") / "small.toml"
    path.write_text(SMALL)
    return SfcConfig(
        tables=str(path), min_dcs=3, max_dcs=3, cpu_low=20, cpu_high=40, min_bundles=3, max_bundles=3
    )


def twin_rule(twin: TwinNetwork, makes_room: bool) -> int:
    """The rule again, by searching through all requests."""
    d, names = twin.centre, list(twin.vnfs)

    def urgency(request: Request) -> tuple[int, int]:
        return twin.priority(request, d), -request.number

    waiting = {v: [r for r in twin.waiting() if r.next_vnf == v and twin.can_serve(r, d)] for v in names}
    best = {v: max(map(urgency, requests)) for v, requests in waiting.items() if requests}
    idle = [v for v in names if twin.centers[d].idle[v]]
    spare = min(idle, key=lambda v: best.get(v, (-(10**9),))[0]) if idle else None
    roomy = [v for v in best if twin.has_room(d, v)]
    first = max(best, key=lambda v: best[v]) if best else None
    served = max(roomy, key=lambda v: best[v]) if roomy else None
    if (
        makes_room
        and spare
        and first
        and first != served
        and best.get(spare, (-(10**9),))[0] < best[first][0]
    ):
        return len(names) + names.index(spare)
    if served:
        return names.index(served)
    needed = {r.next_vnf for r in twin.waiting()}
    if spare and spare not in needed:
        return len(names) + names.index(spare)
    return 2 * len(names)


@pytest.mark.parametrize("makes_room", [False, True])
def test_the_heuristic_is_the_rule(config: SfcConfig, makes_room: bool) -> None:
    env = ServiceChains(config, 1)
    rule, twin = Heuristic(env, makes_room), TwinNetwork(config, PlainRandom(plain_key(4, 0)))
    obs = env.reset(4)
    twin.step(0, env.net.hop[0].tolist())
    for _ in range(600):
        action = int(rule(obs).argmax(1))
        if not twin.over:
            assert action == twin_rule(twin, makes_room)
        obs = env.step(torch.tensor([action])).obs
        twin.step(action, env.net.hop[0].tolist())


def test_making_room_serves_more_than_the_plain_rule(config: SfcConfig) -> None:
    env = ServiceChains(config, 16)
    scores = {
        name: evaluate(env, policy, ScalarHead(0.0), 5).mean_score
        for name, policy in (
            ("plain", Heuristic(env)),
            ("room", Heuristic(env, True)),
            ("chance", Chance(env)),
        )
    }
    assert scores["room"] > scores["plain"]
    assert scores["room"] > scores["chance"]
    assert min(scores.values()) > 0


def test_the_best_data_centre_acts(config: SfcConfig) -> None:
    """With a value that likes free CPU, the data center with the most of it that can serve is chosen."""
    env = ServiceChains(config, 4)

    def q(obs: torch.Tensor) -> torch.Tensor:
        cpu = obs[:, 13:14]
        return torch.cat((cpu.expand(-1, 6), cpu.expand(-1, 7) - 1), 1)

    policy = ByValue(env, q)
    obs = env.reset(1)
    for _ in range(300):
        before = env.net.mask.clone()
        values = policy(obs)
        open_ = env.net.state[:, layout.OVER] == 0
        can_serve = policy.masks.view(4, 3, 13)[..., :6].any(2)
        cpu = policy.views.view(4, 3, -1)[..., 13].masked_fill(~can_serve, -1)
        for i in range(4):
            if open_[i] and can_serve[i].any():
                assert cpu[i, env.net.state[i, layout.DC]] == cpu[i].max()
        assert torch.equal(env.net.mask[~open_], before[~open_])
        legal = values.masked_fill(~env.net.mask, -torch.inf)
        step = env.step(legal.argmax(1))
        assert (step.reward > -1000).all()
        obs = step.obs


def test_choosing_by_value_plays_whole_episodes(config: SfcConfig) -> None:
    env = ServiceChains(config, 8)
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(env.obs_spec.shape[0], env.num_actions, generator=generator)
    games = evaluate(env, ByValue(env, lambda obs: obs @ weights), ScalarHead(0.0), 3, step_limit=20_000)
    assert games.unfinished == 0


def test_a_short_training_works_from_end_to_end(config: SfcConfig, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "env.tables": config.tables,
        "env.max_dcs": 3,
        "env.max_bundles": 1,
        "network.branches": ["14:16", "4x13:8/8", "4x10:8/8"],
        "network.attention": 8,
        "network.hidden": [16],
        "steps": 1500,
        "envs": 8,
        "replay.capacity": 1000,
        "learn.starts": 200,
        "learn.batch_size": 16,
        "train_ratio": 0.05,
        "eval.every": 0,
        "eval.episodes": 4,
        "log.every": 500,
        "log.checkpoint_every": 0,
        "log.tensorboard": False,
        "runtime.threads": 1,
        "runtime.warmup": False,
        "device": "cpu",
        "out": str(tmp_path),
    }
    run = flashdqn.train("sfc-paper", progress=False, **settings)
    games = run.summary["evaluation"]
    assert 0 <= games["mean_score"] <= 1
    assert {"accepted_CG", "no_room", "delay_ms", "cpu"} <= games["outcomes"].keys()
    agent = flashdqn.load(run.path, "cpu")
    assert 0 <= agent.evaluate(4).mean_score <= 1
