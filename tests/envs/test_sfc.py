"""Service chains against their naive twin, step by step; what must hold in any network; the contract."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sfc_twin import TwinNetwork
from snake_twin import PlainRandom, plain_key

from flashdqn.compute.kernels import cuda_available
from flashdqn.core.errors import CheckpointError, ConfigError, EnvError
from flashdqn.envs.check import check_env
from flashdqn.envs.sfc import ServiceChains, SfcConfig, layout
from flashdqn.envs.sfc.view import render_network

slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)

SMALL = """
[[chain]]
name = "CG"
vnfs = ["NAT", "FW", "VOC", "WO", "IDPS"]
mbps = 4
delay_ms = 20
bundle = [2, 5]
[[chain]]
name = "AR"
vnfs = ["NAT", "FW", "TM", "VOC", "IDPS"]
mbps = 100
delay_ms = 10
bundle = [1, 4]
[[chain]]
name = "VoIP"
vnfs = ["NAT", "FW", "TM", "FW", "NAT"]
mbps = 0.064
delay_ms = 30
bundle = [5, 9]
[[chain]]
name = "MIoT"
vnfs = ["NAT", "FW", "IDPS"]
mbps = [1, 50]
delay_ms = 5
bundle = [0, 5]
"""

SITES = """
[[dc]]
name = "A"
x_km = -10
y_km = 0
cpu = [30, 60]
ram = 64
storage = 100
[[dc]]
name = "B"
x_km = 90
y_km = 40
cpu = 25
ram = 40
storage = 60
[[dc]]
name = "C"
x_km = 10
y_km = 120
cpu = [12, 20]
ram = 256
storage = 2048
[[link]]
between = ["A", "B"]
mbps = 100
[[link]]
between = ["B", "C"]
mbps = 400
"""


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("tables") / "small.toml"
    path.write_text(SMALL)
    return str(path)


@pytest.fixture(scope="session")
def given_sites(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("tables") / "sites.toml"
    path.write_text(SMALL + SITES)
    return str(path)


# the twin


def hops(env: ServiceChains, i: int) -> list[list[int]]:
    return env.net.hop[i].tolist()


def player(kind: str, seed: int) -> Any:
    """Chooses from a mask: any action at all, any legal one, or one that allocates where that is legal."""
    dice = random.Random(seed)

    def act(mask: list[bool]) -> int:
        legal = [a for a, good in enumerate(mask) if good]
        if kind == "wild":
            return dice.randrange(-2, len(mask) + 2)
        serving = [a for a in legal if a < (len(mask) - 1) // 2]
        if kind == "busy" and serving and dice.random() < 0.95:
            return dice.choice(serving)
        return dice.choice(legal)

    return act


def compare(config: SfcConfig, seed: int, kind: str, steps: int) -> list[dict[str, float]]:
    """Play a network and its twin side by side; returns the outcomes of the episodes that ended."""
    env = ServiceChains(config, 1)
    twin = TwinNetwork(config, PlainRandom(plain_key(seed, 0)))
    obs = env.reset(seed)
    np.testing.assert_array_equal(obs[0].numpy(), twin.step(0, hops(env, 0)).obs)
    act = player(kind, seed)
    ends = []
    for _ in range(steps):
        action = act(twin.mask)
        step = env.step(torch.tensor([action]))
        expected = twin.step(action, hops(env, 0))
        np.testing.assert_array_equal(step.obs[0].numpy(), expected.obs)
        assert env.net.mask[0].tolist() == expected.mask
        assert step.reward.item() == expected.reward
        assert env.timed == (step.elapsed is not None)
        assert step.elapsed is None or step.elapsed.item() == expected.elapsed
        assert (step.terminated.item(), step.truncated.item()) == (expected.terminated, expected.truncated)
        if expected.outcomes:
            assert env.outcomes[0].tolist() == list(expected.outcomes.values())
            ends.append(expected.outcomes)
    return ends


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    low = draw(st.integers(2, 5))
    slots = draw(st.sampled_from([1, 1, 2, 5]))
    return {
        "min_dcs": low,
        "max_dcs": draw(st.integers(low, 5)),
        "max_bundles": draw(st.integers(1, 3)),
        "topology": draw(st.sampled_from(["mesh", "ring", "random"])),
        "link_mbps": draw(st.sampled_from([0, 60, 250, 1000])),
        "span_km": draw(st.sampled_from([0, 200, 900])),
        "cpu_low": draw(st.sampled_from([0, 12, 30])),
        "cpu_high": draw(st.sampled_from([30, 60, 120])),
        "ram": draw(st.sampled_from([0, 30, 256])),
        "storage": draw(st.sampled_from([20, 2048])),
        "endpoints": draw(st.sampled_from(["pair", "source"])),
        "held": draw(st.sampled_from(["chain", "hop"])),
        "waiting": draw(st.sampled_from(["always", "always", "idle"])),
        "turns": draw(st.sampled_from(["stay", "one"])),
        "full_steps": draw(st.booleans()),
        "slots": slots,
        "actions_per_step": slots * draw(st.sampled_from([3, 10, 20])),
        "bundle_every": draw(st.integers(1, 6)),
        "max_steps": draw(st.sampled_from([0, 9, 250])),
        "time_reward": draw(st.sampled_from([0.0, -0.03])),
        "progress_reward": draw(st.sampled_from([0.0, 0.7])),
        "progress_power": draw(st.sampled_from([1.0, 2.0])),
        "state": draw(st.sampled_from(["paper", "full"])),
        "bound_reward": draw(st.sampled_from([0.0, 1.0])),
        "bound_urgency": draw(st.sampled_from([0.0, 0.6, 1.0])),
        "discount": draw(st.sampled_from(["action", "time"])),
    }


@given(configs(), st.integers(0, 2**63), st.sampled_from(["wild", "legal", "busy", "busy"]))
@settings(slow, max_examples=60)
def test_every_step_matches_the_twin(small: str, settings_: dict[str, Any], seed: int, kind: str) -> None:
    compare(SfcConfig(tables=small, **settings_), seed, kind, steps=150)


@given(st.integers(0, 2**63), st.sampled_from(["chain", "hop"]))
@settings(slow, max_examples=6)
def test_a_topology_of_ones_own_matches_the_twin(given_sites: str, seed: int, held: Any) -> None:
    compare(SfcConfig(tables=given_sites, max_bundles=2, held=held), seed, "busy", steps=200)


def test_the_papers_load_matches_the_twin() -> None:
    config = SfcConfig(min_dcs=4, max_dcs=4, max_bundles=2, min_bundles=2)
    compare(config, seed=3, kind="busy", steps=150)


def test_whole_episodes_match_the_twin_with_every_cause_of_a_drop(small: str) -> None:
    seen: dict[str, float] = {}
    for seed, mbps, low, high in ((1, 10, 60, 120), (2, 1000, 13, 20), (3, 150, 13, 60)):
        config = SfcConfig(tables=small, max_dcs=3, link_mbps=mbps, cpu_low=low, cpu_high=high, max_bundles=3)
        for end in compare(config, seed, "busy", steps=700):
            seen = {name: seen.get(name, 0.0) + value for name, value in end.items()}
    assert min(seen[name] for name in ("score", "no_room", "no_bandwidth", "no_time", "delay_ms")) > 0


# what must hold in any network


def busy_play(env: ServiceChains, steps: int, seed: int = 0, serve: float = 5.0) -> Any:
    """Random legal actions that like to serve; yields each answer."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.ones(env.num_actions)
    weights[: (env.num_actions - 1) // 2] = serve
    for _ in range(steps):
        chances = env.net.mask.cpu().float() * weights
        action = torch.multinomial(chances[: env.num_envs], 1, generator=generator)[:, 0]
        yield env.step(action.to(env.device))


def held_kbps(env: ServiceChains, i: int) -> torch.Tensor:
    """Bandwidth that the requests of a network should hold on each link, added up from their ways."""
    net, held = env.net, torch.zeros_like(env.net.link[i])
    in_queue = set(waiting_numbers(env, i))
    for r in range(int(net.state[i, layout.REQUESTS])):
        request = net.request[i, r].tolist()
        served = request[layout.POSITION]
        active = r in being_served(env, i)
        if not active and r not in in_queue:
            continue
        way = [request[layout.SOURCE], *net.places[i, r, : served + active].tolist()]
        first = net.chains[request[layout.CHAIN], layout.FIRST]
        legs = list(pairwise(way))
        if env.config.held == "hop":
            legs = legs[-1:] if active else []
        if active and net.stages[first + served, layout.STAGE_LAST]:
            legs.append((way[-1], request[layout.TARGET]))
        for a, b in legs:
            while a != b:
                onward = int(net.hop[i, a, b])
                held[a, onward] += request[layout.BANDWIDTH]
                held[onward, a] += request[layout.BANDWIDTH]
                a = onward
    return held


def follow(env: ServiceChains, i: int, r: int) -> list[int]:
    numbers = []
    while r != layout.NOBODY:
        numbers.append(r)
        r = int(env.net.request[i, r, layout.NEXT])
    return numbers


def waiting_numbers(env: ServiceChains, i: int) -> list[int]:
    heads = env.net.head[i, :, : int(env.net.state[i, layout.DCS])].flatten().tolist()
    return list(chain.from_iterable(follow(env, i, r) for r in heads))


def being_served(env: ServiceChains, i: int) -> list[int]:
    return list(chain.from_iterable(follow(env, i, r) for r in env.net.wheel[i].tolist()))


def check_network(env: ServiceChains, i: int) -> None:
    net, dcs = env.net, int(env.net.state[i, layout.DCS])
    taken = net.installed[i, :dcs].float() @ net.vnfs[:, :3].float()
    assert torch.equal(net.free[i, :dcs].float() + taken, net.capacity[i, :dcs].float())
    assert (net.free[i, :dcs] >= 0).all()  # C1, C2
    assert (net.link[i] >= 0).all()  # C4
    assert (net.idle[i] >= 0).all()
    assert (net.idle[i] <= net.installed[i]).all()
    waiting, served = waiting_numbers(env, i), being_served(env, i)
    assert len(set(waiting + served)) == len(waiting + served) == net.state[i, layout.LEFT]
    busy = (net.installed[i, :dcs] - net.idle[i, :dcs]).sum()
    assert busy == len(served)  # C3: an instance for each request that is being served
    asked, satisfied, dropped = net.tally[i, :, :3].sum(0).tolist()
    assert asked == net.state[i, layout.REQUESTS]
    ending = [
        r
        for r in served
        if net.stages[
            net.chains[net.request[i, r, layout.CHAIN], layout.FIRST] + net.request[i, r, layout.POSITION],
            layout.STAGE_LAST,
        ]
    ]
    assert asked == satisfied + dropped + len(waiting) + len(served) - len(ending)


@given(configs(), st.integers(0, 2**63))
@settings(slow, max_examples=25)
def test_nothing_is_over_capacity_and_nothing_gets_lost(
    small: str, settings_: dict[str, Any], seed: int
) -> None:
    env = ServiceChains(SfcConfig(tables=small, **settings_), 3)
    env.reset(seed)
    full = env.net.wire.clone()
    for k, step in enumerate(busy_play(env, 120)):
        for i in range(3):
            if k % 10 == 0:
                check_network(env, i)
            if step.terminated[i]:  # everything is released
                dcs = int(env.net.state[i, layout.DCS])
                assert torch.equal(env.net.idle[i], env.net.installed[i])
                assert torch.equal(env.net.link[i, :dcs, :dcs].triu(1), env.net.wire[i, :dcs, :dcs].triu(1))
                assert not env.net.busy[i, :dcs].any()
                assert not env.net.demand[i].any()
                assert not env.net.tally[i, :, layout.PENDING_KBPS].any()
    assert full.shape == env.net.wire.shape


@pytest.mark.parametrize("held", ["chain", "hop"])
def test_links_hold_what_the_requests_hold(small: str, held: Any) -> None:
    config = SfcConfig(tables=small, topology="ring", min_dcs=5, max_dcs=5, link_mbps=300, held=held)
    env = ServiceChains(config, 2)
    env.reset(11)
    off_diagonal = ~torch.eye(5, dtype=torch.bool)
    for k, _ in enumerate(busy_play(env, 150)):
        if k % 15 == 0:
            for i in range(2):
                expected = env.net.wire[i] - held_kbps(env, i)
                assert torch.equal(env.net.link[i][off_diagonal], expected[off_diagonal])


def test_acceptance_rises_with_room_and_bandwidth(small: str) -> None:
    def accepted(**changes: Any) -> float:
        env = ServiceChains(SfcConfig(tables=small, min_dcs=3, max_dcs=3, **changes), 16)
        env.reset(1)
        ends = [env.outcomes[s.terminated, 0].clone() for s in busy_play(env, 900, serve=20)]
        return float(torch.cat(ends).mean())

    least, more = accepted(cpu_low=14, cpu_high=14), accepted(cpu_low=100, cpu_high=100)
    assert least < more
    assert accepted(cpu_low=100, cpu_high=100, link_mbps=10) < more


# promises of a vectorized environment


@pytest.mark.parametrize("masks", [True, False])
def test_the_contract_is_kept(small: str, masks: bool) -> None:
    config = SfcConfig(tables=small, max_steps=12, actions_per_step=10, masks=masks)
    report = check_env(ServiceChains(config, 8), steps=400)
    assert report.terminated + report.truncated > 0


def test_the_paper_state_and_actions_have_their_sizes() -> None:
    env = ServiceChains(SfcConfig(), 2)
    assert env.obs_spec.shape == (14 + 78 + 60,)
    assert env.num_actions == 13
    assert env.mask is not None
    assert env.mask.shape == (2, 13)
    assert env.outcome_names[:3] == ("score", "accepted_CG", "accepted_AR")


def test_every_number_of_an_observation_lies_between_0_and_1(small: str) -> None:
    env = ServiceChains(SfcConfig(tables=small), 16)
    for step in busy_play(env, 300):
        assert step.obs.min() >= 0
        assert step.obs.max() <= 1


def everything(env: ServiceChains, steps: int, seed: int = 5) -> list[torch.Tensor]:
    out = []
    for step in busy_play(env, steps, seed):
        out += [x.cpu().clone() for x in (*step[:4], env.net.mask, env.outcomes)]
    return out


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_a_seed_fixes_the_episodes_and_a_saved_state_goes_on(small: str) -> None:
    config = SfcConfig(tables=small)
    env, other = ServiceChains(config, 8), ServiceChains(config, 8)
    env.reset(1)
    first = everything(env, 200)
    env.reset(1)
    assert same(first, everything(env, 200))
    saved = env.state_dict()
    expected = everything(env, 100)
    other.reset(77)
    other.load_state_dict(saved)
    assert same(expected, everything(other, 100))
    env.reset(2)
    assert not same(first, everything(env, 200))


def test_what_arrives_does_not_depend_on_what_is_done(small: str) -> None:
    config = SfcConfig(tables=small, min_bundles=3, max_bundles=3, max_steps=0)
    idle, busy = ServiceChains(config, 4), ServiceChains(config, 4)
    idle.reset(3)
    busy.reset(3)
    wait = torch.full((4,), idle.num_actions - 1)
    asked = []
    for env, steps in ((idle, (idle.step(wait) for _ in range(5000))), (busy, busy_play(busy, 5000))):
        found: dict[int, int] = {}
        for step in steps:
            for i in range(4):
                if step.terminated[i] and i not in found:
                    found[i] = int(env.net.tally[i, :, layout.ASKED].sum())
            if len(found) == 4:
                break
        asked.append(found)
    assert asked[0] == asked[1]


def test_a_network_can_be_read(given_sites: str) -> None:
    env = ServiceChains(SfcConfig(tables=given_sites), 2)
    env.reset(0)
    for _ in busy_play(env, 25):
        pass
    text = render_network(env, 1)
    assert "> " in text
    assert all(name in text for name in ("A  ", "B  ", "VoIP", "asked", "CPU"))
    assert sum(
        int(line.split(" asked")[0].split()[-1]) for line in text.split("\n") if "asked" in line
    ) == int(env.net.state[1, layout.REQUESTS])


def test_a_state_of_other_settings_is_refused(small: str) -> None:
    state = ServiceChains(SfcConfig(tables=small, max_dcs=3), 2).state_dict()
    with pytest.raises(CheckpointError, match="settings it was saved with"):
        ServiceChains(SfcConfig(tables=small, max_dcs=4), 2).load_state_dict(state)
    del state["rng"]
    with pytest.raises(CheckpointError, match="holds"):
        ServiceChains(SfcConfig(tables=small, max_dcs=3), 2).load_state_dict(state)


@pytest.mark.parametrize("action", [torch.zeros(3, dtype=torch.int64), torch.zeros(4)])
def test_wrong_actions_are_refused(small: str, action: torch.Tensor) -> None:
    with pytest.raises(EnvError, match=r"integers of shape \[4\] on cpu"):
        ServiceChains(SfcConfig(tables=small), 4).step(action)


def test_cuda_without_its_means_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashdqn.envs.kernel_env.cuda_available", lambda: False)
    with pytest.raises(EnvError, match="put the environment on the CPU"):
        ServiceChains(SfcConfig(), 4, "cuda")


# CUDA

needs_cuda = pytest.mark.skipif(not cuda_available(), reason="needs a CUDA device and numba-cuda")


@needs_cuda
@pytest.mark.parametrize("topology", ["mesh", "random"])
@pytest.mark.parametrize("held", ["chain", "hop"])
def test_cuda_plays_the_same_episodes_bit_by_bit(topology: Any, held: Any) -> None:
    config = SfcConfig(topology=topology, held=held, max_bundles=2, link_mbps=300)
    cpu, cuda = ServiceChains(config, 64), ServiceChains(config, 64, "cuda")
    cpu.reset(6)
    cuda.reset(6)
    assert same(everything(cpu, 1500), everything(cuda, 1500))


@needs_cuda
def test_cuda_graphs_play_the_same_episodes_and_states_move() -> None:
    config = replace(SfcConfig(), max_bundles=1)
    cpu, cuda = ServiceChains(config, 32), ServiceChains(config, 32, "cuda")
    action = torch.zeros(32, dtype=torch.int64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        cuda.step(action)
    cpu.reset(8)
    cuda.reset(8)
    for k in range(300):
        choice = torch.randint(0, 13, (32,), generator=torch.Generator().manual_seed(k))
        action.copy_(choice)
        graph.replay()
        step = cpu.step(choice)
        for ours, theirs in zip((*step[:4], cpu.outcomes), (*cuda._step[:4], cuda.outcomes), strict=True):
            assert torch.equal(ours, theirs.cpu())
    other = ServiceChains(config, 32)
    other.load_state_dict(cuda.state_dict())
    assert same(everything(other, 50), everything(cuda, 50))


# settings


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"min_dcs": 1}, "env.min_dcs must lie in 2 … 16"),
        ({"min_dcs": 6, "max_dcs": 4}, "min_dcs ≤ max_dcs"),
        ({"max_dcs": 17}, "env.max_dcs must lie in 2 … 16"),
        ({"min_bundles": 0}, "env.min_bundles must lie in 1 … 64"),
        ({"cpu_low": -1}, "env.cpu_low must be at least 0"),
        ({"storage": -5}, "env.storage must be at least 0"),
        ({"link_mbps": -1}, "link_mbps"),
        ({"topology": "star"}, "mesh, ring, random"),
        ({"endpoints": "none"}, "pair, source"),
        ({"held": "never"}, "chain, hop"),
        ({"waiting": "never"}, "always, idle"),
        ({"turns": "both"}, "one, stay"),
        ({"slots": 3}, "slots must divide"),
        ({"slots": 0}, "slots must be at least 1"),
        ({"bundle_every": 0}, "bundle_every"),
        ({"max_steps": -1}, "max_steps"),
        ({"progress_power": 0.0}, "progress_power"),
        ({"satisfied_reward": float("nan")}, "a finite number in -1000 … 1000"),
        ({"satisfied_reward": 0.0001}, "multiple of 0.001"),
        ({"max_bundles": 64, "min_bundles": 64, "tables": "{many}"}, "requests"),
        ({"span_km": 1_000_000, "topology": "ring"}, "under way"),
    ],
)
def test_bad_settings_are_refused(wrong: dict[str, Any], says: str, tmp_path: Any) -> None:
    if wrong.get("tables"):
        many = tmp_path / "many.toml"
        many.write_text(SMALL.replace("bundle = [5, 9]", "bundle = [5, 900]"))
        wrong = wrong | {"tables": str(many)}
    with pytest.raises(ConfigError, match=says):
        replace(SfcConfig(), **wrong)
