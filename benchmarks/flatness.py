"""Does a transition cost the same at the end of a run as at its start, and does memory stay flat?

    python benchmarks/flatness.py                                # 50,000 episodes, 3 repeats
    python benchmarks/flatness.py --episodes 30000 --threads 1
    python benchmarks/flatness.py --preset snake --device cuda --every 400000

Trains for a number of episodes, each repeat in its own process, all with the same seed. So the repeats do the
same work, window by window, and only the machine differs. Windows are counted in transitions, as many as take
about `--window` seconds by a probe. Three questions, each answered with yes or no:

  (a) are the first five windows as fast as the median of the rest, within 5 %?
  (b) is memory after 10,000 episodes the same as after 100, within 1 %? By a separate run with short windows, which
      learns from its 512th transition on: otherwise 100 episodes would be over before the first report.
  (c) are the last 1000 episodes as fast per transition as the first 1000, within 5 %? By the windows that
      contain them.

Whole runs show the machine, too: its speed changes by 10 % over minutes, and where two threads work, more. So a
fixed piece of work is measured before every window, outside its time (machine_speed.py), and (a) and (c) are
answered a second time with every window divided by it. The first answers stand as they are.

The clock of the first window starts after the warm-up and after the replay was filled. It ends where the others
end, at a multiple of their length: it may be shorter. Before the answers, a table shows where the time went, by
phase.

Episodes per second fall as episodes grow longer, and say nothing about speed: the right unit is time per
transition.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from flashdqn.config.presets import base_config
from flashdqn.runs.columns import PHASE_PREFIX
from flashdqn.runs.rows import row_to_cells
from flashdqn.runs.tables import read_metrics
from measure import context, describe_work, read_rates, train_apart, write_json

HERE = Path(__file__).parent
FIRST = 5  # windows
SPEED, MEMORY = 0.05, 0.01  # what counts as equal
MEMORY_EPISODES = 100, 10_000
EDGE_EPISODES = 1000
Rows = list[dict[str, float]]
COMMON: dict[str, Any] = {"eval.every": 0, "log.checkpoint_every": 0}


def train(preset: str, device: str, settings: dict[str, Any], reference: float = 0.0) -> Rows:
    """The reports of one training, with the transitions of each window; with the machine's speed, if it is to be
    measured for `reference` seconds before each."""
    settings = COMMON | {"device": device} | settings
    with tempfile.TemporaryDirectory() as out:
        before, times = "", Path(out) / "machine.json"
        if reference:
            given = preset, device, settings["runtime.threads"], reference, str(times)
            before = f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
            before += f"import machine_speed; machine_speed.watch_windows(*{given!r})"
        run = train_apart(preset, settings, out, before)
        rows, rates = windows(run, starts(preset)), read_rates(run)
        if reference:
            speeds = json.loads(times.read_text(encoding="utf-8"))
            for row, one, other in zip(rows, speeds, speeds[1:], strict=False):
                row["reference_us"] = (one + other) / 2
    for row in rows:
        row["wall_steps_per_second"] = rates["wall_steps_per_second"]
        row["episodes_per_second"] = row["steps_per_second"] / row["length"]
    return rows


def windows(run: Path, since: float) -> Rows:
    """The reports after so many transitions, with the transitions and the seconds of each window."""
    rows, before = [row_to_cells(row) for row in read_metrics(run) if row.step > since], since
    for row in rows:
        row["transitions"], before = row["step"] - before, row["step"]
        row["window_seconds"] = row["transitions"] * row["us_total"] / 1e6
    return rows


def starts(preset: str) -> int:
    """Transitions that fill the replay before the clock starts."""
    config = base_config(preset)
    return max(config.learn.starts, (config.replay.n_step + 1) * config.envs)


def window_length(preset: str, device: str, seconds: float) -> int:
    """Transitions that take `seconds`: a multiple of those that learning starts from, so the first window, which
    begins there, is complete or nearly."""
    rows = train(preset, device, {"steps": 60_000, "log.every": 10_000})
    rate, unit = statistics.median(row["steps_per_second"] for row in rows), starts(preset)
    return max(1, round(rate * seconds / unit)) * unit


def whole(rows: Rows, every: int) -> Rows:
    """Without a last window that is much too short."""
    return rows[:-1] if len(rows) > 1 and rows[-1]["transitions"] < every / 2 else rows


def deviations(rows: Rows) -> list[float]:
    """Deviation of each window's throughput from the median of those after the first five."""
    rates = [row["steps_per_second"] for row in rows]
    usual = statistics.median(rates[FIRST:] or rates)
    return [rate / usual - 1 for rate in rates]


