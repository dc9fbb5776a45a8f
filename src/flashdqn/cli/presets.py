"""`flashdqn presets`."""

from __future__ import annotations

from rich.table import Table

from flashdqn.cli.arguments import refuse_arguments
from flashdqn.show.terminal import SteadyConsole


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn presets`."""
    from flashdqn.config.axes import BOOTSTRAPS, HEADS, OPTIMIZERS, SAMPLERS
    from flashdqn.config.presets import PRESETS
    from flashdqn.learn.algorithms import ALGORITHMS

    refuse_arguments("presets", arguments)
    table = Table.grid(padding=(0, 2))
    for name, preset in PRESETS.items():
        table.add_row(f"[bold]{name}[/]", preset.about)
    table.add_row("\n[bold]with --algo[/]", "\nan algorithm instead of the preset's own")
    for name, algorithm in ALGORITHMS.items():
        table.add_row(f"[bold]{name}[/]", algorithm.about)
    for axis in (HEADS, BOOTSTRAPS, SAMPLERS, OPTIMIZERS):
        flag = axis.key.replace("_", "-")
        table.add_row(f"\n[bold]with --{flag}[/]", "\none of these, or module:Name (docs/own-variants.md)")
        for name, variant in axis.choices.items():
            table.add_row(f"[bold]{name}[/]", variant.about)
    SteadyConsole().print(table, highlight=False)
    return 0
