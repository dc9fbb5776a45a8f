"""Does a transition cost the same at the end of a run as at its start, and does memory stay flat?

    python benchmarks/flatness.py [--preset snake-flood] [--episodes 5000] [--repeats 3] [--json FILE]

Trains for a number of episodes, in a process of its own for each repeat, and compares tenths of the run by
transitions: episodes grow longer as the agent learns, so time per episode would say nothing.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from measure import context, read_csv, train_apart, write_json


def train(preset: str, episodes: int, every: int, device: str) -> list[dict[str, float]]:
    """The reports of one training."""
    settings = {"episodes": episodes, "device": device, "log.every": every, "eval.every": 0}
    with tempfile.TemporaryDirectory() as out:
        return read_csv(train_apart(preset, settings, out) / "metrics.csv")


def tenth(rows: list[dict[str, float]], number: int) -> list[dict[str, float]]:
    first, last = rows[0]["step"], rows[-1]["step"]
    width = (last - first) / 10
    low = first + number * width
    return [row for row in rows if low <= row["step"] <= low + width] or [rows[-1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--preset", default="snake-flood")
    parser.add_argument("--episodes", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--every", type=int, default=1280, help="transitions per window")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    ratios, growths, tables = [], [], []
    for _ in range(arguments.repeats):
        rows = train(arguments.preset, arguments.episodes, arguments.every, arguments.device)
        table = []
        for number in range(10):
            part = tenth(rows, number)
            table.append(
                {
                    "us_per_transition": statistics.median(row["us_total"] for row in part),
                    "memory_mb": statistics.median(row["memory_mb"] for row in part),
                    "length": statistics.fmean(
                        row["length"] for row in part if row["length"] == row["length"]
                    ),
                }
            )
        tables.append(table)
        ratios.append(table[-1]["us_per_transition"] / table[0]["us_per_transition"])
        growths.append(table[-1]["memory_mb"] / table[0]["memory_mb"])
    print(
        f"{arguments.preset}, {arguments.episodes:,} episodes, {arguments.repeats} repeats, {arguments.device}"
    )
    print("tenth  µs/transition  memory MB  episode length   (medians over repeats)")
    for number in range(10):
        cells = [
            statistics.median(table[number][name] for table in tables)
            for name in ("us_per_transition", "memory_mb", "length")
        ]
        print(f"{number + 1:>5}  {cells[0]:>13.2f}  {cells[1]:>9.1f}  {cells[2]:>14.1f}")
    print(
        f"last tenth / first: time {statistics.median(ratios):.3f} ({', '.join(f'{r:.3f}' for r in ratios)})"
    )
    print(f"                    memory {statistics.median(growths):.3f}")
    if arguments.json:
        write_json(
            arguments.json, {**context(arguments.device), "time": ratios, "memory": growths, "tenths": tables}
        )


if __name__ == "__main__":
    main()
