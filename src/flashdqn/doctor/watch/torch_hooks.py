"""Count what a script does with torch: values copied to the host, networks called, backward passes, updates.

Each stand-in here replaces one of torch's functions: it does the same, and notes how long it took and from which
line. While torch.compile traces, they do nothing more: compiled code is the same with the doctor and without.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from time import perf_counter
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from .counters import (
    Forward,
    bursts,
    catch_failures,
    counters,
    forwards,
    forwards_by_instruction,
    local,
    note_event,
    note_failure,
    note_training_start,
)
from .frames import HERE, is_plumbing, locate_script_line, nearest_script_frame, stand_in_for
from .kinds import EventKind, Phase

#: Methods that copy values to the host or make a copy, and the kind under which each is noted.
METHODS = {
    "item": EventKind.ITEM,
    "tolist": EventKind.TOLIST,
    "cpu": EventKind.CPU,
    "numpy": EventKind.NUMPY,
    "to": EventKind.TO,
    "cuda": EventKind.CUDA,
    "__bool__": EventKind.BOOL,
    "__int__": EventKind.INT,
    "__float__": EventKind.FLOAT,
}
MOVES = (EventKind.TO, EventKind.CUDA)
#: Functions of torch that call those on behalf of the script.
ON_BEHALF = {"__array__", "__format__", "__contains__", "__iter__"}


class Optimizers:
    """The optimizers that were stepped; the first few are kept, to look at in the end."""

    def __init__(self) -> None:
        self.steps: dict[int, int] = {}
        self.held: dict[int, Any] = {}
        self.seconds: dict[int, float] = {}
        self.look: Callable[[Any], None] | None = None
        """Called once with the optimizer just stepped, on the script's thread; None if not needed."""


optimizers = Optimizers()


class Methods:
    """The tensors' methods and the networks' calls. There may be a hundred thousand a second, so they are counted
    only part of the time."""

    def __init__(self) -> None:
        self.tensor: Any = None
        self.module: Any = None
        self.compiling: Callable[[], bool] = lambda: False
        self.keep_outputs = False
        """Whether the latest output of each network is kept, for `--health`."""
        self.calls: dict[bool, Callable[..., Any]] = {}
        """A network's call, by whether it is counted."""
        self.originals: dict[str, Callable[..., Any]] = {}
        self.stand_ins: dict[str, Callable[..., Any]] = {}
        self.own: set[str] = set()
        """The methods that the class itself defines, not one of its bases."""
        self.counting = False
        """Whether the tensors' methods are counted now."""
        self.calling = False
        """Whether the networks' calls are counted now."""
        self.wanted = False
        """Whether to count them from the next step or update on."""

    def prepare(self, tensor: Any, module: Any, compiling: Callable[[], bool]) -> None:
        """Make the stand-ins, without putting them in place."""
        self.tensor, self.module, self.compiling = tensor, module, compiling
        self.calls = {False: module.__call__, True: counted_call(module.__call__, compiling)}
        self.originals = {name: getattr(tensor, name) for name in METHODS}
        self.own = {name for name in METHODS if name in vars(tensor)}
        self.stand_ins = {
            name: counted_method(kind, self.originals[name], compiling) for name, kind in METHODS.items()
        }

    def switch(self, *, on: bool) -> None:
        """Put the stand-ins in place, or the originals."""
        self.counting = self.wanted = on
        if not has_compiled():  # compiled code knows which of them it called, and would be compiled again
            self.module.__call__ = self.calls[on]
            self.calling = on
        for name in METHODS:
            if on:
                setattr(self.tensor, name, self.stand_ins[name])
            elif name in self.own:
                setattr(self.tensor, name, self.originals[name])
            elif name in vars(self.tensor):
                delattr(self.tensor, name)  # the base class's method again

    def settle(self) -> None:
        """Switch if wanted; only where the script is not inside a network's call, which would be half seen."""
        if self.wanted is not self.counting:
            self.switch(on=self.wanted)


methods = Methods()


def has_compiled() -> bool:
    """Whether torch has compiled anything of the script's."""
    seen = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return bool(seen and any(seen.values()))


def count_compilations() -> int:
    """How many graphs torch has compiled so far."""
    seen = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return int(seen["stats"]["unique_graphs"]) if seen and "stats" in seen else 0


