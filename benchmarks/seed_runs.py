"""The runs that the seed documents describe: 5000 and 10,000 episodes of Snake at the five named train ratios.

    python benchmarks/seed_runs.py                                  # all ten
    python benchmarks/seed_runs.py --resume                         # continue where it stopped
    python benchmarks/seed_runs.py --features basic --episodes 10000 --ratios fast quality
    python benchmarks/seed_runs.py --device cuda

The settings are theirs; what the documents leave open was taken from the public program that they mention: 256
boards of 10x10, plain DQN, MLP 2x128, batch 64, replay of 100,000, learning from 1000 transitions on, learning
rate 0.001, γ 0.99, gradients clipped at 1, games cut off at 1000 steps. Their ε falls by 0.995 per episode to
0.01, in 919 episodes; ours depends on transitions, so it falls exponentially over 25,000, which is about as many.
That matters: a fixed number of episodes is short if the agent stays random, because it dies soon. Time per
transition is the unit in which runs compare.

Their figures are for the basic features ("basic DQN doesn't use flood-fill anyway"): `--features basic` repeats
those. `flood`, the default here, sees more, plays longer, and so needs more transitions for the same number of
episodes. They measured 199 minutes; the ranges for 10,000 episodes are what they expect, not what they
measured.

Every run is a separate process, without evaluation during training. Its time is that of training alone: from the
first update to the last report, after the warm-up and the filling of the replay.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from flashdqn.compute.device import choose_device
from flashdqn.config import RATIOS
from flashdqn.runs.tables import read_metrics
from measure import context, train_apart, write_json
from scaling import machine

HERE = Path(__file__).parent
STARTS = 1000
THEIRS: dict[str, Any] = {
    "algo": "dqn",
    "envs": 256,
    "env.size": 10,
    "env.max_steps": 1000,
    "env.hunger": 0,
    "network.hidden": (128, 128),
    "replay.capacity": 100_000,
    "learn.batch_size": 64,
    "learn.starts": STARTS,
    "learn.lr": 1e-3,
    "learn.gamma": 0.99,
    "learn.grad_clip": 1.0,
    "learn.target_every": 1000,
    "explore.schedule": "exponential",
    "explore.end": 0.01,
    "explore.over": 25_000,
    "eval.every": 0,
    "log.checkpoint_every": 0,
}
#: Minutes in the seed documents, by episodes and ratio: from, to, and whether measured or expected.
SEEDS: dict[tuple[int, str], tuple[float, float, str]] = {
    (5_000, "quality"): (199, 199, "measured"),
    (10_000, "debug"): (10, 15, "expected"),
    (10_000, "fast"): (15, 20, "expected"),
    (10_000, "better"): (40, 60, "expected"),
    (10_000, "quality"): (90, 120, "expected"),
}
GUESSED_LENGTH = {"basic": 130.0, "flood": 300.0}  # transitions per episode, until a run has measured it


def settings(features: str, ratio: str, device: str, **budget: Any) -> dict[str, Any]:
    """The settings of one run."""
    return THEIRS | {"env.features": features, "train_ratio": RATIOS[ratio], "device": device} | budget


def train(features: str, ratio: str, episodes: int, device: str, console: Console) -> dict[str, Any]:
    """One run in a separate process, and its figures."""
    with tempfile.TemporaryDirectory() as out:
        with followed(Path(out), episodes, console):
            path = train_apart("snake", settings(features, ratio, device, episodes=episodes), out)
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        last = read_metrics(path)[-1]
    evaluation = summary.get("evaluation", {})
    transitions, seconds = summary["steps"], last.seconds
    return {
        "features": features,
        "ratio": ratio,
        "episodes_asked": episodes,
        "episodes": summary["episodes"],
        "transitions": transitions,
        "updates": summary["updates"],
        "train_ratio": summary["train_ratio"],
        "length": transitions / summary["episodes"],
        "seconds": seconds,
        "warm_up_seconds": summary["warm_up_seconds"],
        "microseconds_per_transition": seconds / max(1, transitions - STARTS) * 1e6,
        "score": evaluation.get("mean_score"),
        "score_error": evaluation.get("score_error"),
        "mode": summary["mode"],
    }


@contextmanager
def followed(out: Path, episodes: int, console: Console, every: float = 15.0) -> Iterator[None]:
    """Report at intervals how far the run in a folder has come."""
    over = threading.Event()

    def follow() -> None:
        while not over.wait(every):
            for path in out.glob("*"):
                if rows := read_metrics(path):
                    last = rows[-1]
                    steps = f"{last.step:,} transitions, {last.steps_per_second:,.0f} a second"
                    console.print(f"    {last.episodes:,} of {episodes:,} episodes, {steps}", highlight=False)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Clock:
    """Predicts how long runs take: a transition costs a + b · ratio."""

    def __init__(self, features: str, device: str, seconds: float) -> None:
        self.length, self.known = GUESSED_LENGTH[features], False
        cheap, expensive = (self.probe(features, ratio, device, seconds) for ratio in ("debug", "quality"))
        self.b = max(0.0, (expensive - cheap) / (RATIOS["quality"] - RATIOS["debug"]))
        self.a = max(0.0, cheap - self.b * RATIOS["debug"])

    @staticmethod
    def probe(features: str, ratio: str, device: str, seconds: float) -> float:
        """Seconds per transition, by a short run."""
        with tempfile.TemporaryDirectory() as out:
            path = train_apart("snake", settings(features, ratio, device, max_time=seconds), out)
            last = read_metrics(path)[-1]
        return last.seconds / max(1.0, last.step - STARTS)

    def foretell(self, ratio: str, episodes: int) -> float:
        """Predicted seconds of a run."""
        return episodes * self.length * (self.a + self.b * RATIOS[ratio])

    def learn(self, result: dict[str, Any]) -> None:
        """Take the episode length from a finished run."""
        self.length, self.known = result["length"], True


def span(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g}–{high:g}"


def table(results: list[dict[str, Any]], title: str) -> Table:
    """A readable table of all runs."""
    grid = Table(title=title)
    grid.caption = "theirs ÷ ours takes the least of their minutes; the machines differ"
    names = (
        "episodes|ratio|transitions|updates|length|training|µs/transition|score, 100 games|theirs, min|÷ ours"
    )
    for name in names.split("|"):
        grid.add_column(name, justify="right")
    for r in results:
        theirs = SEEDS.get((r["episodes_asked"], r["ratio"]))
        score = "–" if r["score"] is None else f"{r['score']:.1f} ± {r['score_error']:.1f}"
        grid.add_row(
            f"{r['episodes_asked']:,}",
            f"{r['ratio']} {RATIOS[r['ratio']]:g}",
            f"{r['transitions']:,}",
            f"{r['updates']:,}",
            f"{r['length']:.0f}",
            f"{r['seconds']:.1f} s",
            f"{r['microseconds_per_transition']:.1f}",
            score,
            f"{span(*theirs[:2])} {theirs[2]}" if theirs else "–",
            f"{theirs[0] * 60 / r['seconds']:,.0f}" if theirs else "–",
        )
    return grid


def draw(results: list[dict[str, Any]], title: str, path: Path) -> None:
    """Minutes by ratio: our bars, and their figures as marks above."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    budgets = sorted({r["episodes_asked"] for r in results})
    if not results:
        return
    figure = Figure(figsize=(1 + 4 * len(budgets), 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(budgets), sharey=True, squeeze=False)[0]
    above = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center", "fontsize": 8}
    for panel, episodes in zip(panels, budgets, strict=True):
        for place, ratio in enumerate(RATIOS):
            for r in (r for r in results if (r["episodes_asked"], r["ratio"]) == (episodes, ratio)):
                panel.plot(place, r["seconds"] / 60, color="#d95f02", marker="o", ms=8)
                panel.annotate(f"{r['seconds']:.3g} s", (place, r["seconds"] / 60), **above)
            if theirs := SEEDS.get((episodes, ratio)):
                low, high, kind = theirs
                ends = {"color": "#4a5a70", "lw": 5, "marker": "_", "ms": 12, "mew": 3}
                panel.plot([place, place], [low, high], solid_capstyle="butt", **ends)
                panel.annotate(f"{span(low, high)} min\n{kind}", (place, high), **above)
        panel.set_xticks(
            range(len(RATIOS)), [f"{name}\n{ratio:g}" for name, ratio in RATIOS.items()], fontsize=8
        )
        panel.set_title(f"{episodes:,} episodes", fontsize=10)
        panel.set_yscale("log")
        panel.set_xlim(-0.6, len(RATIOS) - 0.4)
        panel.margins(y=0.15)
        panel.grid(axis="y", alpha=0.25)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panels[0].set_ylabel("minutes of training")
    figure.suptitle(title, fontsize=10)
    figure.supxlabel("train ratio; orange: ours, gray: the seed documents, on their machine", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def earlier(path: Path) -> list[dict[str, Any]]:
    """Runs that were done before."""
    try:
        return list(json.loads(path.read_text(encoding="utf-8"))["runs"])
    except (OSError, ValueError, KeyError, TypeError):
        return []


def key(r: dict[str, Any]) -> tuple[str, int, int]:
    return r["features"], r["episodes_asked"], list(RATIOS).index(r["ratio"])


def foresee(clock: Clock, todo: list[tuple[str, int]], features: str, console: Console) -> None:
    """Print the expected time before the runs start."""
    worst, total = clock.foretell("quality", 10_000), sum(clock.foretell(r, e) for r, e in todo)
    shape = f"{(clock.a + clock.b * RATIOS['quality']) * 1e6:.1f} µs per transition at ratio 0.25"
    guess = "measured" if clock.known else "a guess"
    console.print(
        f"{features}: {shape}; with {clock.length:.0f} transitions per episode ({guess}) 10,000 episodes at 0.25 "
        f"take about {worst / 60:.1f} min, and all {len(todo)} runs {total / 60:.1f} min (and 6 s each to start)",
        highlight=False,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda", "auto"])
    parser.add_argument("--features", default="flood", choices=list(GUESSED_LENGTH))
    parser.add_argument("--episodes", type=int, nargs="+", default=[5_000, 10_000])
    parser.add_argument("--ratios", nargs="+", choices=list(RATIOS), default=list(RATIOS))
    parser.add_argument("--probe", type=float, default=5.0, help="seconds of each of the two probes")
    parser.add_argument("--resume", action="store_true", help="keep the runs that are in the JSON")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    device, console = choose_device(arguments.device), Console(width=130)
    features, name = arguments.features, f"seed-runs-{machine(device)}"
    name += "" if features == "flood" else f"-{features}"
    path = arguments.json or HERE / "results" / f"{name}.json"
    picture = arguments.picture or HERE.parent / "docs" / "images" / f"{name}.png"
    results = [r for r in earlier(path) if r["features"] == features] if arguments.resume else []
    done = {(r["ratio"], r["episodes_asked"]) for r in results}
    todo = [(r, e) for e in arguments.episodes for r in arguments.ratios if (r, e) not in done]
    title = f"Snake 10x10, {features}, DQN, MLP 2x128, batch 64, 256 boards, {machine(device).upper()}"
    failed: list[dict[str, Any]] = []
    clock = None
    try:
        clock = Clock(features, device.type, arguments.probe) if todo else None
    except SystemExit as error:  # how train_apart says that a training failed
        console.print(
            f"No estimate, because the probe failed: {last_line(error)}", highlight=False, markup=False
        )
    if clock:
        for result in results[-1:]:
            clock.learn(result)
        foresee(clock, todo, features, console)
    for number, (ratio, episodes) in enumerate(todo):
        about = f", about {clock.foretell(ratio, episodes):.0f} s" if clock else ""
        console.print(
            f"run {number + 1} of {len(todo)}: {episodes:,} episodes, {ratio}{about}", highlight=False
        )
        begun = time.perf_counter()
        try:
            result = train(features, ratio, episodes, device.type, console)
        except (SystemExit, Exception) as error:
            failed.append({"ratio": ratio, "episodes_asked": episodes, "reason": last_line(error)})
            console.print(f"    failed: {last_line(error)}", highlight=False, markup=False)
            continue
        result |= {"process_seconds": round(time.perf_counter() - begun, 1), "context": context(device.type)}
        results = sorted([*results, result], key=key)
        if clock:
            clock.learn(result)
        score = "no score" if result["score"] is None else f"score {result['score']:.1f}"
        console.print(
            f"    {result['seconds']:.1f} s, {result['transitions']:,} transitions, {score}", highlight=False
        )
        write_json(path, {"title": title, "settings": THEIRS, "runs": results, "failed": failed})
    console.print(table(results, title))
    draw(results, title, picture)
    console.print(f"{path}, {picture}", highlight=False)


def last_line(error: BaseException) -> str:
    """What went wrong, without the traceback."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1]


if __name__ == "__main__":
    main()
