"""Fuel breaks: what burns after breaks on 1, 5, 10 and 20 % of the cells, for an agent, experts, random play and
no breaks.

    python benchmarks/fuelbreaks.py --run runs/fuelbreaks-small-…      # a trained agent
    python benchmarks/fuelbreaks.py --train fuelbreaks-small            # train one first
    python benchmarks/fuelbreaks.py --policies random betweenness       # without an agent

On landscapes that were held out of the training. Every policy is judged by the same `--fires` fires per
landscape, which none of them knows: an agent sees none, or scouts of its own, and lookahead tries its breaks on
others. Intervals are 95 % over the landscapes. Experts do not look at the budget, so one plan to 20 % serves all
budgets; the agent plans each budget again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import flashdqn
from flashdqn.agent.agent import Agent
from flashdqn.compute.threads import limit_threads
from flashdqn.config.presets import base_config
from flashdqn.core.ops import masked_argmax
from flashdqn.envs.fuelbreaks import FuelBreaks, FuelBreaksConfig
from flashdqn.envs.fuelbreaks.experts import Betweenness, DomiRank, Expert, Lookahead
from flashdqn.envs.fuelbreaks.pictures import draw_plan, make_figure
from measure import context, train_apart, write_json

RESULTS = Path(__file__).parent / "results" / "fuelbreaks.json"
BUDGETS = (0.01, 0.05, 0.10, 0.20)
POLICIES = ("random", "domirank", "domirank-adaptive", "betweenness-static", "betweenness", "lookahead")
NAMES = {
    "nothing": "nothing",
    "random": "random",
    "domirank": "DomiRank",
    "domirank-adaptive": "DomiRank, again after every break",
    "betweenness-static": "betweenness, once",
    "betweenness": "betweenness, again after every break",
    "lookahead": "one-step lookahead",
    "agent": "agent",
}
COLORS = {
    "random": "#9aa7b5", "domirank": "#c9922e", "domirank-adaptive": "#8a6d4f", "betweenness-static": "#6dbb8b",
    "betweenness": "#3f8a5c", "lookahead": "#5b3fa8", "agent": "#c8553d",
}  # fmt: skip

Choose = Callable[[], Tensor]


class Once:
    """The scores of the first call, used for all calls."""

    def __init__(self, judge: Betweenness) -> None:
        self.judge = judge
        self.first: Tensor | None = None

    def scores(self) -> Tensor:
        if self.first is None:
            self.first = self.judge.scores().clone()
        return self.first


def chance(env: FuelBreaks, seed: int) -> Choose:
    generator = torch.Generator().manual_seed(seed)
    return lambda: torch.multinomial(env.mask.float(), 1, generator=generator).squeeze(1)


def policy(name: str, env: FuelBreaks, agent: Agent | None, seed: int, look: int) -> Choose:
    if name == "random":
        return chance(env, seed)
    if name == "agent":
        assert agent is not None
        agent.network.decoder = env.decoder  # the weights do not depend on a landscape: any will do

        @torch.no_grad()
        def choose() -> Tensor:
            return masked_argmax(agent.head.q(agent.network(env._step.obs)), env.mask)

        return choose
    judges: dict[str, Callable[[], Any]] = {
        "domirank": lambda: DomiRank(env),
        "domirank-adaptive": lambda: DomiRank(env, adaptive=True),
        "betweenness": lambda: Betweenness(env),
        "betweenness-static": lambda: Once(Betweenness(env)),
        "lookahead": lambda: Lookahead(env, seed, look),
    }
    return Expert(env, judges[name]())


def stage(config: FuelBreaksConfig, fires: int, landscapes: int | None) -> tuple[FuelBreaks, Tensor, Tensor]:
    """A board for each held-out landscape, with the weathers in turn, and the fires that judge."""
    largest = max(round(share * config.size**2) for share in BUDGETS)
    config = replace(config, fires=fires, budget=float(largest), least_budget=0.0, ignitions=())
    probe = FuelBreaks(replace(config, fires=1), 1, held_out=True)
    first, end = probe.scenes.split(held_out=True)
    weathers = len(probe.scenes.weathers)
    scenes = [first + k * weathers + k % weathers for k in range((end - first) // weathers)][:landscapes]
    env = FuelBreaks(config, len(scenes), held_out=True)
    scene = torch.tensor(scenes, dtype=torch.int32)
    generator = torch.Generator().manual_seed(20_261_115)
    luck = torch.rand((len(scenes), fires), generator=generator, dtype=torch.float64)
    nth = (luck * env.scenes.counts[scene.long()][:, None]).long()
    return env, scene, env.scenes.places[scene.long()].gather(1, nth)


def measure(
    name: str,
    env: FuelBreaks,
    scene: Tensor,
    ignition: Tensor,
    agent: Agent | None,
    asked: argparse.Namespace,
) -> tuple[dict[float, list[float]], float]:
    """Burned share of every landscape at every budget, and seconds per landscape at the largest."""
    cells = env.num_actions
    burned: dict[float, list[float]] = {}
    seconds = 0.0
    plans = [(share,) for share in BUDGETS] if name == "agent" else [BUDGETS]
    for shares in plans:
        counts = {round(share * cells): share for share in shares}
        env.begin(scene, ignition, max(counts))
        choose = policy(name, env, agent, seed=1, look=asked.look)
        seconds = 0.0
        for placed in range(1, max(counts) + 1):
            start = time.perf_counter()
            action = choose()
            seconds += time.perf_counter() - start
            env.step(action)
            if placed in counts:
                burned[counts[placed]] = (env.spread.burned.double().mean(1) / cells).tolist()
    return burned, seconds / env.num_envs


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Mean in percent, with half the width of the 95 % interval."""
    numbers = 100 * torch.tensor(values, dtype=torch.float64)
    return float(numbers.mean()), 1.96 * float(numbers.std()) / len(numbers) ** 0.5