def medians(runs: list[list[float]]) -> list[float]:
    """Medians over the repeats, position by position."""
    return [statistics.median(values) for values in zip(*runs, strict=False)]


def largest(values: list[float]) -> float:
    """The value farthest from 0, with its sign."""
    return max(values, key=abs, default=float("nan"))


def tenth(rows: Rows, number: int) -> Rows:
    first, last = rows[0]["step"], rows[-1]["step"]
    width = (last - first) / 10
    low = first + number * width
    return [row for row in rows if low <= row["step"] <= low + width] or [rows[-1]]


def tenths(rows: Rows) -> list[dict[str, float]]:
    """Ten equal parts of a run."""
    table = []
    for number in range(10):
        part = tenth(rows, number)
        lengths = [row["length"] for row in part if row["length"] == row["length"]]
        table.append(
            {
                "us_per_transition": statistics.median(row["us_total"] for row in part),
                "memory_mb": statistics.median(row["memory_mb"] for row in part),
                "length": statistics.fmean(lengths) if lengths else float("nan"),
            }
        )
    return table


def edges(rows: Rows) -> tuple[Rows, Rows]:
    """The windows of the first thousand episodes, and of the last."""
    before = [0.0, *(row["episodes"] for row in rows)]
    total = rows[-1]["episodes"]
    first = [row for row, begun in zip(rows, before, strict=False) if begun < EDGE_EPISODES]
    last = [row for row in rows if row["episodes"] > total - EDGE_EPISODES]
    return first, last


def cost(rows: Rows) -> float:
    """Microseconds per transition over windows."""
    return sum(row["window_seconds"] for row in rows) / sum(row["transitions"] for row in rows) * 1e6


def memory_growth(preset: str, device: str) -> dict[str, float]:
    """Question (b), by a separate run."""
    early, late = MEMORY_EPISODES
    rows = train(preset, device, {"episodes": late, "log.every": 1280, "learn.starts": 0})
    first = next(row for row in rows if row["episodes"] >= early)
    return {
        "episodes_first": first["episodes"],
        "episodes_last": rows[-1]["episodes"],
        "mb_first": first["memory_mb"],
        "mb_last": rows[-1]["memory_mb"],
        "growth": rows[-1]["memory_mb"] / first["memory_mb"] - 1,
        "mb_most": max(row["memory_mb"] for row in rows),
    }


def phase_table(runs: list[Rows]) -> tuple[Table, dict[str, list[float]]]:
    """Microseconds per transition by phase: in the first five windows, and in the rest."""
    names = [n for n in runs[0][0] if n.startswith(PHASE_PREFIX) and any(row[n] for row in runs[0])]
    grid = Table("µs per transition", title="where the time goes (medians over windows and repeats)")
    for name in (f"first {FIRST} windows", "the rest", "difference", "of all"):
        grid.add_column(name, justify="right")
    found: dict[str, list[float]] = {}
    whole_cost = statistics.median(row["us_total"] for run in runs for row in run[FIRST:] or run)
    for name in names:
        first = statistics.median(row[name] for run in runs for row in run[:FIRST])
        rest = statistics.median(row[name] for run in runs for row in run[FIRST:] or run)
        found[name] = [first, rest]
        cells = f"{first:.2f}", f"{rest:.2f}", f"{first - rest:+.2f}", f"{(first - rest) / whole_cost:+.1%}"
        grid.add_row(name.removeprefix(PHASE_PREFIX), *cells)
    return grid, found


