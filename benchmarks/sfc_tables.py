"""The tables and the picture of docs/sfc.md, from the results of `sfc.py`."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

DCS, BUNDLES = (8, 6, 4, 2), (1, 2, 3, 4, 5)
#: Acceptance at 5 bundles in Onsu et al. 2024 and in arXiv:2411.12851, by data centers.
PUBLISHED = {
    "DRL (paper)": {8: 0.81, 6: 0.76, 4: 0.62, 2: 0.315},
    "GenAI-assisted (follow-up)": {8: 1.0, 6: 0.96, 4: 0.87, 2: 0.40},
}
#: Student's t for a 95 % interval, by the number of seeds
T = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36}
OTHERS = ("delay_ms", "throughput_gbps", "cpu", "storage", "no_room", "no_bandwidth", "no_time")


class Results:
    """The rows of one reading, by policy and cell."""

    def __init__(self, data: dict[str, Any], slots: int) -> None:
        self.rows = [row for row in data["results"] if row["slots"] == slots]
        self.bounds = data["bounds"][str(slots)]
        self.policies = list(dict.fromkeys(row["policy"] for row in self.rows))

    def cell(self, policy: str, dcs: int, bundles: int, name: str = "score") -> dict[int, float]:
        """A figure by seed."""
        key = (policy, dcs, bundles)
        return {r["seed"]: r[name] for r in self.rows if (r["policy"], r["dcs"], r["bundles"]) == key}

    def show(self, policy: str, dcs: int, bundles: int, name: str = "score") -> str:
        """Mean and interval over seeds, in percent."""
        return interval(list(self.cell(policy, dcs, bundles, name).values()))

    def compare(self, policy: str, other: str, dcs: int, bundles: int) -> str:
        """Mean and interval of the differences to another policy on the same episodes, in points."""
        one, two = self.cell(policy, dcs, bundles), self.cell(other, dcs, bundles)
        shared = sorted(set(one) & set(two))
        return interval([one[seed] - two[seed] for seed in shared], sign="+") if shared else ""


def interval(values: list[float], sign: str = "") -> str:
    """Mean and half-width of a 95 % interval over seeds (Student's t), in percent."""
    mean = 100 * statistics.fmean(values)
    if len(values) < 2:
        return f"{mean:{sign}.1f}"
    half = 100 * T.get(len(values), 2.2) * statistics.stdev(values) / len(values) ** 0.5
    return f"{mean:{sign}.1f} ± {half:.1f}"


def row(*texts: str) -> str:
    return "| " + " | ".join(texts) + " |"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [row(*head), "|---" * len(head) + "|", *(row(*texts) for texts in rows), ""]


def list_loads(results: Results) -> list[str]:
    """Acceptance in every cell."""
    rows = []
    for dcs in DCS:
        for policy in results.policies:
            seeds = len(results.cell(policy, dcs, 5))
            rows.append([policy, str(dcs), *(results.show(policy, dcs, b) for b in BUNDLES), str(seeds)])
        bounds = [f"{100 * bound:.1f}" for bound in results.bounds[str(dcs)]]
        rows.append(["*CPU allows at most*", str(dcs), *bounds, ""])
    title = "Acceptance in % by bundles; ± is a 95 % interval over seeds."
    return [title, "", *table(["policy", "DCs", *map(str, BUNDLES), "seeds"], rows)]


def list_policies(results: Results) -> list[str]:
    """Acceptance at 5 bundles, beside the published figures."""
    rows = [[name, *(f"{100 * scores[d]:.1f}" for d in DCS)] for name, scores in PUBLISHED.items()]
    rows += [[policy, *(results.show(policy, d, 5) for d in DCS)] for policy in results.policies]
    rows.append(["*CPU allows at most*", *(f"{100 * results.bounds[str(d)][-1]:.1f}" for d in DCS)])
    title = "At 5 bundles; the published figures are those of other simulators."
    return [title, "", *table(["", *(f"{d} DCs" for d in DCS)], rows)]


def list_differences(results: Results, other: str = "makes-room") -> list[str]:
    """Differences to the best rule on the same episodes."""
    rows = [
        [policy, *(results.compare(policy, other, d, 5) for d in DCS)]
        for policy in results.policies
        if policy != other
    ]
    title = f"At 5 bundles, points more than *{other}* on the same episodes; ± is a 95 % interval over seeds."
    return [title, "", *table(["", *(f"{d} DCs" for d in DCS)], rows)]


def list_chains(results: Results) -> list[str]:
    """Acceptance by chain."""
    chains = [name for name in results.rows[0] if name.startswith("accepted_")]
    rows = [[policy, *(results.show(policy, 6, 5, c) for c in chains)] for policy in results.policies]
    head = ["policy", *(c.removeprefix("accepted_") for c in chains)]
    return ["By chain, 6 DCs, 5 bundles, acceptance in %:", "", *table(head, rows)]


def list_others(results: Results) -> list[str]:
    """Delay, bandwidth, resources, causes."""
    rows = []
    for dcs in DCS:
        for policy in results.policies:
            means = {name: statistics.fmean(results.cell(policy, dcs, 5, name).values()) for name in OTHERS}
            texts = [f"{x:.1f}" if "_ms" in n or "_gbps" in n else f"{100 * x:.1f}" for n, x in means.items()]
            rows.append([policy, str(dcs), *texts])
    title = "At 5 bundles: delay of the satisfied, their bandwidth together, resources held, causes of drops."
    causes = ["no room %", "no bandwidth %", "no time %"]
    head = ["policy", "DCs", "delay ms", "Gbit/s", "CPU %", "storage %", *causes]
    return [title, "", *table(head, rows)]


def tables(data: dict[str, Any], slots: int) -> str:
    """The tables of docs/sfc.md from the results."""
    results = Results(data, slots)
    parts = list_policies(results) + list_differences(results) + list_chains(results)
    if {row["bundles"] for row in results.rows} == set(BUNDLES):
        parts += list_loads(results)
    return "\n".join(parts + list_others(results))


def draw(data: dict[str, Any], slots: int, path: Path) -> None:
    """Acceptance by load, one panel for each number of data centers."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    results = Results(data, slots)
    figure = Figure(figsize=(11, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, dcs in zip(figure.subplots(1, len(DCS), sharey=True), sorted(DCS), strict=True):
        for k, policy in enumerate(results.policies):
            means = [100 * statistics.fmean(results.cell(policy, dcs, b).values()) for b in BUNDLES]
            axes.plot(BUNDLES, means, color=f"C{k}", marker=".", label=policy)
        bounds = [100 * bound for bound in results.bounds[str(dcs)]]
        axes.plot(BUNDLES, bounds, color="#99a", lw=1, ls="--", label="CPU allows")
        axes.set(title=f"{dcs} data centers", xlabel="bundles", ylim=(0, 103))
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("accepted requests, %")
    lines, names = figure.axes[-1].get_legend_handles_labels()
    figure.legend(lines, names, frameon=False, fontsize=8, loc="outside right center")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