def table(results: dict[str, Any]) -> str:
    """The results as a Markdown table."""
    rows = [
        "| | " + " | ".join(f"{share:.0%}" for share in BUDGETS) + " | seconds per landscape |",
        "|---" * (len(BUDGETS) + 2) + "|",
    ]
    for name, result in results["policies"].items():
        cells = [
            "{:.2f} ± {:.2f}".format(*mean_and_error(result["burned"][f"{share:g}"])) for share in BUDGETS
        ]
        rows.append(f"| {NAMES[name]} | {' | '.join(cells)} | {result['seconds']:.3g} |")
    return "\n".join(rows)


def differences(results: dict[str, Any]) -> str:
    """How much less burns with the agent than with each other policy, paired by landscape."""
    policies, lines = results["policies"], []
    if "agent" not in policies:
        return ""
    for name, other in policies.items():
        if name == "agent":
            continue
        parts = []
        for share in BUDGETS:
            mine, theirs = (p["burned"][f"{share:g}"] for p in (policies["agent"], other))
            mean, error = mean_and_error([b - a for a, b in zip(mine, theirs, strict=True)])
            parts.append(f"{mean:+.2f} ± {error:.2f}")
        lines.append(f"| agent against {NAMES[name]} | {' | '.join(parts)} | |")
    return "\n".join(lines)


def draw(results: dict[str, Any], path: Path) -> None:
    """Burned area by budget."""
    figure, axes = make_figure(1, 1, 7.2, 4.6)
    panel = axes[0]
    nothing, _ = mean_and_error(results["policies"]["nothing"]["burned"]["0.01"])
    for name, result in results["policies"].items():
        if name == "nothing":
            continue
        points = [mean_and_error(result["burned"][f"{share:g}"]) for share in BUDGETS]
        at = [0.0] + [100 * share for share in BUDGETS]
        panel.errorbar(
            at, [nothing] + [mean for mean, _ in points], [0.0] + [error for _, error in points],
            color=COLORS[name], lw=2.6 if name == "agent" else 1.4, marker="o", ms=4, capsize=2, label=NAMES[name],
        )  # fmt: skip
    panel.set_xticks([0, 1, 5, 10, 20])
    panel.set_yticks(range(0, int(nothing) + 6, 5))
    panel.set_xlabel("cells with a break, %")
    panel.set_ylabel("expected burned area, % of the landscape")
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize=8)
    about = results["about"]
    grid = f"{about['landscapes']} held-out landscapes of {about['size']}x{about['size']} cells"
    panel.set_title(f"{grid}, {about['fires']} fires each", loc="left", fontsize=10)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, help="a run folder: its best checkpoint is the agent")
    parser.add_argument("--train", metavar="PRESET", help="train an agent first")
    parser.add_argument(
        "--preset", default="fuelbreaks-small", help="whose landscapes to use without an agent"
    )
    parser.add_argument("--policies", nargs="*", default=list(POLICIES), choices=POLICIES)
    parser.add_argument("--fires", type=int, default=200, help="fires that judge, per landscape")
    parser.add_argument("--look", type=int, default=100, help="fires that lookahead tries a break on")
    parser.add_argument("--landscapes", type=int, help="this many instead of all held-out ones")
    parser.add_argument(
        "--landscape-seed", type=int, help="other landscapes than the run's, which chose its best checkpoint"
    )
    parser.add_argument("--plan", type=Path, help="draw the agent's plan at 10 %% on the first landscape")
    parser.add_argument("--picture", type=Path, help="draw burned area by budget")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--keep", action="store_true", help="keep the file's results of other policies")
    asked = parser.parse_args()
    run = train_apart(asked.train, {}, "runs") if asked.train else asked.run
    agent = None if run is None else flashdqn.load(run, "cpu")
    config = base_config(asked.preset).env if agent is None else agent.config.env
    assert isinstance(config, FuelBreaksConfig)
    if asked.landscape_seed is not None:
        count = asked.landscapes or config.held_out
        config = replace(config, landscape_seed=asked.landscape_seed, landscapes=1, held_out=count)
    with limit_threads(1, 2):
        results = compare(config, agent, run, asked)
    write_json(asked.out, results)
    print(table(results))
    print(differences(results))
    if asked.picture:
        draw(results, asked.picture)


