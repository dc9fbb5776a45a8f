"""Do demonstrations help to place fuel breaks? Equal time for all, what the demonstrations cost included.

    python benchmarks/fuelbreaks_demos.py --workers 15                  # all arms, five seeds
    python benchmarks/fuelbreaks_demos.py --arms none dpv --seeds 0 1 --work 20000 --workers 2
    python benchmarks/fuelbreaks_demos.py --summary                     # the table of what is there

Every training is `fuelbreaks-planner` on one core, eager, on 128 landscapes, and ends when it has used the time of
`--work` transitions: for its start, its demonstrations (an expert's episodes, and gradient steps on them) and its
training together. Seconds of the processor are turned into transitions by the training's own speed right after
them. So another program on the machine, which may halve that speed, takes nothing away from any training.
Agents are judged as in fuelbreaks.py: 128 landscapes of 20x20 cells that no training saw, 200 fires each that no
policy knows. One file for each training in `--out`; the same command continues where an earlier one stopped.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import flashdqn
from flashdqn.compute.threads import limit_threads
from flashdqn.envs.fuelbreaks import FuelBreaksConfig
from flashdqn.runs.records import DEMOS_FILE
from fuelbreaks import measure, stage

RESULTS = Path(__file__).parent / "results"
SHOW = {"demos.episodes": 64, "demos.chance": 0.1, "demos.pretrain_steps": 300}
#: What all arms change in the preset: a start of seconds, reports as often as time is looked at.
COMMON = {
    "runtime.mode": "eager",
    "runtime.threads": 1,
    "log.every": 500,
    "eval.every": 0,
    "eval.episodes": 1,
    "env.landscapes": 128,
}
#: What each arm changes besides.
ARMS: dict[str, dict[str, Any]] = {
    "none": {},
    "none, without scouts": {"env.scouts": 0},
    **{
        source: {"demos.source": source, **SHOW} for source in ("domirank", "betweenness", "dpv", "lookahead")
    },
}
LANDSCAPE_SEED, LANDSCAPES, FIRES = 77, 128, 200
BEGIN, END = "<!-- demonstrations: begin -->", "<!-- demonstrations: end -->"
T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}  # Student's t, two-sided, by number of seeds


class WorkLimit:
    """Ends a training when it has used the time of `work` transitions, its start and demonstrations included."""

    #: All arms learn from here on, and the speed over so many transitions tells what came before in transitions.
    FROM, OVER = 3000, 4000

    def __init__(self, work: float) -> None:
        self.work, self.before = work, 0.0
        self._began = time.process_time()
        self._mark: tuple[int, float] | None = None

    def is_over(self, event: flashdqn.ReportEvent) -> bool:
        """Whether the training has had its time; called at every report."""
        now = time.process_time()
        if self._mark is None:
            self._mark = (event.step, now) if event.step >= self.FROM else None
            return False
        steps, seconds = event.step - self._mark[0], now - self._mark[1]
        if not self.before and steps >= self.OVER:
            self.before = (self._mark[1] - self._began) * steps / seconds - self._mark[0]
        return self.before != 0 and self.before + event.step >= self.work


def train_and_judge(arm: str, seed: int, work: float, out: str) -> dict[str, Any]:
    """One training on one core in a process of its own, and what burns with its agent's breaks."""
    limit = WorkLimit(work)
    with limit_threads(1, 1), tempfile.TemporaryDirectory() as folder:
        run = flashdqn.train(
            "fuelbreaks-planner",
            seed=seed,
            device="cpu",
            out=folder,
            steps=10**9,
            progress=False,
            on_report=limit.is_over,
            **(COMMON | ARMS[arm]),
        )
        agent = flashdqn.load(run.path, "cpu")
        config = FuelBreaksConfig(
            size=20,
            scouts=agent.config.env.scouts,
            landscape_seed=LANDSCAPE_SEED,
            landscapes=1,
            held_out=LANDSCAPES,
        )
        env, scene, ignition = stage(config, FIRES, LANDSCAPES)
        burned, _ = measure("agent", env, scene, ignition, agent, argparse.Namespace(look=0))
        summary = json.loads((run.path / "summary.json").read_text(encoding="utf-8"))
        shown = read_demonstration_seconds(run.path)
    row = {"arm": arm, "seed": seed, "work": work, "before": limit.before, "demonstration_seconds": shown}
    row |= {key: summary[key] for key in ("steps", "updates", "train_ratio")}
    row["burned"] = {f"{share:g}": values for share, values in burned.items()}
    Path(out).write_text(json.dumps(row), encoding="utf-8")
    return row


def read_demonstration_seconds(run: Path) -> float:
    """Seconds of playing demonstrations and learning from them; 0 without any."""
    if not (run / DEMOS_FILE).exists():
        return 0.0
    shown = json.loads((run / DEMOS_FILE).read_text(encoding="utf-8"))
    return float(shown["seconds"] + shown["pretrain_seconds"])


