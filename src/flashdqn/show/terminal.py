"""The summary at the end of a run, on a terminal that may be closed."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.segment import Segment

from flashdqn.core.text import clean_name, clean_text
from flashdqn.show.advice import list_advice
from flashdqn.show.rank_waits import describe_ranks

#: Errors of an output that nobody reads any more: a closed pipe, a terminal that is gone.
GONE = (errno.EPIPE, errno.EIO, errno.ENXIO, errno.EBADF, errno.ESHUTDOWN, errno.ECONNRESET)


#: The parts of a run's time (`training/clock.py`), in words.
TIME_PARTS = {
    "start_up": "start-up",
    "warm_up": "warm-up",
    "demonstrations": "demonstrations",
    "first_data": "first data",
    "training": "training",
    "evaluation": "evaluation",
    "checkpoints": "checkpoints",
    "pages": "curve and report",
    "other": "the rest",
}
#: A shorter part of a run's time is not shown; a longer one is damage.
SHOWN_SECONDS, MOST_SECONDS = 0.05, 1e10


class CleanConsole(Console):
    """What it prints may come from a stranger's file: control characters are replaced, and only Rich controls the
    terminal."""

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Rich's own, with clean texts."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            clean = text if control is not None else clean_text(text)
            yield segment if clean == text else Segment(clean, style)


class SteadyConsole(CleanConsole):
    """Becomes silent when its output is closed (`flashdqn train … | head`) or its terminal is gone, instead of
    ending the training. With `always`, any other error of the output does the same, such as a full disk."""

    def __init__(self, always: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._always = always

    def on_broken_pipe(self) -> None:
        """Discard the output; Rich's own method would exit."""
        self.quiet = True
        discard_output(sys.stderr if self.stderr else sys.stdout)

    def _check_buffer(self) -> None:
        try:
            super()._check_buffer()
        except (OSError, ValueError) as error:
            closed = bool(getattr(self.file, "closed", False))  # by an environment, for example
            if not closed and (isinstance(error, ValueError) or not (self._always or error.errno in GONE)):
                raise
            self._buffer.clear()
            self.on_broken_pipe()


def discard_output(stream: Any = None) -> None:
    """Discard the rest of a stream, standard output if none is named, so nothing fails at exit."""
    stream = sys.stdout if stream is None else stream
    if stream is None:
        return
    with suppress(OSError, ValueError):  # a stream that is not a file has nothing to discard
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def show_summary(console: Console, run: Any) -> None:
    """Print the results, where the files are, and what to try next."""
    from flashdqn.config.settings import (  # imported here because the doctor prints without PyTorch
        resume_flag,
        trust_flag,
    )

    summary = run.summary
    path = shlex.quote(str(run.path))
    resumed, path = path + resume_flag(run.config), path + trust_flag(run.config)

    def say(text: str = "") -> None:
        first, rest = ("\n", text[1:]) if text.startswith("\n") else ("", text)
        console.print(first + clean_name(rest), highlight=False, markup=False)

    say()
    if not run.finished:
        say(f"Stopped at {summary['steps']:,} steps ({summary['stopped']}); everything is saved. Go on with:")
        say(f"  {format_program_call('flashdqn')} train --resume {resumed}")
        return
    say(
        f"{summary['steps']:,} steps, {summary['episodes']:,} episodes and {summary['updates']:,} updates in "
        f"{summary['seconds']:.1f} s, after {summary['warm_up_seconds']:.1f} s of warm-up"
        f"{format_first_warm_up(summary)}; mode {summary['mode']}; "
        f"train ratio {summary['train_ratio']:.5f} (asked {summary['train_ratio_asked']:g}), "
        f"batch {summary['batch']:,}, reuse {summary['reuse']:.3g}"
    )
    for line in describe_wall_clock(summary, run.config.eval.max_share):
        say(line)
    if "evaluation" in summary:
        from flashdqn.runs.tables import (
            read_cause_names,  # imported here because the doctor has no PyTorch
        )

        step, causes = int(summary["best_checkpoint"]), read_cause_names(run.path)
        say(format_final_evaluation(summary["evaluation"], step, causes))
    for line in list_advice(run.path, run.config):
        say(line)
    say(f"Weights {summary['weights']}")
    say(f"Run     {run.path}")
    say(f"Curve   {run.path / 'curve.png'}")
    say(f"Report  {run.path / 'report.html'}")
    say("\nWhat next:")
    say(f"  {format_program_call('flashdqn')} watch {path} --web")
    say(f"  {format_program_call('flashdqn')} eval {path} --episodes 1000")
    twice = 2 * (run.config.steps or summary["steps"])
    say(f"  {format_program_call('flashdqn')} train --resume {resumed} --steps {twice}")
    if run.config.log.tensorboard:
        say(f"  {format_program_call('tensorboard')} --logdir {shlex.quote(str(run.path.parent))}")