def watch_torch(torch: ModuleType) -> None:
    """Put the counting functions in their places, just after torch was imported."""
    compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None) or (lambda: False)
    methods.prepare(torch.Tensor, torch.nn.Module, compiling)
    methods.switch(on=True)
    torch.Tensor.backward = counted_backward(torch.Tensor.backward, compiling)
    optimizer = importlib.import_module("torch.optim.optimizer")
    optimizer.register_optimizer_step_pre_hook(make_step_pre_hook(compiling))
    optimizer.register_optimizer_step_post_hook(make_step_post_hook(compiling))


def hide_from_compiler(dynamo: ModuleType) -> None:
    """Make the compiler skip the stand-ins: it compiles what they call, but not the stand-ins themselves."""
    package = __name__.rpartition(".")[0]
    for module in [module for name, module in sys.modules.items() if name.startswith(f"{package}.")]:
        classes = [value for value in vars(module).values() if isinstance(value, type)]
        for value in [value for scope in (module, *classes) for value in vars(scope).values()]:
            if isinstance(value, FunctionType):
                for code in iterate_nested_codes(value.__code__):
                    if code.co_filename.startswith(HERE):
                        dynamo.skip_code(code)


def iterate_nested_codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of the functions in it."""
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from iterate_nested_codes(part)


def counted_method(
    kind: EventKind, original: Callable[..., Any], compiling: Callable[[], bool]
) -> Callable[..., Any]:
    """The same method, noted where the script's own code called it."""

    @stand_in_for(Phase.DATA_MOVEMENT)
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if compiling():
            return original(self, *args, **kwargs)
        start = perf_counter()
        result = original(self, *args, **kwargs)
        seconds = perf_counter() - start
        frame = sys._getframe(1)
        code = frame.f_code
        if not is_plumbing(code.co_filename) or code.co_name in ON_BEHALF:
            note_copy(kind, self, result, frame, seconds)
        return result

    return method


def note_copy(kind: EventKind, before: Any, after: Any, frame: FrameType, seconds: float) -> None:
    """Note a copy, and whether it crosses between the host and the GPU."""
    try:
        waits = before.is_cuda if kind not in MOVES else changed_device(before, after)
        note_event(kind, frame, seconds, before.numel(), waits)
    except Exception as error:
        note_failure(note_copy, error)


def changed_device(before: Any, after: Any) -> bool:
    """Whether a tensor changed its device."""
    return bool(getattr(after, "is_cuda", None) != before.is_cuda)


def counted_backward(original: Callable[..., Any], compiling: Callable[[], bool]) -> Callable[..., Any]:
    """The same backward pass; the networks called before it were called for learning."""

    @stand_in_for(Phase.BACKWARD)
    @functools.wraps(original)
    def backward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if compiling():
            return original(self, *args, **kwargs)
        start = perf_counter()
        result = original(self, *args, **kwargs)
        note_backward(sys._getframe(1), perf_counter() - start)
        return result

    return backward


def note_backward(frame: FrameType, seconds: float) -> None:
    """Count a backward pass: what was called before it was called for learning."""
    try:
        note_training_start()
        note_event(EventKind.BACKWARD, frame, seconds)
        pending = local.pending
        for forward in pending:
            forward.learning += 1
        pending.clear()
    except Exception as error:
        note_failure(note_backward, error)


def counted_call(original: Callable[..., Any], compiling: Callable[[], bool]) -> Callable[..., Any]:
    """`nn.Module.__call__` that counts the outermost network only, not its layers."""

    @stand_in_for(Phase.FORWARD)
    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if local.in_module or not methods.calling or compiling():
            return original(self, *args, **kwargs)
        local.in_module = 1
        start = perf_counter()
        try:
            result = original(self, *args, **kwargs)
        finally:
            local.in_module = 0
        note_forward(self, args, result, sys._getframe(1), perf_counter() - start)
        return result

    return forward


