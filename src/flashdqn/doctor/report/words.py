"""What a report says, in words: the same on the terminal and on the page."""

from __future__ import annotations

import math
import os
import shlex
import site
import sysconfig
from pathlib import Path

from flashdqn.doctor.report.contents import CountedLine, Finding, HotLine, Limit, Report
from flashdqn.doctor.report.series import mean_episode_length, per_second
from flashdqn.doctor.watch.kinds import Ending, Phase
from flashdqn.show.numbers import NOTHING, format_count, format_duration, format_percent, format_rate

PHASES = {
    Phase.ENVIRONMENT: "the game itself: step and reset",
    Phase.ACTING: "choosing actions: the network without gradients",
    Phase.REPLAY: "storing transitions and drawing batches",
    Phase.LOADING: "a DataLoader: reading, transforming and stacking examples, or waiting for its workers",
    Phase.FORWARD: "the loss, through the network and its target",
    Phase.BACKWARD: "gradients",
    Phase.OPTIMIZER: "changing the weights",
    Phase.DATA_MOVEMENT: "copies between host and device, numpy and torch, and waiting for them",
    Phase.LEARNING_REST: "the rest of learning, outside the named parts",
    Phase.PRINTING: "writing to the terminal",
    Phase.LOGGING: "TensorBoard, files, figures",
    Phase.COMPILATION: "torch.compile and kernels made at first use",
    Phase.WAITING: "asleep, or waiting for other processes",
    Phase.START_UP: "imports and setting up, before the first step",
    Phase.PYTHON_REST: "all other Python code",
}

BOUNDS = {
    Limit.ENVIRONMENT: "the environment",
    Limit.ACTING: "choosing actions",
    Limit.COPIES: "copying data",
    Limit.LAUNCHES: "starting many small operations",
    Limit.COMPUTE: "computing the network",
    Limit.COMPILATION: "compilation",
    Limit.OUTPUT: "printing and logging",
    Limit.PYTHON: "Python code around the training",
    Limit.WORKERS: "waiting for other processes",
    Limit.LOADING: "loading data",
    Limit.SLEEP: "sleeping: a clock, a pause, a window",
}

ENDINGS = {
    Ending.FINISHED: "then it finished by itself",
    Ending.STOPPED: "then it was stopped: its time was up",
    Ending.INTERRUPTED: "until Ctrl-C",
    Ending.FAILED: "until it failed",
    Ending.KILLED: "until it was killed",
}

SHORT = 5.0
"""Seconds of training from which on no finding means that nothing is wrong."""
CHANGES_LEARNING = (
    "This is learning from less, not speed: the cure changes what is learned from (fewer updates, or other data). "
    "Judge it by the score reached, not by the clock."
)


def strip_controls(text: str) -> str:
    """Text without control characters for a terminal, and without characters that cannot be written."""
    shown = "".join(
        c if c.isprintable() or c in "\n\t" or ord(c) > 159 else "\N{REPLACEMENT CHARACTER}"
        for c in text.replace("\r\n", "\n")
    )
    return shown.encode("utf-8", "replace").decode("utf-8")


def shorten_path(file: str) -> str:
    """A short path: from the working directory, or from the folder of packages."""
    for packages in ("/site-packages/", "/dist-packages/"):
        if packages in file:
            return file.rpartition(packages)[2]
    here = str(Path.cwd())
    if file.startswith(here + os.sep):
        return file[len(here) + 1 :]
    folders = [*site.getsitepackages(), sysconfig.get_path("purelib"), sysconfig.get_path("stdlib")]
    for folder in folders:
        if folder and file.startswith(folder + os.sep):
            return file[len(folder) + 1 :]
    home = str(Path.home())
    return "~" + file[len(home) :] if home != os.sep and file.startswith(home + os.sep) else file


def format_place(what: Finding | HotLine | CountedLine) -> str:
    """A place as train.py:41."""
    if what.line <= 0 or not what.file:
        return "the script as a whole"
    first = what.first if isinstance(what, HotLine) else 0
    return f"{shorten_path(what.file)}:{f'{first}-' if first else ''}{what.line}"


def format_command(report: Report) -> str:
    """The command that was run."""
    return " ".join([shorten_path(report.script), *(shlex.quote(argument) for argument in report.arguments)])