def describe_wall_clock(summary: Mapping[str, Any], max_share: float) -> Iterator[str]:
    """The throughput of the windows and of the whole time, what that time was spent on, and what was skipped."""
    windows, whole = summary.get("window_steps_per_second"), summary.get("wall_steps_per_second")
    rates = [f"{windows:,.0f} transitions/s in the windows (median)"] if windows else []
    rates += [f"{whole:,.0f} transitions/s since the command began"] if whole else []
    if rates:
        yield f"Throughput: {', '.join(rates)}"
    if parts := list_time_parts(summary):
        spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts)
        yield f"Where the {summary['wall_seconds']:.1f} s went: {spent}"
    yield from describe_ranks(summary)
    if skipped := summary.get("skipped_evaluations"):
        yield (
            f"{skipped:,} evaluation{'s were' if skipped > 1 else ' was'} skipped: all together may take "
            f"{100 * max_share:.3g} % of the training time (--eval.max-share)"
        )


def list_time_parts(summary: Mapping[str, Any]) -> list[tuple[str, float]]:
    """What the time since the command began was spent on, in words and seconds; parts without time are left out."""
    time = summary.get("time")
    parts = time.items() if isinstance(time, Mapping) else ()
    return [
        (TIME_PARTS.get(part, clean_name(part)), seconds)
        for part, seconds in parts
        if isinstance(seconds, int | float) and SHOWN_SECONDS <= seconds <= MOST_SECONDS
    ]


def format_first_warm_up(summary: Mapping[str, Any]) -> str:
    """The warm-up's time before anything was cached, if it was longer."""
    first = summary["first_warm_up_seconds"]
    return f" (the first time: {first:.1f} s)" if first > summary["warm_up_seconds"] else ""


def format_final_evaluation(games: Mapping[str, Any], step: int, causes: Collection[str]) -> str:
    """The score of the best checkpoint, how its games ended, and their other outcomes."""
    outcomes = {name: format_outcome(name, value) for name, value in games["outcomes"].items() if value > 0}
    ends = ", ".join(text for name, text in outcomes.items() if name in causes)
    others = ", ".join(text for name, text in outcomes.items() if name not in causes)
    return (
        f"Score over {games['episodes']} evaluation games: {games['mean_score']:.2f} ± {games['score_error']:.2f} "
        f"(best checkpoint, at {step:,} steps); {games['mean_length']:.0f} steps a game"
        + (f"; {games['unfinished']} more games were cut off" if games["unfinished"] else "")
        + (f"; ends: {ends}" if ends else "")
        + (f"; outcomes: {others}" if others else "")
    )


def format_outcome(name: str, value: float) -> str:
    """A share in percent; as a number if its name ends with a unit (delay_ms) or it is above 1."""
    plain = name.endswith(("_ms", "_gbps")) or value > 1.0
    return f"{name} {value:.3g}" if plain else f"{name} {value:.0%}"


def format_program_call(name: str) -> str:
    """How to call a program from here: by its name if it is on the path, else by its path beside this Python."""
    beside = Path(sys.executable).parent / name
    if shutil.which(name) or not beside.exists():
        return name
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if beside.is_relative_to(here) else beside))