@catch_failures
def note_forward(module: Any, args: tuple[Any, ...], result: Any, frame: FrameType, seconds: float) -> None:
    """Count a call of a network. The same line may act without a graph and learn with one: these are counted
    apart."""
    graded = bool(getattr(first_tensor(result), "requires_grad", False))
    key = (id(frame.f_code), frame.f_lasti, graded)
    entry = forwards_by_instruction.get(key)
    if entry is None:
        place = locate_script_line(frame)
        if place is None or not is_network(module) or promote_caller(module, frame):
            return
        entry = forwards.setdefault((id(place[0]), place[1], graded), Forward())
        entry.code = place[0]
        entry.layers = sum(1 for _ in module.modules()) - 1
        if not entry.count:
            entry.first = seconds
        if place[0] is frame.f_code:
            forwards_by_instruction[key] = entry
    entry.count += 1
    entry.seconds += seconds
    entry.module = module
    shape = args[0].shape if args and issubclass(type(args[0]), methods.tensor) else None
    if shape is not None:
        batch = int(shape[0]) if len(shape) > 1 else 1
        entry.batches[batch] = entry.batches.get(batch, 0) + 1
        if entry.data is None or entry.shape != shape:
            entry.shape = shape
            entry.data = args[0].detach()  # the first of its shape, without the graph behind it
    if graded:
        entry.graded += 1
        if methods.keep_outputs:
            part = first_tensor(result)
            entry.output = part.detach() if hasattr(part, "detach") else None
    pending = local.pending
    pending.append(entry)
    if len(pending) > 256:
        del pending[:128]
    counters.hooks += 1
    counters.layers += entry.layers


def first_tensor(result: Any) -> Any:
    """The first part of what a network returns, where that is several."""
    while type(result) is tuple and result:
        result = result[0]
    return result


def promote_caller(module: Any, frame: FrameType) -> bool:
    """Whether a layer is called by a network whose own call was not seen, because the script calls a method of it
    directly: `net.forward(x)`. From then on, that method is counted as the network's call, in place of its
    layers."""
    code = frame.f_code
    if has_compiled() or not code.co_argcount or code.co_varnames[0] != "self":
        return False
    content = frame.f_locals
    owner = content.get("self")
    if sys.version_info < (3, 13) and code.co_flags & 1:
        content.clear()  # as in growth.py: it would keep what the function drops
    kind = type(owner)
    if not isinstance(owner, methods.module) or owner is module or code.co_name != "forward":
        return False
    home = next((base for base in kind.__mro__ if "forward" in vars(base)), kind)
    original = vars(home).get("forward")
    if original is None or getattr(original, "__code__", None) is not code:
        return False
    setattr(home, code.co_name, counted_call(original, methods.compiling))
    return True


def is_network(module: Any) -> bool:
    """Losses and activations are modules too, but not networks."""
    home = type(module).__module__
    return ".loss" not in home and ".activation" not in home


def make_step_pre_hook(compiling: Callable[[], bool]) -> Callable[..., None]:
    """Notes when an optimizer's step begins."""

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not compiling():
            local.optimizer_start = perf_counter()

    return before


def make_step_post_hook(compiling: Callable[[], bool]) -> Callable[..., None]:
    """Notes an optimizer's step."""

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not compiling():
            seconds, frame = perf_counter() - local.optimizer_start, sys._getframe(1)
            note_update(optimizer, nearest_script_frame(frame) or frame, seconds)

    return after


@catch_failures
def note_update(optimizer: Any, frame: FrameType, seconds: float) -> None:
    """Count a step of an optimizer."""
    counters.updates += 1
    note_training_start()
    if counters.vector_steps != bursts.steps:
        bursts.begin()
    methods.settle()
    note_event(EventKind.OPTIMIZER, frame, seconds)
    key = id(optimizer)
    steps = optimizers.steps[key] = optimizers.steps.get(key, 0) + 1
    optimizers.seconds[key] = optimizers.seconds.get(key, 0.0) + seconds
    if len(optimizers.held) < 4 or key in optimizers.held:
        optimizers.held[key] = optimizer
    if optimizers.look is not None:
        look, optimizers.look = optimizers.look, None
        look(optimizer)
    if steps & (steps - 1) == 0:  # the first, second, fourth …
        note_gradients()


def note_gradients() -> None:
    """Note which networks were given gradients. Read here only, on the thread that trains: a backward pass replaces
    gradients without the interpreter's lock, and another thread that reads one meanwhile destroys it."""
    for forward in list(forwards.values()):
        if not forward.given_gradients and forward.module is not None:
            forward.given_gradients = any(part.grad is not None for part in forward.module.parameters())
