"""What runs now, on a terminal: a bar over all runs, or a line for each where nobody watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from flashdqn.doctor.cures.turns import Say


def count_runs(cures: int, rounds: int) -> int:
    """How many times the script is started."""
    return rounds * (cures + 1) + 1


@contextmanager
def show_turns(console: Console, title: str, runs: int) -> Iterator[Say]:
    """A function that is told about each run when it begins."""
    if not console.is_terminal:
        number = 0

        def print_line(text: str) -> None:
            nonlocal number
            number += 1
            console.print(
                f"  {min(number, runs)}/{runs}  {text}", highlight=False, markup=False, soft_wrap=True
            )

        console.print(title, highlight=False, markup=False)
        yield print_line
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed}/{task.total}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    console.print(title, highlight=False, markup=False)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=runs, completed=-1)
        yield lambda text: progress.update(task, description=text, advance=1)
