"""What a look at the script saw it doing: one name for each stack.

The stack is read from the inside out, and the first frame that says something decides: a layer of torch inside an
environment's step is the environment's time. Names of functions are trusted only where nothing better is known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from flashdqn.doctor import source
from flashdqn.doctor.record import Frame, WatchRecord

PHASES = (
    *(
        "environment",
        "acting",
        "replay",
        "forward",
        "backward",
        "optimizer",
        "data movement",
        "learning (rest)",
    ),
    *("printing", "logging", "compilation", "waiting", "start-up", "python (rest)"),
)
OFTEN = 8
"""Rows per step of the environments, or per update, from which on a line goes over rows."""
LEARNING = ("replay", "forward", "backward", "optimizer", "learning (rest)")

#: Somewhere on the stack: a compiler is at work.
COMPILERS = re.compile(
    r"/torch/_dynamo/convert_frame\.py$|/torch/_inductor/(compile_fx|codecache|async_compile)\.py$"
    r"|/numba/core/(compiler|compiler_machinery|dispatcher_compile)\.py$|/triton/compiler/|/jax/_src/compiler\.py$"
    r"|/jax/_src/interpreters/(mlir|partial_eval)\.py$|/torch/utils/cpp_extension\.py$|/torch/jit/_(trace|script)\.py$"
)
FILES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), phase)
    for pattern, phase in (
        (r"/torch/optim/lr_scheduler\.py$", "learning (rest)"),
        (r"/torch/optim/", "optimizer"),
        (r"/torch/autograd/(?!grad_mode)", "backward"),
        (
            r"/torch/utils/tensorboard/|/tensorboard/|/tensorboardX/|/wandb/|/mlflow/|/logging/__init__\.py$",
            "logging",
        ),
        (r"/matplotlib/|/torch/serialization\.py$|/pickle\.py$|/csv\.py$", "logging"),
        (r"/torch/utils/data/", "replay"),
        (r"/tqdm/|/rich/", "printing"),
        (r"/(gymnasium|gym|ale_py|minatar|pettingzoo|procgen|envpool)/", "environment"),
    )
)
STAND_INS = {
    "counted_method.<locals>.method": "data movement",
    "counted_backward.<locals>.backward": "backward",
    "counted_step.<locals>.step": "environment",
    "named_replay.<locals>.replay": "replay",
    "watch_prints.<locals>.printed": "printing",
}
CALL = "counted_call.<locals>.forward"
MODULE = "/torch/nn/modules/module.py"
MODULE_CALLS = {"_wrapped_call_impl", "_call_impl"}
WATCH = str(Path(__file__).parent / "watch")
ACTING = re.compile(
    r"^_?(act|action|select_actions?|choose_actions?|get_actions?|pick_actions?|predict|_predict|sample_action"
    r"|epsilon_greedy|policy|compute_actions?|exploration_action|random_action)$"
)
SAMPLING = re.compile(r"^_?(sample|sample_batch|get_batch|_get_samples|make_batch)$")
UPDATING = re.compile(
    r"^_?(train|train_step|update|optimize|optimize_model|train_on_batch|learn_step|learn)$"
)
LIBRARY = re.compile(r".*(?:/(?:site|dist)-packages|/python3\.\d+t?(?!/(?:site|dist)-packages))(/.*)")
WAITING = re.compile(r"/(threading|queue|selectors|subprocess|multiprocessing/\w+)\.py$")


@dataclass
class Namer:
    """Names the phase of each stack of a record."""

    record: WatchRecord
    roles: dict[tuple[str, int], str] = field(default_factory=dict)
    learning_blocks: list[tuple[str, int, int]] = field(default_factory=list)
    env_lines: set[tuple[str, int]] = field(default_factory=set)
    copy_lines: set[tuple[str, int]] = field(default_factory=set)
    """Lines that take values out of tensors row by row: even when that is not being counted."""

    def __post_init__(self) -> None:
        self.roles = {(site.file, site.line): site.role for site in self.record.forwards}
        self.env_lines = {(site.file, site.line) for site in self.record.kinds("env step")}
        self.copy_lines = {
            (site.file, site.line)
            for site in self.record.kinds("item", "tolist", "cpu", "numpy", "to", "cuda")
            if self.record.per_step(site) >= OFTEN
        }
        self.learning_blocks = find_learning_blocks(self.record, self.env_lines)

    def name(self, stack: tuple[Frame, ...]) -> str:
        """The phase of a stack (outermost frame first), once training has begun."""
        if any(frame.function == "_find_and_load" for frame in stack):
            return "start-up"
        if any(COMPILERS.search(frame.file) for frame in stack):
            return "compilation"
        for i in reversed(range(len(stack))):
            phase = self.of_frame(stack, i)
            if phase:
                return phase
        return "waiting" if stack and WAITING.search(get_path_in_library(stack[-1].file)) else "python (rest)"

    def of_frame(self, stack: tuple[Frame, ...], i: int) -> str:
        """What one frame says, or nothing."""
        file, name, line, plumbing = stack[i]
        if is_network_call(stack[i]):
            return self.of_network(stack)
        if file.startswith(WATCH):
            return STAND_INS.get(name, "")
        for pattern, phase in FILES:
            if pattern.search(get_path_in_library(file)):
                return phase
        if file.endswith("/torch/nn/functional.py") and not any(
            is_network_call(frame) for frame in stack[:i]
        ):
            return "forward"
        if file.endswith("/random.py") and name.endswith(".sample"):
            return "replay"
        return (
            ""
            if plumbing
            else self.of_own_code(file, name.rpartition(".")[2], line, innermost=i == len(stack) - 1)
        )

    def of_own_code(self, file: str, function: str, line: int, *, innermost: bool) -> str:
        """What the script's own code is doing by its place, or by its name."""
        if innermost and (file, line) in self.copy_lines:
            return "data movement"
        if function == "reset":
            return "environment"
        if SAMPLING.match(function):
            return "replay"
        if ACTING.match(function):
            return "acting"
        if any(file == where and first <= line <= last for where, first, last in self.learning_blocks):
            return "learning (rest)"
        if UPDATING.match(function) and not self.holds_env_step(file, line):
            return "learning (rest)"
        return ""

    def of_network(self, stack: tuple[Frame, ...]) -> str:
        """Acting or learning, by the line that called the outermost network."""
        outermost = next(i for i, frame in enumerate(stack) if is_network_call(frame))
        for frame in reversed(stack[:outermost]):
            if not frame.plumbing:
                return self.roles.get((frame.file, frame.line), "forward")
        return "forward"

    def holds_env_step(self, file: str, line: int) -> bool:
        """Whether the function around a line steps an environment: then it is the whole loop."""
        around = source.find_function(file, line)
        return around is not None and any(
            where == file and source.covers_line(around, step) for where, step in self.env_lines
        )


def get_path_in_library(file: str) -> str:
    """A library's file from its package on; nothing for other files, whatever folders they may lie in."""
    found = LIBRARY.match(file)
    return found[1] if found else ""


def is_network_call(frame: Frame) -> bool:
    """Whether this is a network's call: the stand-in for it, or torch's own while that rests."""
    if frame.file.startswith(WATCH):
        return frame.function == CALL
    return frame.file.endswith(MODULE) and frame.function.rpartition(".")[2] in MODULE_CALLS


def find_learning_blocks(record: WatchRecord, env_lines: set[tuple[str, int]]) -> list[tuple[str, int, int]]:
    """Where updates are written: the smallest block around a backward pass and the optimizer's step."""
    blocks = []
    steps = record.kinds("optimizer")
    for backward in record.kinds("backward"):
        lines = [backward.line, *(step.line for step in steps if step.file == backward.file)]
        block = source.find_common_block(backward.file, lines) or source.find_common_block(
            backward.file, [backward.line]
        )
        if block and not any(f == backward.file and block[0] <= line <= block[1] for f, line in env_lines):
            blocks.append((backward.file, *block))
    return blocks