def run_all(asked: argparse.Namespace) -> None:
    asked.out.mkdir(parents=True, exist_ok=True)
    wanted = [(arm, seed) for seed in asked.seeds for arm in asked.arms]
    left = [(arm, seed) for arm, seed in wanted if not name_file(asked.out, arm, seed).exists()][
        : asked.at_most
    ]
    with ProcessPoolExecutor(
        asked.workers, multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        jobs = [
            pool.submit(train_and_judge, arm, seed, asked.work, str(name_file(asked.out, arm, seed)))
            for arm, seed in left
        ]
        for job in as_completed(jobs):
            row = job.result()
            mean = {share: 100 * sum(values) / len(values) for share, values in row["burned"].items()}
            shown = ", ".join(f"{float(share):.0%} {value:.2f}" for share, value in mean.items())
            print(f"{row['arm']} {row['seed']}: {row['steps']:,} transitions, burned at {shown}", flush=True)


def name_file(out: Path, arm: str, seed: int) -> Path:
    return out / f"{arm.replace(', ', '-').replace(' ', '-')}-{seed}.json"


def summarize(out: Path) -> dict[str, Any]:
    """Mean burned share in percent by arm and budget, and the difference to no demonstrations paired by seed."""
    rows = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(out.glob("*.json"))]
    burned = {
        (row["arm"], row["seed"], share): 100 * sum(values) / len(values)
        for row in rows
        for share, values in row["burned"].items()
    }
    found: dict[str, Any] = {}
    for arm in ARMS:
        some = [row for row in rows if row["arm"] == arm]
        if not some:
            continue
        seeds = sorted(row["seed"] for row in some)
        shares = list(some[0]["burned"])
        found[arm] = {
            "seeds": seeds,
            "transitions": sum(row["steps"] for row in some) / len(some),
            "before": sum(row["before"] for row in some) / len(some),
            "demonstration_seconds": sum(row["demonstration_seconds"] for row in some) / len(some),
            "burned": {
                share: mean_and_interval([burned[arm, seed, share] for seed in seeds]) for share in shares
            },
            "against_none": {share: compare_with_none(burned, arm, seeds, share) for share in shares},
        }
    return found


def compare_with_none(
    burned: dict[tuple[str, int, str], float], arm: str, seeds: list[int], share: str
) -> tuple[float, float]:
    """How much more burns than without demonstrations, over the seeds that both have."""
    both = [seed for seed in seeds if ("none", seed, share) in burned]
    return mean_and_interval([burned[arm, seed, share] - burned["none", seed, share] for seed in both])


def mean_and_interval(values: list[float]) -> tuple[float, float]:
    """Mean and half the width of its 95 % interval over seeds, by Student's t."""
    count = len(values)
    mean = sum(values) / max(count, 1)
    if count < 2:
        return mean, float("nan")
    deviation = (sum((value - mean) ** 2 for value in values) / (count - 1)) ** 0.5
    return mean, T_95[count] * deviation / count**0.5


def make_table(found: dict[str, Any]) -> str:
    """What burns with the agents of each arm, and what burns more than without demonstrations."""
    shares = list(next(iter(found.values()))["burned"])
    heads = " | ".join(f"{float(share):.0%}" for share in shares)
    lines = [f"| demonstrations by | {heads} | transitions | demonstrations, s |"]
    lines.append("|---" * (len(shares) + 3) + "|")
    for arm, row in found.items():
        cells = " | ".join("{:.2f} ± {:.2f}".format(*row["burned"][share]) for share in shares)
        lines.append(f"| {arm} | {cells} | {row['transitions']:,.0f} | {row['demonstration_seconds']:.0f} |")
    lines += ["", f"| burns more than without | {heads} |", "|---" * (len(shares) + 1) + "|"]
    for arm, row in found.items():
        if arm != "none":
            cells = " | ".join("{:+.2f} ± {:.2f}".format(*row["against_none"][share]) for share in shares)
            lines.append(f"| {arm} | {cells} |")
    return "\n".join(lines)


def write_table(found: dict[str, Any], page: Path) -> None:
    """Put the tables into a page, between their marks."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{make_table(found)}\n{END}{after}", encoding="utf-8")


def list_trainings(out: Path) -> list[dict[str, Any]]:
    """Every training, with the mean burned percent over the landscapes."""
    rows = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(out.glob("*.json"))]
    return [
        row | {"burned": {share: 100 * sum(some) / len(some) for share, some in row["burned"].items()}}
        for row in rows
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--work", type=float, default=30_000, help="transitions, for all of a training")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--at-most", type=int, help="trainings in this call")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/fuelbreaks-demos"), help="a file for each training"
    )
    parser.add_argument("--write", type=Path, help="put the tables into this page: docs/fuelbreaks.md")
    parser.add_argument(
        "--summary", action="store_true", help="only the table, written to fuelbreaks-demos.json"
    )
    asked = parser.parse_args()
    start = time.perf_counter()
    if not asked.summary:
        run_all(asked)
        print(f"{time.perf_counter() - start:.0f} s")
    from measure import context, write_json

    found = summarize(asked.out)
    print(make_table(found))
    if asked.write:
        write_table(found, asked.write)
    about = {"landscapes": LANDSCAPES, "landscape_seed": LANDSCAPE_SEED, "fires": FIRES, "demos": ARMS}
    data = context("cpu") | {"about": about, "arms": found, "trainings": list_trainings(asked.out)}
    write_json(RESULTS / "fuelbreaks-demos.json", data)


if __name__ == "__main__":
    main()
