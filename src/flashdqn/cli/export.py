"""`flashdqn export`: a trained agent as a file that runs without flashdqn."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.table import Table

from flashdqn.as_gymnasium.names import register_gymnasium_envs
from flashdqn.cli.arguments import Trust, parse, read_permission
from flashdqn.cli.latest import choose_run
from flashdqn.core.ranges import Between
from flashdqn.core.text import clean_name
from flashdqn.show.terminal import SteadyConsole

if TYPE_CHECKING:
    from flashdqn.export.flow import Exported, Measured


@dataclass(frozen=True)
class ExportArguments:
    """Write the greedy policy of a trained agent to a file, and check it on the agent's own games.

      flashdqn export runs/snake-flood-20261115-120000
      flashdqn export runs/snake-flood-20261115-120000 --int8 --out snake.onnx
      flashdqn export runs/snake-flood-20261115-120000 --to torchscript --checkpoint last

    Observation in, action and action values out, with legal actions if the task has them. The table says how
    often the file chooses the same action as PyTorch, how well it plays, how large it is and how long it takes.
    """

    run: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="RUN")] = None
    """A run folder, or one checkpoint in it; without one, the latest run in runs."""
    to: Literal["onnx", "torchscript"] = "onnx"
    """onnx: for onnxruntime in any language (pip install 'flashdqn[export]'). torchscript: for PyTorch, C++ too."""
    int8: bool = False
    """Quantize to eight bits, in the better of two ways: a smaller file, faster for large batches (onnx)."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The file to write; by default policy.onnx, policy-int8.onnx or policy.pt in the run folder."""
    checkpoint: Annotated[str, tyro.conf.arg(metavar="best|last|STEP")] = "best"
    """Which weights: the best in evaluation, the newest, or those of a step."""
    observations: Annotated[int, Between(1, 10**8)] = 10_000
    """Observations to compare on, from games that the agent itself plays."""
    episodes: Annotated[int, Between(1, 10**6)] = 100
    """Games that the file plays to measure its score."""
    json: bool = False
    """Print JSON."""
    trust: Trust = False


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn export`."""
    permission, arguments = read_permission(arguments)
    permission.allow_working_folder()
    known = [field.name for field in dataclasses.fields(ExportArguments)][1:]
    parsed = parse("export", ExportArguments, arguments, known)
    parsed = dataclasses.replace(parsed, run=choose_run(parsed.run, "export"))
    from flashdqn.export.flow import Wanted
    from flashdqn.export.flow import export_policy as run_export

    register_gymnasium_envs()
    console = SteadyConsole(soft_wrap=True)
    settings = {name: value for name, value in vars(parsed).items() if name not in ("json", "trust")}

    def say(text: str) -> None:
        if not parsed.json:
            console.print(text, highlight=False, markup=False)

    done = run_export(Wanted(**settings, permission=permission), say)
    if parsed.json:
        data = {"file": str(done.file), "chosen": done.why, "rows": [row.to_json() for row in done.rows]}
        console.print(json.dumps(data), highlight=False, markup=False)
        return 0
    show_export_results(done, console)
    return 0


def show_export_results(done: Exported, console: SteadyConsole) -> None:
    """Print the table and a description of the file."""
    count = done.rows[0].agreement.observations
    games = done.rows[0].games.episodes + done.rows[0].games.unfinished
    console.print(f"\nOn {count:,} observations of the agent's own games, and in {games} games each:\n")
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in range(6):
        table.add_column(justify="right", no_wrap=True)
    table.add_row("", "same action", "most ΔQ", "score", "size", "batch 1", "batch 256", style="dim")
    for row in done.rows:
        table.add_row(*format_export_row(row))
    SteadyConsole().print(table, highlight=False)
    about = done.description
    shape = "x".join(map(str, about.observation_shape))
    say = [""]
    if done.why:
        say.append(f"Kept {done.why}.")
    say.append(f"File    {done.file}")
    mask = f" and mask [batch, {len(about.actions)}] bool" if about.masked else ""
    say.append(f"In      obs [batch, {shape}] {about.observation_dtype}{mask}")
    parts = f"batch, {len(about.branches)}" if about.branches else "batch"
    say.append(f"Out     action [{parts}] int64, q [batch, {len(about.actions)}] float32")
    names = ", ".join(f"{i} {name}" for i, name in enumerate(about.actions))
    say.append(f"Actions {names}")
    if done.file.suffix == ".onnx":
        say.append(f"Use     flashdqn.load_onnx({str(done.file)!r}).act(obs)")
    for line in say:
        console.print(clean_name(line), highlight=False, markup=False)


def format_export_row(row: Measured) -> list[str]:
    """One row of the table."""
    same = "" if row.size is None else f"{row.agreement.actions:.2%}"
    difference = "" if row.size is None else f"{row.agreement.largest_difference:.2g}"
    size = "" if row.size is None else format_file_size(row.size)
    score = f"{row.games.mean_score:.2f} ± {row.games.score_error:.2f}"
    return [
        row.name,
        same,
        difference,
        score,
        size,
        *(format_latency(x.median) for x in row.latency.values()),
    ]


def format_file_size(count: int) -> str:
    """A size in kB or MB."""
    return f"{count / 1e3:.1f} kB" if count < 1e6 else f"{count / 1e6:.2f} MB"


def format_latency(seconds: float) -> str:
    """A time in µs or ms."""
    return f"{1e6 * seconds:.1f} µs" if seconds < 1e-3 else f"{1e3 * seconds:.2f} ms"