def compare(
    config: FuelBreaksConfig, agent: Agent | None, run: Path | None, asked: argparse.Namespace
) -> dict[str, Any]:
    """All policies on the same landscapes and fires."""
    env, scene, ignition = stage(config, asked.fires, asked.landscapes)
    env.begin(scene, ignition, 1)
    before = (env.spread.burned.double().mean(1) / env.num_actions).tolist()
    about = {"size": config.size, "landscapes": env.num_envs, "fires": asked.fires, "look": asked.look}
    about |= {"duration": config.duration, "weathers": list(config.weathers)}
    about["landscape_seed"] = config.landscape_seed
    if run is not None and (run / "summary.json").exists():  # not while it is still training
        summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
        keys = ("steps", "updates", "seconds", "train_ratio", "demonstrations")
        about["agent"] = {key: summary[key] for key in keys if key in summary}
    policies: dict[str, Any] = {
        "nothing": {"burned": {f"{share:g}": before for share in BUDGETS}, "seconds": 0.0}
    }
    policies |= kept(asked, about)
    for name in [*asked.policies, *(["agent"] if agent is not None else [])]:
        burned, seconds = measure(name, env, scene, ignition, agent, asked)
        policies[name] = {"burned": {f"{k:g}": v for k, v in burned.items()}, "seconds": seconds}
        results = {"context": context("cpu"), "about": about, "policies": policies}
        write_json(asked.out, results)
        print(
            name,
            {f"{k:.0%}": round(mean_and_error(v)[0], 2) for k, v in burned.items()},
            f"{seconds:.3g} s",
            flush=True,
        )
        if name == "agent" and asked.plan and agent is not None:
            draw_agent(env, scene, ignition, agent, asked.plan)
    return {"context": context("cpu"), "about": about, "policies": policies}


def kept(asked: argparse.Namespace, about: dict[str, Any]) -> dict[str, Any]:
    """What was measured before on the same landscapes and fires."""
    if not asked.keep or not asked.out.exists():
        return {}
    before = json.loads(asked.out.read_text(encoding="utf-8"))
    if any(before["about"].get(key) != value for key, value in about.items() if key != "agent"):
        raise SystemExit(f"{asked.out} was measured on other landscapes or fires: leave out --keep.")
    return {name: result for name, result in before["policies"].items() if name != "nothing"}


def draw_agent(env: FuelBreaks, scene: Tensor, ignition: Tensor, agent: Agent, path: Path) -> None:
    """The agent's plan at 10 % on the first landscape, with the values of its first break."""
    budget = round(0.1 * env.num_actions)
    obs = env.begin(scene, ignition, budget)
    with torch.no_grad():
        q = agent.head.q(agent.network(obs))[0].masked_fill(~env.mask[0], float("nan"))
    choose, order = policy("agent", env, agent, 0, 0), []
    for _ in range(budget):
        order.append(int((action := choose())[0]))
        env.step(action)
    values = q.view(env.config.size, -1).numpy()
    land = env.scenes.name(int(scene[0]))
    draw_plan(
        env.scenes, int(scene[0]), order, path, f"{land}: breaks on 10 % of the cells, by the agent", values
    )


if __name__ == "__main__":
    main()
