"""Service function chains: where the CPU goes, for the rule, the searched rule and trained agents.

    python benchmarks/sfc_cpu.py --runs runs/sfc/learned-slots1-seed*/* [--slots 2] [--episodes 32]

All CPU of a network until the last deadline of an episode is one of four things: *useful*, it served a VNF of a
request that was satisfied; *wasted*, of one that was dropped; *travel*, an instance waited for data on its way; or
*unused*. With 5 bundles and 2, 4, 6 and 8 data centers, and for all the rule that a data center may wait only if it
can serve nobody. The searched rule needs `results/sfc-search.json`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import flashdqn
from flashdqn.compute.kernels import Kernel
from flashdqn.envs.sfc import ServiceChains, SfcConfig, layout
from flashdqn.envs.sfc.baselines import Heuristic
from measure import context, write_json
from sfc_search import RESULTS as SEARCHED
from sfc_search import choose_by_score
from sfc_tables import DCS, interval, table

RESULTS = Path(__file__).parent / "results" / "sfc-cpu.json"
KINDS = ("score", "useful", "wasted", "travel", "unused")


class Searched:
    """The rule whose weights were searched, called like a network."""

    def __init__(self, env: ServiceChains, weights: list[float]) -> None:
        n, self.actions = env.num_envs, env.num_actions
        self.chosen = torch.zeros(n, dtype=torch.int64)
        tables = torch.zeros(n, dtype=torch.int64), torch.tensor([weights], dtype=torch.float64)
        self.launch = Kernel(choose_by_score, 128).bind(n, self.chosen, *tables, *env.net)

    def __call__(self, obs: Tensor) -> Tensor:
        self.launch()
        return torch.nn.functional.one_hot(self.chosen, self.actions).float()


class Account:
    """What becomes of the CPU of each network, in its CPU times parts of a step."""

    def __init__(self, env: ServiceChains) -> None:
        self.env, n, chains = env, env.num_envs, len(env.tables.chains)
        cpu = {vnf.name: vnf.cpu for vnf in env.tables.vnfs}
        self.work = torch.tensor([float(sum(cpu[v] for v in chain.vnfs)) for chain in env.tables.chains])
        self.served, self.satisfied = torch.zeros(n, chains), torch.zeros(n, chains)
        self.travel = torch.zeros(n)
        self.capacity = env.net.capacity[:, :, layout.CPU].sum(1).float()

    def count(self, action: Tensor, going: Tensor) -> None:
        """Count the service that these actions begin."""
        net, rows = self.env.net, torch.arange(len(action))
        vnf = action.clamp(max=len(net.vnfs) - 1)
        serves = going & (action < len(net.vnfs))
        place, stage = (
            net.ahead[rows, vnf, column].long().clamp(min=0)
            for column in (layout.AHEAD_PLACE, layout.AHEAD_STAGE)
        )
        way = net.delay[rows, place, net.state[:, layout.DC].long()] + net.vnfs[vnf, layout.PROCESSING]
        held, cpu = -(-way // int(net.params[layout.SLOT_US])), net.vnfs[vnf, layout.CPU]
        self.served[rows, net.stages[stage, layout.STAGE_CHAIN].long()] += serves * cpu
        self.travel += serves * cpu * (held - 1)

    def shares(self, score: Tensor, slots: float) -> dict[str, Any]:
        """Means over the networks, as shares of all CPU."""
        everything = self.capacity * slots
        useful = (self.satisfied * self.work).sum(1)
        parts = {
            "useful": useful,
            "wasted": self.served.sum(1) - useful,
            "travel": self.travel,
            "unused": everything - self.served.sum(1) - self.travel,
        }
        found = {name: float((part / everything).mean()) for name, part in parts.items()}
        wasted = (self.served - self.satisfied * self.work) / everything[:, None]
        chains = [chain.name for chain in self.env.tables.chains]
        by_chain = dict(zip(chains, wasted.mean(0).tolist(), strict=True))
        return {"score": float(score.mean()), **found, "wasted_by_chain": by_chain}


@torch.no_grad()
def follow_cpu(env: ServiceChains, policy: Any, seed: int) -> dict[str, Any]:
    """One episode in every network; `policy` gives values of the actions."""
    obs = env.reset(1_000 + seed)
    account, score = Account(env), torch.zeros(env.num_envs)
    going = torch.ones(env.num_envs, dtype=torch.bool)
    while going.any():
        assert env.mask is not None
        action = policy(obs).masked_fill(~env.mask, -torch.inf).argmax(1)
        account.count(action, going)
        asked = env.net.tally[:, :, layout.ASKED].float()  # an end starts the next episode at once
        step = env.step(action)
        ended = going & (step.terminated | step.truncated)
        score[ended] = env.outcomes[ended, 0]
        accepted = env.outcomes[:, 1 : 1 + asked.shape[1]]
        account.satisfied[ended] = (accepted * asked).round()[ended]
        going &= ~ended
        obs = step.obs
    config, longest = env.config, max(chain.delay_ms for chain in env.tables.chains)
    last = (config.max_bundles - 1) * config.bundle_every * config.step_us + 1_000 * longest
    return account.shares(score, last / config.slot_us)


def judge(name: str, dcs: int, asked: argparse.Namespace) -> dict[str, Any]:
    """A rule or a run with this many data centers."""
    size: dict[str, Any] = {
        "min_dcs": dcs,
        "max_dcs": dcs,
        "min_bundles": 5,
        "max_bundles": 5,
        "slots": asked.slots,
    }
    base = SfcConfig(state="full", waiting="idle")
    agent = None if name in ("makes-room", "searched") else flashdqn.load(name, "cpu")
    if agent is not None:
        assert isinstance(agent.config.env, SfcConfig)
        if agent.config.env.state != "full":
            raise SystemExit(f"{name} does not have --env.state full, which says where each request waits.")
    env = ServiceChains(dataclasses.replace(base, **size), asked.episodes)
    if agent is not None:
        return follow_cpu(env, agent.q, 0)
    if name == "makes-room":
        return follow_cpu(env, Heuristic(env, makes_room=True), 0)
    weights = json.loads(SEARCHED.read_text(encoding="utf-8"))["slots"][str(asked.slots)]["weights"]
    return follow_cpu(env, Searched(env, weights), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", nargs="*", default=[], help="runs of one preset, one for each seed")
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--json", type=Path, default=RESULTS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows, lines = [], []
    for dcs in DCS:
        for who, names in (
            ("makes-room", ["makes-room"]),
            ("searched", ["searched"]),
            ("learned", asked.runs),
        ):
            if not names or (who == "searched" and not SEARCHED.exists()):
                continue
            found = [judge(name, dcs, asked) for name in names]
            rows += [{"who": who, "dcs": dcs, "slots": asked.slots, **one} for one in found]
            means = [interval([one[kind] for one in found]) for kind in KINDS]
            worst = found[0]["wasted_by_chain"]
            most = max(worst, key=worst.get)
            share = statistics.fmean(one["wasted_by_chain"][most] for one in found)
            lines.append([who, str(dcs), *means, f"{most}, {100 * share:.1f}"])
            print(*lines[-1], flush=True)
    write_json(asked.json, {**context("cpu"), "episodes": asked.episodes, "results": rows})
    print("\n".join(table(["", "DCs", "accepted", *KINDS[1:], "wasted most on"], lines)))


if __name__ == "__main__":
    main()
