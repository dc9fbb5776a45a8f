"""What the script was doing at each look: one phase for each stack.

The stack is read from the inside out, and the first frame that says something decides: a layer of torch inside an
environment's step is the environment's time. Names of functions are trusted only where nothing better is known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from flashdqn.doctor import source
from flashdqn.doctor.watch.kinds import NAMED_COPIES, EventKind, Owner, Phase
from flashdqn.doctor.watch.rows import Frame
from flashdqn.doctor.watch.schema import WatchRecord

OFTEN = 8
"""From this many copies per step of the environments (or update) on, a line works row by row."""
LEARNING = (Phase.REPLAY, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.LEARNING_REST)

#: A file like these anywhere on the stack means that a compiler is at work.
COMPILERS = re.compile(
    r"/torch/_dynamo/convert_frame\.py$|/torch/_inductor/(compile_fx|codecache|async_compile)\.py$"
    r"|/numba/core/(compiler|compiler_machinery|dispatcher_compile)\.py$|/triton/compiler/|/jax/_src/compiler\.py$"
    r"|/jax/_src/interpreters/(mlir|partial_eval)\.py$|/torch/utils/cpp_extension\.py$|/torch/jit/_(trace|script)\.py$"
)
FILES: tuple[tuple[re.Pattern[str], Phase], ...] = tuple(
    (re.compile(pattern), phase)
    for pattern, phase in (
        (r"/torch/optim/lr_scheduler\.py$", Phase.LEARNING_REST),
        (r"/torch/optim/", Phase.OPTIMIZER),
        (r"/torch/autograd/(?!grad_mode)", Phase.BACKWARD),
        (
            r"/torch/utils/tensorboard/|/tensorboard/|/tensorboardX/|/wandb/|/mlflow/|/logging/__init__\.py$",
            Phase.LOGGING,
        ),
        (r"/matplotlib/|/torch/serialization\.py$|/pickle\.py$|/csv\.py$", Phase.LOGGING),
        (r"/tqdm/|/rich/", Phase.PRINTING),
        (r"/(gymnasium|gym|ale_py|minatar|pettingzoo|procgen|envpool)/", Phase.ENVIRONMENT),
    )
)
LOADER = re.compile(r"/torch/utils/data/(?!datapipes)")
STEPS = (Phase.ENVIRONMENT, Phase.ACTING)
"""What a dataset may do that is more than loading: some play a game inside it."""
MODULE = "/torch/nn/modules/module.py"
MODULE_CALLS = {"_wrapped_call_impl", "_call_impl"}
ACTING = re.compile(
    r"^_?(act|action|select_actions?|choose_actions?|get_actions?|pick_actions?|predict|_predict|sample_action"
    r"|epsilon_greedy|policy|compute_actions?|exploration_action|random_action|act_\w+|get_action_\w+"
    r"|select_action_\w+|choose_action_\w+)$"
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
    roles: dict[tuple[str, int], set[Phase]] = field(default_factory=dict)
    learning_blocks: list[tuple[str, int, int]] = field(default_factory=list)
    env_lines: set[tuple[str, int]] = field(default_factory=set)
    copy_lines: set[tuple[str, int]] = field(default_factory=set)
    """Lines that take values out of tensors row by row, also while copies are not being counted."""

    def __post_init__(self) -> None:
        for site in self.record.forwards:
            self.roles.setdefault((site.file, site.line), set()).add(site.role)
        self.env_lines = {(site.file, site.line) for site in self.record.kinds(EventKind.ENV_STEP)}
        self.copy_lines = {
            (site.file, site.line)
            for site in self.record.kinds(*NAMED_COPIES)
            if self.record.per_step(site) >= OFTEN
        }
        self.learning_blocks = find_learning_blocks(self.record, self.env_lines)

    def name(self, stack: tuple[Frame, ...]) -> Phase:
        """The phase of a stack (outermost frame first), once training has begun."""
        if any(frame.function == "_find_and_load" for frame in stack):
            return Phase.START_UP
        if any(COMPILERS.search(frame.file) for frame in stack):
            return Phase.COMPILATION
        for i in reversed(range(len(stack))):
            phase = self.of_frame(stack, i)
            if phase is not None:
                return Phase.LOADING if phase not in STEPS and is_in_loader(stack[:i]) else phase
        if is_in_loader(stack):
            return Phase.LOADING
        waits = bool(stack) and WAITING.search(get_path_in_library(stack[-1].file))
        return Phase.WAITING if waits else Phase.PYTHON_REST

    def of_frame(self, stack: tuple[Frame, ...], i: int) -> Phase | None:
        """The phase that one frame shows, or None."""
        frame = stack[i]
        if is_network_call(frame):
            return self.of_network(stack)
        if frame.owner is Owner.WATCH:
            return frame.phase
        for pattern, phase in FILES:
            if pattern.search(get_path_in_library(frame.file)):
                return phase
        if frame.file.endswith("/torch/nn/functional.py") and not any(map(is_network_call, stack[:i])):
            return Phase.FORWARD
        if frame.file.endswith("/random.py") and frame.function.endswith(".sample"):
            return Phase.REPLAY
        if frame.plumbing:
            return None
        own = self.of_own_code(frame, innermost=i == len(stack) - 1)
        return Phase.LEARNING_REST if own is Phase.ACTING and self.is_in_update(stack) else own

    def of_own_code(self, frame: Frame, *, innermost: bool) -> Phase | None:
        """The phase of a frame of the script's own code, by its line or by its function's name."""
        file, line, function = frame.file, frame.line, frame.function.rpartition(".")[2]
        if innermost and (file, line) in self.copy_lines:
            return Phase.DATA_MOVEMENT
        if function == "reset":
            return Phase.ENVIRONMENT
        if SAMPLING.match(function):
            return Phase.REPLAY
        if ACTING.match(function):
            return Phase.ACTING
        if any(file == where and first <= line <= last for where, first, last in self.learning_blocks):
            return Phase.LEARNING_REST
        if UPDATING.match(function) and not self.holds_env_step(file, line):
            return Phase.LEARNING_REST
        return None

    def of_network(self, stack: tuple[Frame, ...]) -> Phase:
        """Acting or learning, by the line that called the outermost network."""
        outermost = next(i for i, frame in enumerate(stack) if is_network_call(frame))
        for frame in reversed(stack[:outermost]):
            if not frame.plumbing:
                roles = self.roles.get((frame.file, frame.line), {Phase.FORWARD})
                if len(roles) == 1:
                    return next(iter(roles))
                return Phase.FORWARD if self.is_in_update(stack) else Phase.ACTING
        return Phase.FORWARD

    def is_in_update(self, stack: tuple[Frame, ...]) -> bool:
        """Whether a stack leads through the code of an update."""
        return any(
            frame.file == where and first <= frame.line <= last
            for frame in stack
            for where, first, last in self.learning_blocks
        )

    def holds_env_step(self, file: str, line: int) -> bool:
        """Whether the function around a line steps an environment: then it holds the whole training loop."""
        around = source.find_function(file, line)
        return around is not None and any(
            where == file and source.covers_line(around, step) for where, step in self.env_lines
        )


def get_path_in_library(file: str) -> str:
    """A library file's path from its package on; empty for all other files, whatever their folders."""
    found = LIBRARY.match(file)
    return found[1] if found else ""


def is_in_loader(stack: tuple[Frame, ...]) -> bool:
    """Whether a DataLoader or its dataset is on the stack."""
    return any(LOADER.search(get_path_in_library(frame.file)) for frame in stack)


def is_network_call(frame: Frame) -> bool:
    """Whether this is a network's call: the watch's stand-in, or torch's own while the stand-in rests."""
    if frame.owner is Owner.WATCH:
        return frame.phase is Phase.FORWARD
    return frame.file.endswith(MODULE) and frame.function.rpartition(".")[2] in MODULE_CALLS


def find_learning_blocks(record: WatchRecord, env_lines: set[tuple[str, int]]) -> list[tuple[str, int, int]]:
    """Where the update code is: the smallest block around a backward pass and the optimizer's step."""
    blocks = []
    steps = record.kinds(EventKind.OPTIMIZER)
    for backward in record.kinds(EventKind.BACKWARD):
        lines = [backward.line, *(step.line for step in steps if step.file == backward.file)]
        block = source.find_common_block(backward.file, lines) or source.find_common_block(
            backward.file, [backward.line]
        )
        if block and not any(f == backward.file and block[0] <= line <= block[1] for f, line in env_lines):
            blocks.append((backward.file, *block))
    return blocks
