"""Service function chains: how much better than the rule *makes-room* can a rule be that sees everything?

    python benchmarks/sfc_search.py [--slots 2] [--generations 30] [--json FILE]

*makes-room* serves the request with the highest P1 + P2 + P3. Here requests get a score with 24 weights: the
points, the remaining time, the chain, the VNF, the position, how long the instance is held, where it waits,
how many wait. The weights are searched by the cross-entropy method on whole episodes with 2 to 8 data centers
and 5 bundles, so there is no credit to assign and nothing to bootstrap. What it reaches, a learner with the
same knowledge and actions can reach.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flashdqn.compute.kernels import Array, Kernel, Scalar, inner
from flashdqn.envs.sfc import ServiceChains, SfcConfig
from flashdqn.envs.sfc.layout import (
    CHAIN,
    CPU,
    DC,
    NOBODY,
    NOW,
    OVER,
    POSITION,
    PROCESSING,
    SLOT_US,
    TARGET,
    Net,
)
from flashdqn.envs.sfc.placement import find_next_request, is_needed
from flashdqn.envs.sfc.requests import deadline_us
from measure import context, write_json
from sfc_tables import DCS, table

RESULTS = Path(__file__).parent / "results" / "sfc-search.json"
WEIGHTS, NO_SCORE = 24, -1e8


@inner
def score_request(
    i: Scalar, w: Scalar, v: Scalar, r: Scalar, here: Scalar, points: Scalar, weights: Array, net: Net
) -> Scalar:
    """The score of serving a request by VNF v at the data center in turn; weights of about 1 matter alike."""
    d, count, slot = net.state[i, DC], len(net.vnfs), net.params[SLOT_US]
    remaining = (deadline_us(i, r, net) - net.state[i, NOW] * slot) * 1e-3
    hold = (net.delay[i, here, d] + net.vnfs[v, PROCESSING] + slot - 1) // slot
    waiting = 0
    for chain in range(len(net.chains)):
        waiting += net.demand[i, chain * count + v]
    score = (
        weights[w, 0] * points * 1e-3 + weights[w, 1] * 10 / (remaining + 1) + weights[w, 2] * remaining * 0.1
    )
    score += weights[w, 3 + net.request[i, r, CHAIN]] * 10 + weights[w, 9] * net.request[i, r, POSITION] * 3
    score += weights[w, 10] * (hold - 1) * 10 + weights[w, 11 + v] * 10
    score += weights[w, 17] * (5 if net.idle[i, d, v] > 0 else 0) + weights[w, 18] * (10 if here == d else 0)
    score += weights[w, 19] * net.installed[i, d, v] + weights[w, 20] * (
        5 if net.request[i, r, TARGET] == d else 0
    )
    score += weights[w, 21] * 0.005 * net.delay[i, here, d] * net.vnfs[v, CPU]
    return score + weights[w, 22] * waiting / (waiting + 32) * 10


@inner
def choose_by_score(i: Scalar, chosen: Array, member: Array, weights: Array, *arrays: Array) -> None:
    """Like *makes-room*, with scores instead of points."""
    net = Net(*arrays)
    w, d, count = member[i], net.state[i, DC], len(net.vnfs)
    first, first_score, served, served_score, spare, spare_score = 2 * count, -1e9, 2 * count, -1e9, -1, 1e9
    for v in range(count):
        r, _, _, here, points = find_next_request(i, v, d, False, net)
        score = NO_SCORE
        if r != NOBODY:
            score = score_request(i, w, v, r, here, points, weights, net)
            if score > first_score:
                first, first_score = v, score
        if net.mask[i, v] and score > served_score:
            served, served_score = v, score
        if net.mask[i, count + v] and score < spare_score:
            spare, spare_score = count + v, score
    wanted = first < count and first != served
    if wanted and spare >= 0 and spare_score + weights[w, 23] * 10 < first_score:
        chosen[i] = spare
    elif served < 2 * count:
        chosen[i] = served
    else:
        chosen[i] = spare if spare >= 0 and not is_needed(i, spare - count, net) else 2 * count


class Arena:
    """Every member of a population plays the same episodes."""

    def __init__(self, config: SfcConfig, members: int, episodes: int) -> None:
        self.members, self.episodes, n = members, episodes, members * episodes
        self.env = ServiceChains(config, n)
        self.chosen = torch.zeros(n, dtype=torch.int64)
        self.weights = torch.zeros(members, WEIGHTS, dtype=torch.float64)
        member = torch.arange(members).repeat_interleave(episodes)
        self.launch = Kernel(choose_by_score, 128).bind(n, self.chosen, member, self.weights, *self.env.net)

    def play(self, weights: Any, seed: int) -> Any:
        """Acceptance, [members, episodes]."""
        env, n = self.env, self.env.num_envs
        self.weights.copy_(torch.as_tensor(weights))
        env.reset(seed)
        env.net.rng[:, 0] = env.net.rng[: self.episodes, 0].clone().repeat(self.members)
        env.net.rng[:, 1] = 0
        env.net.state[:, OVER] = 1  # start again, with the same networks for all
        env.step(self.chosen)
        scores, going = torch.zeros(n), torch.ones(n, dtype=torch.bool)
        while going.any():
            self.launch()
            step = env.step(self.chosen)
            ended = going & (step.terminated | step.truncated)
            scores[ended] = env.outcomes[ended, 0]
            going &= ~ended
        return scores.view(self.members, self.episodes).numpy()


def search(asked: argparse.Namespace) -> Any:
    """The cross-entropy method: the mean and deviation of the best quarter, again and again."""
    arena = Arena(SfcConfig(slots=asked.slots, min_bundles=5, waiting="idle"), asked.members, asked.episodes)
    rule = np.zeros(WEIGHTS)
    rule[0] = 1  # makes-room itself
    mean, spread, luck = rule.copy(), np.full(WEIGHTS, 0.5), np.random.default_rng(0)
    for generation in range(asked.generations):
        weights = mean + spread * luck.standard_normal((asked.members, WEIGHTS))
        weights[0], weights[1] = mean, rule
        scores = arena.play(weights, 100_000 + generation).mean(1)
        best = weights[np.argsort(-scores)[: asked.members // 4]]
        mean, spread = 0.3 * mean + 0.7 * best.mean(0), 0.3 * spread + 0.7 * best.std(0) + 0.02
        print(f"{generation}: {100 * scores[0]:.1f} %, makes-room {100 * scores[1]:.1f} %", flush=True)
    return mean, rule


def judge(mean: Any, rule: Any, slots: int, episodes: int) -> dict[str, Any]:
    """Both on new episodes, by number of data centers."""
    rows = {}
    for dcs in DCS:
        config = SfcConfig(slots=slots, min_bundles=5, min_dcs=dcs, max_dcs=dcs, waiting="idle")
        own, other = Arena(config, 2, episodes).play(np.stack([mean, rule]), 1_000)
        more = own - other
        rows[str(dcs)] = {
            "searched": float(own.mean()),
            "makes-room": float(other.mean()),
            "more": float(more.mean()),
            "interval": float(1.96 * more.std(ddof=1) / episodes**0.5),
        }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--members", type=int, default=32)
    parser.add_argument("--episodes", type=int, default=12, help="of each member in a generation")
    parser.add_argument("--generations", type=int, default=30)
    parser.add_argument("--judge", type=int, default=160, help="episodes to judge by, for each size")
    parser.add_argument("--json", type=Path, default=RESULTS)
    asked = parser.parse_args()
    old = json.loads(asked.json.read_text(encoding="utf-8")) if asked.json.exists() else {}
    mean, rule = search(asked)
    rows = judge(mean, rule, asked.slots, asked.judge)
    found = {"weights": [round(float(w), 3) for w in mean], "judged": rows}
    write_json(asked.json, {**context("cpu"), "slots": {**old.get("slots", {}), str(asked.slots): found}})
    lines = []
    for dcs, row in rows.items():
        more = f"{100 * row['more']:+.1f} ± {100 * row['interval']:.1f}"
        lines.append([dcs, f"{100 * row['searched']:.1f}", f"{100 * row['makes-room']:.1f}", more])
    print("\n".join(table(["DCs", "searched", "makes-room", "more"], lines)))


if __name__ == "__main__":
    main()
