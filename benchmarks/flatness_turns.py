"""Is a run as fast at its end as at its start? Start and end are measured in turns, so changes of the machine's
speed affect both.

    python benchmarks/flatness_turns.py [--episodes 50000] [--rounds 8] [--threads 1]

A run of minutes cannot be compared with itself on a machine whose speed changes by 10 % from minute to minute
(flatness.py shows that). So one run is trained until 1000 episodes before its end. Then, in every round, a new run
plays its first episodes, and the first one is resumed for its last 1000, each in its own process. They take turns
at coming first. Two questions, by the medians over the rounds:

  (a) are a run's first five windows as fast as the windows of its end, within 5 %?
  (c) are its last 1000 episodes as fast per transition as its first 1000, within 5 %?
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import flatness
from flashdqn.config.presets import base_config
from flashdqn.runs.columns import PHASE_PREFIX
from flashdqn.runs.tables import read_metrics
from flatness import (
    EDGE_EPISODES,
    FIRST,
    SPEED,
    Rows,
    answer,
    cost,
    largest,
    medians,
    starts,
    window_length,
    windows,
)
from measure import context, describe_work, resume_apart, train_apart, write_json

HERE = Path(__file__).parent


def train(arguments: argparse.Namespace, every: int, out: Path, **settings: Any) -> Path:
    """The folder of a run in its own process."""
    given = flatness.COMMON | {"device": arguments.device, "log.every": every, "seed": arguments.seed}
    return train_apart(arguments.preset, given | settings, str(out))


def first_part(arguments: argparse.Namespace, every: int, out: Path) -> tuple[Rows, Rows]:
    """The first five windows of a run, and the windows of its first 1000 episodes."""
    run = train(arguments, every, out, steps=(FIRST + 1) * every)
    rows = windows(run, starts(arguments.preset))
    begun = [0.0, *(row["episodes"] for row in rows)]
    return rows[:FIRST], [row for row, before in zip(rows, begun, strict=False) if before < EDGE_EPISODES]


def last_part(kept: Path, episodes: int, out: Path) -> Rows:
    """The windows of its last 1000 episodes."""
    run = Path(shutil.copytree(kept, out / "resumed"))
    since = read_metrics(run)[-1].step
    resume_apart(run, {"episodes": episodes})
    return windows(run, since)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--preset", default="snake-flood")
    parser.add_argument("--episodes", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--every", type=int, default=0, help="transitions per window; 0: by a probe")
    parser.add_argument("--window", type=float, default=0.75, help="seconds that a window should last")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json", type=Path, default=HERE / "results" / "flatness_turns.json")
    arguments = parser.parse_args()
    flatness.COMMON["runtime.threads"] = arguments.threads
    console = Console(width=110)
    every = arguments.every or window_length(arguments.preset, arguments.device, arguments.window)
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        kept = train(arguments, every, Path(folder), episodes=arguments.episodes - EDGE_EPISODES)
        console.print(f"trained until {EDGE_EPISODES:,} episodes before its end", highlight=False)
        for number in range(arguments.rounds):
            rounds.append(one_round(arguments, every, kept, last_first=bool(number % 2)))
            shown = f"{rounds[-1]['first']:.2f} and {rounds[-1]['last']:.2f} µs per transition"
            console.print(f"round {number + 1} of {arguments.rounds}: {shown}", highlight=False)
    report(arguments, every, rounds, console)


def one_round(arguments: argparse.Namespace, every: int, kept: Path, *, last_first: bool) -> dict[str, Any]:
    """Measure start and end, one after the other."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for part in ("last", "first") if last_first else ("first", "last"):
            if part == "first":
                found["starts"], found["first_rows"] = first_part(arguments, every, Path(folder))
            else:
                found["last_rows"] = last_part(kept, arguments.episodes, Path(folder))
    usual = statistics.median(row["steps_per_second"] for row in found["last_rows"])
    return {
        "first": cost(found["first_rows"]),
        "last": cost(found["last_rows"]),
        "transitions": [sum(row["transitions"] for row in found[key]) for key in ("first_rows", "last_rows")],
        "windows": [row["steps_per_second"] / usual - 1 for row in found["starts"]],
        "phases": [phases(found["starts"]), phases(found["last_rows"])],
    }


def phases(rows: Rows) -> dict[str, float]:
    """Microseconds per transition by phase: medians over windows."""
    names = [name for name in rows[0] if name.startswith(PHASE_PREFIX) and any(row[name] for row in rows)]
    return {name: statistics.median(row[name] for row in rows) for name in names}


def phase_table(rounds: list[dict[str, Any]]) -> Table:
    grid = Table("µs per transition", title="where the time goes (medians over rounds)")
    for name in (f"first {FIRST} windows", "the end", "difference"):
        grid.add_column(name, justify="right")
    for name in rounds[0]["phases"][0]:
        first, last = (statistics.median(one["phases"][k].get(name, 0.0) for one in rounds) for k in (0, 1))
        grid.add_row(name.removeprefix(PHASE_PREFIX), f"{first:.2f}", f"{last:.2f}", f"{last - first:+.2f}")
    return grid


def report(arguments: argparse.Namespace, every: int, rounds: list[dict[str, Any]], console: Console) -> None:
    """The answers, in words and as JSON."""
    off = medians([one["windows"] for one in rounds])
    changes = [one["last"] / one["first"] - 1 for one in rounds]
    change = statistics.median(changes)
    first, last = (statistics.median(one[key] for one in rounds) for key in ("first", "last"))
    yes = {"a": abs(largest(off)) <= SPEED, "c": abs(change) <= SPEED}
    config = base_config(arguments.preset)
    console.print(
        f"{arguments.preset}: {describe_work(config.train_ratio, config.update_size)}", highlight=False
    )
    console.print(phase_table(rounds))
    said = (
        f"(a) {answer(yes['a'])}: the first {FIRST} windows, of {every:,} transitions, differ from those of the "
        f"end by {', '.join(f'{value:+.1%}' for value in off)}",
        f"(c) {answer(yes['c'])}: {first:.2f} µs per transition in the first {EDGE_EPISODES:,} episodes "
        f"({rounds[0]['transitions'][0]:,.0f} transitions), {last:.2f} in the last of {arguments.episodes:,} "
        f"({rounds[0]['transitions'][1]:,.0f}): {change:+.1%} "
        f"({', '.join(f'{value:+.1%}' for value in changes)})",
    )
    for line in said:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    head = {**context(arguments.device), "command": sys.argv[1:]}
    write_json(arguments.json, {**head, "answers": yes, "said": said, "rounds": rounds})


if __name__ == "__main__":
    main()