def draw(runs: list[Rows], title: str, path: Path) -> None:
    """Throughput and memory; also episodes per second, which fall, and their length, which is the reason."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    panels = ((left, "steps_per_second", "memory_mb"), (right, "episodes_per_second", "length"))
    names = {
        "steps_per_second": "transitions per second",
        "memory_mb": "memory, MB",
        "episodes_per_second": "episodes per second",
        "length": "transitions per episode",
    }
    colors = "#d95f02", "#4a5a70"
    for panel, *both in panels:
        for axes, name, color in zip((panel, panel.twinx()), both, colors, strict=True):
            for run in runs:
                steps, values = [row["step"] / 1e6 for row in run], [row[name] for row in run]
                axes.plot(steps, values, color=color, lw=0.7, alpha=0.35)
            middle = medians([[row[name] for row in run] for run in runs])
            axes.plot([row["step"] / 1e6 for row in runs[0]][: len(middle)], middle, color=color, lw=1.8)
            axes.set_ylim(0, 1.25 * max(row[name] for run in runs for row in run if row[name] == row[name]))
            axes.set_ylabel(names[name], color=color)
            axes.tick_params(axis="y", colors=color)
            axes.spines["top"].set_visible(False)
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        panel.set_xlabel("million transitions")
        panel.grid(alpha=0.25)
    left.set_title("throughput and memory", fontsize=10, loc="left")
    right.set_title("fewer episodes end as they grow longer", fontsize=10, loc="left")
    figure.suptitle(title, fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def repeat(arguments: argparse.Namespace, every: int, console: Console) -> list[Rows]:
    """All trainings that worked."""
    runs: list[Rows] = []
    for number in range(arguments.repeats):
        try:
            settings = {"episodes": arguments.episodes, "log.every": every, "seed": arguments.seed}
            rows = whole(train(arguments.preset, arguments.device, settings, arguments.reference), every)
        except (SystemExit, Exception) as error:  # SystemExit is how train_apart says that a training failed
            line = (str(error).strip() or type(error).__name__).splitlines()[-1]
            console.print(f"repeat {number + 1} failed: {line}", highlight=False, markup=False)
            continue
        runs.append(rows)
        work = f"{len(rows)} windows of {every:,} transitions"
        took = sum(row["window_seconds"] for row in rows)
        usual = statistics.median(row["steps_per_second"] for row in rows)
        rates = f"{usual:,.0f} steps/s, {rows[-1]['wall_steps_per_second']:,.0f} since its start"
        console.print(
            f"repeat {number + 1} of {arguments.repeats}: {work}, {took:.1f} s, {rates}", highlight=False
        )
    return runs


def tenth_table(tables: list[list[dict[str, float]]], title: str) -> Table:
    grid = Table(title=title, caption="tenths of the run, medians over repeats")
    for name in ("tenth", "µs/transition", "memory MB", "episode length"):
        grid.add_column(name, justify="right")
    for number in range(10):
        cells = [statistics.median(table[number][name] for table in tables) for name in tables[0][0]]
        grid.add_row(str(number + 1), f"{cells[0]:.2f}", f"{cells[1]:.1f}", f"{cells[2]:.1f}")
    return grid


def divide_machine_out(rows: Rows) -> Rows:
    """The windows as they would have been if the machine had always been as fast as in its median."""
    rows = [row for row in rows if "reference_us" in row]
    usual = statistics.median(row["reference_us"] for row in rows)
    divided = []
    for row in rows:
        slower = row["reference_us"] / usual
        times = {name: row[name] / slower for name in ("us_total", "window_seconds")}
        divided.append(row | times | {"steps_per_second": row["steps_per_second"] * slower})
    return divided


def first_windows(runs: list[Rows]) -> dict[str, Any]:
    """Question (a)."""
    off = medians([deviations(rows) for rows in runs])
    seconds = statistics.median(row["window_seconds"] for rows in runs for row in rows)
    enough = len(off) > 2 * FIRST
    yes = abs(largest(off[:FIRST])) <= SPEED if enough else None
    each = ", ".join(f"{value:+.1%}" for value in off[:FIRST])
    said = (
        f"(a) {answer(yes)}: the first {FIRST} of {len(off)} windows, of {seconds:.2f} s, differ from the median "
        f"of the rest by {each}; the largest of those is {largest(off[:FIRST]):+.1%}, of all {largest(off):+.1%}"
    )
    return {"yes": yes, "said": said, "deviations": off, "window_seconds": seconds}


def memory_answer(preset: str, device: str) -> dict[str, Any]:
    """Question (b)."""
    try:
        found = memory_growth(preset, device)
    except (SystemExit, Exception) as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[-1]
        return {"yes": None, "said": f"(b) no answer, because the run failed: {line}"}
    yes = abs(found["growth"]) <= MEMORY
    said = (
        f"(b) {answer(yes)}: {found['mb_first']:.1f} MB after {found['episodes_first']:,.0f} episodes, "
        f"{found['mb_last']:.1f} MB after {found['episodes_last']:,.0f}: {found['growth']:+.2%}"
    )
    return {"yes": yes, "said": said} | found


def edge_answer(runs: list[Rows]) -> dict[str, Any]:
    """Question (c)."""
    parts = [edges(rows) for rows in runs]
    changes = [cost(last) / cost(first) - 1 for first, last in parts]
    change = statistics.median(changes)
    seconds = [
        statistics.median(sum(row["window_seconds"] for row in part[k]) for part in parts) for k in (0, 1)
    ]
    costs = [statistics.median(cost(part[k]) for part in parts) for k in (0, 1)]
    yes = abs(change) <= SPEED
    each = ", ".join(f"{value:+.1%}" for value in changes)
    said = (
        f"(c) {answer(yes)}: {costs[0]:.2f} µs per transition in the first {EDGE_EPISODES:,} episodes "
        f"({seconds[0]:.1f} s), {costs[1]:.2f} in the last of {runs[0][-1]['episodes']:,.0f} ({seconds[1]:.1f} s): "
        f"{change:+.1%} ({each})"
    )
    return {"yes": yes, "said": said, "changes": changes, "us_per_transition": costs, "seconds": seconds}


def answer_without_machine(divided: list[Rows]) -> dict[str, dict[str, Any]]:
    """Questions (a) and (c) again, after a line that says how much the machine itself has changed."""
    drifts = []
    for rows in divided:
        times = [row["reference_us"] for row in rows]
        drifts.append(max(times) / min(times) - 1)
    said = (
        f"the fixed work between the windows took up to {', '.join(f'{drift:.0%}' for drift in drifts)} longer "
        "than at its fastest; with every window divided by it:"
    )
    machine = {"yes": None, "said": said, "drifts": drifts}
    return {"machine": machine, "a divided": first_windows(divided), "c divided": edge_answer(divided)}


def answer(value: bool | None) -> str:
    return "too few windows to say" if value is None else "yes" if value else "NO"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--preset", default="snake-flood")
    parser.add_argument("--episodes", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--every", type=int, default=0, help="transitions per window; 0: by a probe")
    parser.add_argument("--window", type=float, default=0.75, help="seconds that a window should last")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0, help="with one thread, other programs disturb less")
    parser.add_argument(
        "--reference", type=float, default=0.1, help="seconds of fixed work before every window; 0: none"
    )
    parser.add_argument("--json", type=Path, default=HERE / "results" / "flatness.json")
    parser.add_argument("--picture", type=Path, default=HERE.parent / "docs" / "images" / "flatness.png")
    arguments = parser.parse_args()
    COMMON["runtime.threads"] = arguments.threads
    console, device, preset = Console(width=110), arguments.device, arguments.preset
    every = arguments.every or window_length(preset, device, arguments.window)
    runs = repeat(arguments, every, console)
    if not runs:
        sys.exit("No training worked.")
    title = f"{preset}, {arguments.episodes:,} episodes, {len(runs)} repeats, {device}"
    title += f", threads: {arguments.threads}" if arguments.threads else ""
    config = base_config(preset)
    title += f", {describe_work(runs[0][-1]['ratio'], config.update_size)}"
    tables = [tenths(rows) for rows in runs]
    times = [table[-1]["us_per_transition"] / table[0]["us_per_transition"] for table in tables]
    growths = [table[-1]["memory_mb"] / table[0]["memory_mb"] for table in tables]
    phases, where = phase_table(runs)
    answers = {"a": first_windows(runs), "b": memory_answer(preset, device), "c": edge_answer(runs)}
    if arguments.reference:
        answers |= answer_without_machine([divide_machine_out(rows) for rows in runs])
    console.print(tenth_table(tables, title))
    console.print(phases)
    each = ", ".join(f"{ratio:.3f}" for ratio in times)
    medians_ = statistics.median(times), statistics.median(growths)
    console.print(
        f"last tenth / first: time {medians_[0]:.3f} ({each}), memory {medians_[1]:.3f}", highlight=False
    )
    for found in answers.values():
        console.print(found["said"], highlight=False, markup=False, soft_wrap=True)
    kept = (
        "step",
        "episodes",
        "transitions",
        "steps_per_second",
        "wall_steps_per_second",
        "us_total",
        "us_sample",
        "memory_mb",
        "length",
        *(("reference_us",) if arguments.reference else ()),
    )
    data = {
        **context(device),
        "command": sys.argv[1:],
        "title": title,
        "every": every,
        "answers": answers,
        "time": times,
        "memory": growths,
        "phases_first_and_rest": where,
        "tenths": tables,
        "windows": [[{name: row.get(name) for name in kept} for row in rows] for rows in runs],
    }
    write_json(arguments.json, data)
    draw(runs, title, arguments.picture)
    console.print(f"{arguments.json}, {arguments.picture}", highlight=False)


if __name__ == "__main__":
    main()
