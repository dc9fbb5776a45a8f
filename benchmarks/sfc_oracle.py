"""Tiny service networks whose best play is known: every state is visited, and every action tried.

    python benchmarks/sfc_oracle.py                     # both parts, a few minutes on one core
    python benchmarks/sfc_oracle.py --write             # only the tables from the file

Two data centers, two VNFs, three chains, six to nine requests. After its only bundle such an episode is
deterministic, so the states that can follow are a graph, and Q* is its longest paths. Part 1: how much the
rules lose against the optimum.
Part 2: a network learns from all transitions of many graphs, drawn evenly, so that exploration is no matter.
Does it find Q*? By state (the paper's, the full one), by reward, by discount. Its greedy policy is judged
exactly, on graphs that it learned from and on others.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flashdqn.envs.sfc import ServiceChains, SfcConfig, layout
from flashdqn.envs.sfc.baselines import Heuristic
from flashdqn.envs.sfc.layout import Net
from flashdqn.envs.sfc.state import TABLES
from measure import context, write_json
from sfc_tables import table

RESULTS = Path(__file__).parent / "results" / "sfc-oracle.json"
TINY = """
vnf = [
  { name = "A", cpu = 2, ram = 1, storage = 1, processing_ms = 0.1 },
  { name = "B", cpu = 3, ram = 1, storage = 1, processing_ms = 0.1 },
]
chain = [
  { name = "short", vnfs = ["B"], mbps = 1, delay_ms = 2, bundle = [1, 3] },
  { name = "cheap", vnfs = ["A", "B"], mbps = 1, delay_ms = 6, bundle = [3, 4] },
  { name = "dear", vnfs = ["B", "A", "B"], mbps = 1, delay_ms = 6, bundle = [3, 4] },
]
"""
OWN = [name for name in Net._fields if name not in TABLES]
BATCH = 4096


def make_config(folder: Path, **others: Any) -> SfcConfig:
    path = folder / "tiny.toml"
    path.write_text(TINY)
    return SfcConfig(
        tables=str(path), min_dcs=2, max_dcs=2, max_bundles=1, cpu_low=3, cpu_high=6, actions_per_step=1000,
        satisfied_reward=1.0, dropped_reward=0.0, needed_reward=0.0, state="full", discount="time", **others,
    )  # fmt: skip


@dataclass
class Graph:
    """All states of an episode that can be reached, and what each action does."""

    obs: Tensor  # [S, n]
    legal: Tensor  # [S, A] bool
    following: Tensor  # [S, A] int64; S for an end
    satisfied: Tensor  # [S, A]: reward in satisfied requests
    bound: Tensor  # [S, A]: change of the bound
    elapsed: Tensor  # [S, A]
    rule: Tensor  # [S]: what makes-room would do
    requests: int
    values: Tensor | None = None  # [S]: V*

    def solve(self) -> Tensor:
        """Q* in satisfied requests, [S, A]; −∞ where an action is illegal."""
        value = torch.zeros(len(self.obs) + 1)
        while True:
            q = (self.satisfied + value[self.following]).masked_fill(~self.legal, -torch.inf)
            new = torch.cat([q.max(1).values, torch.zeros(1)])
            if torch.equal(new, value):
                self.values = value[:-1]
                return q
            value = new

    def judge(self, choice: Tensor) -> float:
        """What a policy satisfies, [S] → the value of the first state."""
        at, total = 0, 0.0
        while at < len(self.obs):
            action = int(choice[at])
            total += float(self.satisfied[at, action])
            at = int(self.following[at, action])
        return total

    def judge_chance(self) -> float:
        """What random legal actions satisfy on average."""
        value = torch.zeros(len(self.obs) + 1)
        chance = self.legal / self.legal.sum(1, keepdim=True)
        for _ in range(400):
            value[:-1] = (chance * (self.satisfied + value[self.following])).sum(1)
        return float(value[0])


def name_states(net: Net) -> list[bytes]:
    """What distinguishes states: clock, turn, instances, and where every request is and until when."""
    state, request = net.state.numpy(), net.request.numpy()
    count, most = request.shape[:2]
    until = np.zeros((count, most), dtype=np.int32)
    for w in range(net.wheel.shape[1]):
        r = net.wheel[:, w].numpy().copy()
        for _ in range(most):
            rows = np.nonzero(r >= 0)[0]
            until[rows, r[rows]] = w + 1
            r[rows] = request[rows, r[rows], layout.NEXT]
    waits = np.zeros((count, most), dtype=np.int32)
    for queue in net.head.flatten(1).numpy().T:
        r = queue.copy()
        for _ in range(most):
            rows = np.nonzero(r >= 0)[0]
            waits[rows, r[rows]] = 1
            r[rows] = request[rows, r[rows], layout.NEXT]
    clock = state[:, [layout.NOW, layout.WAITS, layout.TURN, layout.DC, layout.OVER]]
    parts = [clock, until, waits, request[:, :, layout.POSITION], request[:, :, layout.PLACE]]
    parts += [net.installed.flatten(1).numpy(), net.idle.flatten(1).numpy()]
    return [row.tobytes() for row in np.ascontiguousarray(np.concatenate(parts, 1, dtype=np.int32))]


def explore(config: SfcConfig, seed: int, most: int) -> Graph | None:
    """Visit every state; None if there are more than `most`."""
    env = ServiceChains(config, 1)
    env.reset(seed)
    actions = env.num_actions
    wide = ServiceChains(config, BATCH)
    rule = Heuristic(wide, makes_room=True)
    number = {name_states(env.net)[0]: 0}
    saved = {name: getattr(env.net, name).clone() for name in OWN}
    obs, legal, ruled = [env._step.obs.clone()], [], []
    rows: list[dict[str, Tensor]] = []
    done = 0
    while done < len(number):
        some = min(BATCH // actions, len(number) - done)
        part = slice(done, done + some)
        for name in OWN:
            wide_column, column = getattr(wide.net, name), saved[name][part]
            wide_column[: some * actions].copy_(column.repeat_interleave(actions, 0))
            wide_column[some * actions :].copy_(column[:1].expand(BATCH - some * actions, *column.shape[1:]))
        mask = wide.net.mask[: some * actions : actions].clone()
        ruled.append(rule.choose()[: some * actions : actions].clone())
        bound = wide.net.sums[:, layout.BOUND].clone()
        wide.net.sums[:, layout.BOUND] = bound
        step = wide.step(torch.arange(BATCH) % actions)
        ended = step.terminated | step.truncated
        names = name_states(wide.net)
        following, fresh = [], []
        for k in range(some * actions):
            if not mask[k // actions, k % actions]:
                following.append(0)
            elif ended[k]:
                following.append(-1)
            else:
                if names[k] not in number:
                    number[names[k]] = len(number)
                    fresh.append(k)
                following.append(number[names[k]])
        before = saved["tally"][part][:, :, layout.SATISFIED].sum(1)
        after = wide.net.tally[: some * actions, :, layout.SATISFIED].sum(1).view(some, actions)
        rows.append(
            {
                "following": torch.tensor(following).view(some, actions),
                "satisfied": (after - before[:, None]).float(),
                "bound": step.reward[: some * actions].view(some, actions).clone(),
                "elapsed": wide._elapsed[: some * actions].view(some, actions).clone(),
            }
        )
        legal.append(mask)
        if fresh:
            obs.append(step.obs[fresh].clone())
            for name in OWN:
                saved[name] = torch.cat([saved[name], getattr(wide.net, name)[fresh]])
        done += some
        if len(number) > most:
            return None
    column = {name: torch.cat([row[name] for row in rows]) for name in rows[0]}
    count = len(number)
    following_all = torch.where(column["following"] < 0, count, column["following"])
    asked = int(saved["state"][0, layout.REQUESTS])
    return Graph(
        torch.cat(obs), torch.cat(legal), following_all, column["satisfied"],
        column["bound"], column["elapsed"].float(), torch.cat(ruled), asked,
    )  # fmt: skip


class Lesson:
    """Learns Q from all transitions of graphs, drawn evenly: double DQN with a soft target, as in a training."""

    def __init__(self, graphs: list[Graph], view: slice, reward: str, gamma: float, timed: bool) -> None:
        self.view, self.gamma = view, gamma
        offset, parts = 0, []
        for graph in graphs:
            state, action = torch.nonzero(graph.legal, as_tuple=True)
            following = graph.following[state, action]
            ends = following == len(graph.obs)
            pay = graph.bound if reward == "bound" else graph.satisfied
            power = graph.elapsed[state, action] if timed else torch.ones(len(state))
            parts.append(
                (state + offset, action, pay[state, action], gamma**power * ~ends,
                 torch.where(ends, 0, following) + offset)
            )  # fmt: skip
            offset += len(graph.obs)
        self.columns = [torch.cat(column) for column in zip(*parts, strict=True)]
        self.obs = torch.cat([graph.obs for graph in graphs])[:, view]
        self.legal = torch.cat([graph.legal for graph in graphs])

    def learn(self, steps: int, seed: int, width: int = 128) -> nn.Module:
        """A network after `steps` gradient steps of 256 samples."""
        torch.manual_seed(seed)
        inputs, actions = self.obs.shape[1], self.legal.shape[1]
        net = nn.Sequential(
            nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, actions)
        )
        target = copy.deepcopy(net)
        adam = torch.optim.Adam(net.parameters(), lr=1e-3)
        state, action, reward, discount, following = self.columns
        for step in range(steps):
            for group in adam.param_groups:
                group["lr"] = 1e-3 * (1 - 0.95 * step / steps)
            pick = torch.randint(len(state), (256,))
            after = following[pick]
            with torch.no_grad():
                best = (
                    net(self.obs[after]).masked_fill(~self.legal[after], -torch.inf).argmax(1, keepdim=True)
                )
                value = target(self.obs[after]).gather(1, best)[:, 0]
                wanted = reward[pick] + discount[pick] * value
            q = net(self.obs[state[pick]]).gather(1, action[pick][:, None])[:, 0]
            loss = nn.functional.smooth_l1_loss(q, wanted)
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
            with torch.no_grad():
                for old, new in zip(target.parameters(), net.parameters(), strict=True):
                    old.lerp_(new, 0.01)
        return net


def judge_network(net: nn.Module, graphs: list[Graph], view: slice) -> float:
    """Share of the optimum that its greedy policy reaches."""
    got = best = 0.0
    for graph in graphs:
        with torch.no_grad():
            choice = net(graph.obs[:, view]).masked_fill(~graph.legal, -torch.inf).argmax(1)
        got += graph.judge(choice)
        assert graph.values is not None
        best += float(graph.values[0])
    return got / best


def count_aliases(graphs: list[Graph], solved: list[Tensor], view: slice) -> dict[str, float]:
    """How often states that look the same share no best action; and what the best action for the look loses."""
    groups: dict[bytes, list[Tensor]] = {}
    for graph, q in zip(graphs, solved, strict=True):
        looks = graph.obs[:, view].numpy()
        for look, legal, values in zip(looks, graph.legal, q, strict=True):
            groups.setdefault(look.tobytes() + legal.numpy().tobytes(), []).append(values)
    states = conflicts = 0
    for values in groups.values():
        rows = torch.stack(values)
        best = rows == rows.max(1, keepdim=True).values
        states += len(rows)
        if not best.all(0).any():
            conflicts += len(rows)
    return {
        "looks per state": len(groups) / states,
        "states without a common best action": conflicts / states,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--graphs", type=int, default=24, help="to learn from; a third as many to judge by")
    parser.add_argument("--states", type=int, default=30_000, help="larger graphs are left out")
    parser.add_argument("--steps", type=int, default=8_000, help="gradient steps of each lesson")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--write", action="store_true", help="only print the tables from the file")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if not asked.write:
        write_json(asked.json, {**context("cpu"), **measure(asked)})
    show(json.loads(asked.json.read_text(encoding="utf-8")))


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        config = make_config(Path(folder), waiting="idle", bound_reward=1.0)
        graphs: list[Graph] = []
        seed = left_out = 0
        while len(graphs) < asked.graphs + asked.graphs // 3:
            graph = explore(config, seed, asked.states)
            seed += 1
            if graph is None:
                left_out += 1
                continue
            graphs.append(graph)
            print(f"graph {len(graphs)}: {len(graph.obs):,} states, {graph.requests} requests", flush=True)
    solved = [graph.solve() for graph in graphs]
    known, fresh = graphs[: asked.graphs], graphs[asked.graphs :]
    optimum = [float(graph.values[0]) for graph in graphs if graph.values is not None]
    rules = {
        "optimum": optimum,
        "makes-room": [graph.judge(graph.rule) for graph in graphs],
        "random": [graph.judge_chance() for graph in graphs],
        "largest change of the bound": [
            graph.judge(graph.bound.masked_fill(~graph.legal, -torch.inf).argmax(1)) for graph in graphs
        ],
    }
    requests = [graph.requests for graph in graphs]
    width, paper = graphs[0].obs.shape[1], 2 * 2 + 2 + 3 * (1 + 4) + 3 * (4 + 2)
    views = {"paper": slice(0, paper), "full": slice(0, width)}
    aliases = {name: count_aliases(graphs, solved, view) for name, view in views.items()}
    lessons = []
    for state, reward, gamma, timed in LESSONS:
        lesson = Lesson(known, views[state], reward, gamma, timed)
        scores = []
        for k in range(asked.seeds):
            net = lesson.learn(asked.steps, k)
            scores.append([judge_network(net, part, views[state]) for part in (known, fresh)])
        row = {"state": state, "reward": reward, "gamma": gamma, "per": "time" if timed else "action"}
        row["known"], row["fresh"] = ([s[k] for s in scores] for k in (0, 1))
        lessons.append(row)
        print(row, flush=True)
    return {
        "states": [len(graph.obs) for graph in graphs],
        "left_out": left_out,
        "requests": requests,
        "rules": rules,
        "aliases": aliases,
        "lessons": lessons,
        "learned_from": len(known),
    }


#: state, reward, γ, whether γ counts time
LESSONS = (
    ("full", "satisfied", 1.0, False),
    ("full", "bound", 1.0, False),
    ("paper", "satisfied", 1.0, False),
    ("paper", "bound", 1.0, False),
    ("full", "satisfied", 0.9, False),
    ("full", "bound", 0.9, False),
    ("full", "satisfied", 0.9, True),
    ("full", "bound", 0.9, True),
    ("full", "satisfied", 0.5, False),
    ("full", "bound", 0.5, False),
)


def show(data: dict[str, Any]) -> None:
    """The tables of docs/sfc-learning.md."""
    optimum = sum(data["rules"]["optimum"])
    print(f"{len(data['states'])} networks, {statistics.fmean(data['states']):,.0f} states on average")
    rows = [
        [n, f"{100 * sum(v) / sum(data['requests']):.1f}", f"{100 * sum(v) / optimum:.1f}"]
        for n, v in data["rules"].items()
    ]
    print("\n".join(table(["", "accepted, %", "of the optimum, %"], rows)))
    rows = [[n, *(f"{100 * x:.1f}" for x in a.values())] for n, a in data["aliases"].items()]
    print(
        "\n".join(
            table(["state", "different looks per 100 states", "states without a common best action, %"], rows)
        )
    )
    rows = [
        [r["state"], r["reward"], f"{r['gamma']} per {r['per']}",
         *(f"{100 * statistics.fmean(r[k]):.1f}" for k in ("known", "fresh"))]
        for r in data["lessons"]
    ]  # fmt: skip
    print("\n".join(table(["state", "reward", "γ", "of the optimum, %", "in new networks, %"], rows)))


if __name__ == "__main__":
    main()