def describe_watch_time(report: Report) -> str:
    """How long the script was watched, and how it ended."""
    time = format_duration(report.seconds) if math.isfinite(report.seconds) else "an unknown time"
    return f"Watched for {time}, {ENDINGS[report.ended]}."


def describe_machine(report: Report) -> str:
    """The machine that the script ran on."""
    parts = [report.device, f"torch {report.torch}" if report.torch else "", f"Python {report.python}"]
    parts += [_pluralize(report.cores, "core"), _pluralize(report.threads, "thread")]
    if report.load >= 0.2:
        parts.append(f"other programs kept {report.load:.1f} cores busy")
    return ", ".join(part for part in parts if part)


def describe_bottleneck(report: Report) -> str:
    """What limits it, in a few words."""
    if report.bound in BOUNDS:
        return f"Limited by {BOUNDS[report.bound]}"
    return "What limits it is not known"


def describe_no_findings(report: Report) -> str:
    """The text of a report without findings."""
    learned = any(phase.name == "backward" for phase in report.phases)  # perhaps without torch's optimizers
    if not report.transitions and not report.updates and not learned:
        return (
            "No training was seen, neither a step of an environment nor an update: there is nothing to judge."
        )
    if report.training_seconds < SHORT:
        return (
            f"Training was watched for {format_duration(report.training_seconds)} only: too short to judge. "
            "Watch it longer, or let it train longer."
        )
    limit = f" {describe_bottleneck(report)}." if report.bound in BOUNDS else ""
    when = " before it failed" if report.ended == "failed" else ""
    return f"No problem found{when}: nothing was seen that certainly costs much time.{limit}"


def list_head_figures(report: Report) -> list[tuple[str, str, str]]:
    """The numbers of the head: name, value, and unit or rate."""
    return [
        ("transitions", format_count(report.transitions), _format_per_second(report.transitions, report)),
        ("updates", format_count(report.updates), _format_per_second(report.updates, report)),
        ("episodes", format_count(report.episodes), _format_per_second(report.episodes, report)),
        ("mean length", format_rate(mean_episode_length(report.windows)), "steps"),
        ("train ratio", format_rate(report.ratio), "updates/transition"),
        ("batch", format_count(report.batch_size) if report.batch_size else NOTHING, "per update"),
        ("environments", format_count(report.environments) if report.environments else NOTHING, "at a time"),
        ("vector steps", format_count(report.vector_steps), _format_per_second(report.vector_steps, report)),
    ]


def format_gain(finding: Finding) -> str:
    """The predicted gain: 1.8x faster."""
    if not math.isfinite(finding.speedup):
        return "gain unknown"
    if finding.health:
        return "about learning"
    if finding.speedup < 1.005:
        return "not about speed"
    less = ", learning from less" if finding.changes_learning else ""
    if math.isfinite(finding.least) and math.isfinite(finding.most) and finding.most > 1.1 * finding.least:
        return f"{format_factor(finding.least)} to {format_factor(finding.most)}x faster{less}"
    return f"{format_factor(finding.speedup)}x faster{less}"


def format_factor(factor: float) -> str:
    """A factor with as many digits as it deserves: 1.06, 2.4, 12."""
    return f"{factor:.{2 if factor < 1.1 else 1 if factor < 10 else 0}f}"


def format_cost(finding: Finding) -> str:
    """Its share of the time, if any, and how certain that is."""
    parts = [f"{format_percent(finding.share)} of the time"] if finding.share > 0 else []
    if finding.certainty < 0.995:
        parts.append(f"certainty {format_percent(finding.certainty)}")
    return ", ".join(parts)


def describe_overhead(report: Report) -> str:
    """What the doctor itself cost."""
    how = f"({'deep' if report.deep else 'sampling'} mode, {format_count(report.samples)} samples)"
    if not math.isfinite(report.overhead):
        return f"How much the doctor slowed the script is not known {how}."
    return f"The doctor slowed the script by about {format_percent(report.overhead)} {how}."


def _format_per_second(number: float, report: Report) -> str:
    value = format_rate(per_second(number, report.training_seconds))
    return "" if value == NOTHING else f"{value}/s"


def _pluralize(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}" if number else ""
