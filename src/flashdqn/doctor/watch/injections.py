"""Cures that are put into a running script from outside: settings of torch, loggers that are silent, and the like.

Each injection acts before the script's first line, or as soon as a module is imported. It notes what it changed,
so that a trial in which nothing was changed is not mistaken for a cure without an effect.
"""

from __future__ import annotations

import builtins
import functools
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class Injection:
    """A cure inside the script's process. `modules` are those after whose import it acts."""

    modules: tuple[str, ...] = ("torch",)

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self.name = name
        self.settings = settings
        self.applied: dict[str, int] = {}
        self.failures: list[str] = []

    def begin(self) -> None:
        """Before the script's first line."""

    def imported(self, module: Any) -> None:
        """After the import of one of its modules; what goes wrong is noted, and the script goes on."""
        try:
            self.change(module)
        except Exception as error:
            self.failures.append(f"{self.name}: {type(error).__name__}: {error}"[:200])

    def change(self, module: Any) -> None:
        """Change the module."""

    def note(self, what: str) -> None:
        """Note that something was changed."""
        self.applied[what] = self.applied.get(what, 0) + 1

    def list_applied(self) -> list[str]:
        """What was changed, and how often."""
        return [what if count == 1 else f"{what} ({count:,} times)" for what, count in self.applied.items()]


class Threads(Injection):
    """Another number of threads, also where the script sets it itself."""

    def begin(self) -> None:
        """Libraries with threads of their own read these variables once."""
        for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[variable] = str(self.settings["number"])

    def change(self, module: Any) -> None:
        """Set it, and keep it."""
        number = int(self.settings["number"])
        original = module.set_num_threads
        original(number)
        module.set_num_threads = functools.wraps(original)(lambda _: original(number))
        self.note(f"torch.set_num_threads({number})")


class OptimizerFlag(Injection):
    """Optimizers are made with `fused=True` or `foreach=True`, where the script says nothing about it."""

    def change(self, module: Any) -> None:
        """Change the constructors of all optimizers that know the flag."""
        for made in vars(module.optim).values():
            if isinstance(made, type) and issubclass(made, module.optim.Optimizer):
                changed: Any = made
                code = getattr(vars(made).get("__init__"), "__code__", None)
                if code is not None and self.settings["flag"] in code.co_varnames:
                    changed.__init__ = self.flagged(made, changed.__init__)

    def flagged(self, made: type, original: Callable[..., None]) -> Callable[..., None]:
        """The same constructor with the flag; without it where torch refuses it for these parameters."""
        flag = self.settings["flag"]

        @functools.wraps(original)
        def construct(optimizer: Any, params: Any, *args: Any, **kwargs: Any) -> None:
            said = {"fused", "foreach", "differentiable"} & set(kwargs)
            if said or type(optimizer) is not made:
                return original(optimizer, params, *args, **kwargs)
            params = [dict(part) if isinstance(part, dict) else part for part in params]
            try:
                original(optimizer, params, *args, **{**kwargs, flag: True})
            except RuntimeError as error:
                self.failures.append(f"{made.__name__}: {error}"[:200])
                return original(optimizer, params, *args, **kwargs)
            self.note(f"{made.__name__}(…, {flag}=True)")
            return None

        return construct


class Flush(Injection):
    """Numbers too small for full precision are zero."""

    def change(self, module: Any) -> None:
        """One call, on the main thread."""
        if module.set_flush_denormal(True):
            self.note("torch.set_flush_denormal(True)")
        else:
            self.failures.append("this processor cannot flush subnormal numbers")


class Tf32(Injection):
    """Matrix products on a GPU in TF32."""

    def change(self, module: Any) -> None:
        """Set it, for products and convolutions."""
        module.set_float32_matmul_precision("high")
        module.backends.cudnn.allow_tf32 = True
        self.note('torch.set_float32_matmul_precision("high")')


class OutermostCall(Injection):
    """Something around each outermost call of a network."""

    def change(self, module: Any) -> None:
        """Replace `nn.Module.__call__`."""
        original = module.nn.Module.__call__
        inside = [False]

        @functools.wraps(original)
        def call(network: Any, *args: Any, **kwargs: Any) -> Any:
            if inside[0]:
                return original(network, *args, **kwargs)
            inside[0] = True
            try:
                return self.around(module, functools.partial(original, network), args, kwargs)
            finally:
                inside[0] = False

        module.nn.Module.__call__ = call

    def around(self, torch: Any, call: Any, args: Any, kwargs: Any) -> Any:
        """The outermost call."""
        return call(*args, **kwargs)


class NoGrad(OutermostCall):
    """No graph for the network's calls at some lines."""

    def begin(self) -> None:
        """Read the lines."""
        self.places = {(str(file), int(line)) for file, line in self.settings["places"]}

    def around(self, torch: Any, call: Any, args: Any, kwargs: Any) -> Any:
        """Without gradients if one of the lines calls."""
        frame = sys._getframe(2)
        if (frame.f_code.co_filename, frame.f_lineno) not in self.places:
            return call(*args, **kwargs)
        if not self.applied:
            self.note("torch.no_grad() around the call")
        with torch.no_grad():
            return call(*args, **kwargs)


class Bfloat16(OutermostCall):
    """The networks' calls in bfloat16 where torch finds that safe; their results are float32 again."""

    def around(self, torch: Any, call: Any, args: Any, kwargs: Any) -> Any:
        """Under autocast."""
        device = "cuda" if torch.cuda.is_initialized() else "cpu"
        if not self.applied:
            self.note(f'torch.autocast("{device}", torch.bfloat16)')
        with torch.autocast(device, dtype=torch.bfloat16):
            return widen(torch, call(*args, **kwargs))


def widen(torch: Any, result: Any) -> Any:
    """A network's result with float32 in the place of bfloat16."""
    if isinstance(result, torch.Tensor):
        return result.float() if result.dtype is torch.bfloat16 else result
    if type(result) in (tuple, list):
        return type(result)(widen(torch, part) for part in result)
    return result


class Compile(Injection):
    """Networks are compiled at their first call."""

    def change(self, module: Any) -> None:
        """Compile the outermost network of each call."""
        original = module.nn.Module.__call__
        seen: set[int] = set()
        kept: list[Any] = []
        inside = [False]

        @functools.wraps(original)
        def call(network: Any, *args: Any, **kwargs: Any) -> Any:
            if inside[0] or module.compiler.is_compiling():
                return original(network, *args, **kwargs)
            if id(network) not in seen:
                seen.add(id(network))
                kept.append(network)
                if next(network.parameters(), None) is not None and len(list(network.children())):
                    network.compile()
                    self.note(f"{type(network).__name__}.compile()")
            inside[0] = True
            try:
                return original(network, *args, **kwargs)
            finally:
                inside[0] = False

        module.nn.Module.__call__ = call


class SetToNone(Injection):
    """Gradients are let go between updates, not filled with zeros."""

    def change(self, module: Any) -> None:
        """For optimizers and networks."""
        for made in (module.optim.Optimizer, module.nn.Module):
            made.zero_grad = self.letting_go(made.zero_grad)

    def letting_go(self, original: Callable[..., None]) -> Callable[..., None]:
        """The same method with `set_to_none=True`."""

        @functools.wraps(original)
        def zero_grad(what: Any, set_to_none: bool = True) -> None:
            if not set_to_none and not self.applied:
                self.note("zero_grad(set_to_none=True)")
            original(what, set_to_none=True)

        return zero_grad


def do_nothing(*_: Any, **__: Any) -> None:
    """In the place of a call that is left out."""


class SilentPrints(Injection):
    """Nothing is printed, and progress bars are not drawn. Texts are still made where the source makes them."""

    modules = ("tqdm.std",)

    def begin(self) -> None:
        """`print` does nothing."""
        os.environ["TQDM_DISABLE"] = "1"
        builtins.print = do_nothing
        self.note("print() does nothing")

    def change(self, module: Any) -> None:
        """tqdm before 4.66 does not read the variable."""
        original = module.tqdm.__init__

        @functools.wraps(original)
        def construct(bar: Any, *args: Any, **kwargs: Any) -> None:
            original(bar, *args, **{**kwargs, "disable": True})

        module.tqdm.__init__ = construct


class NoLogger(Injection):
    """TensorBoard, W&B, MLflow and pictures are not written."""

    modules = (
        "torch.utils.tensorboard.writer",
        "tensorboardX.writer",
        "wandb",
        "mlflow",
        "logging",
        "matplotlib.pyplot",
    )
    NAMES = ("log", "log_metric", "log_metrics", "savefig", "pause", "draw", "show")

    def change(self, module: Any) -> None:
        """Silence the module's functions and its writer's methods."""
        if module.__name__ == "logging":
            module.disable(module.CRITICAL)
            return
        writer = getattr(module, "SummaryWriter", None)
        if writer is not None:
            for name in [name for name in vars(writer) if name.startswith("add_") or name == "flush"]:
                setattr(writer, name, do_nothing)
            self.note(f"{module.__name__.partition('.')[0]}'s SummaryWriter writes nothing")
            return
        for name in self.NAMES:
            if callable(getattr(module, name, None)):
                setattr(module, name, do_nothing)
                self.note(f"{module.__name__}.{name}() does nothing")

    def begin(self) -> None:
        """Python's own logging is there already."""
        logging = sys.modules.get("logging")
        if logging is not None:
            with suppress(AttributeError):
                self.change(logging)


class Awake(Injection):
    """Nobody sleeps: `time.sleep` returns at once, and pygame's clocks do not hold frames back."""

    modules = ("pygame.time",)

    def begin(self) -> None:
        """`time.sleep`, before the script imports it by name."""
        time.sleep = self.pass_by

    def pass_by(self, *_: Any) -> None:
        """In the place of a sleep."""
        self.note("time.sleep() returns at once")

    def change(self, module: Any) -> None:
        """A clock without a limit, in the place of pygame's own."""
        original, note = module.Clock, self.note

        class Clock:
            def __init__(self) -> None:
                self.clock = original()

            def tick(self, *_: Any) -> Any:
                note("pygame's clock holds no frame back")
                return self.clock.tick()

            tick_busy_loop = tick

            def __getattr__(self, name: str) -> Any:
                return getattr(self.clock, name)

        module.Clock = Clock


class Keep(Injection):
    """A patched source is run in the place of the script's: nothing to inject."""

    modules: tuple[str, ...] = ()

    def begin(self) -> None:
        """Note it."""
        self.note("the patched source")


INJECTIONS: dict[str, type[Injection]] = {
    "threads": Threads,
    "optimizer-flag": OptimizerFlag,
    "flush": Flush,
    "tf32": Tf32,
    "no-grad": NoGrad,
    "bfloat16": Bfloat16,
    "compile": Compile,
    "set-to-none": SetToNone,
    "silent": SilentPrints,
    "awake": Awake,
    "no-logger": NoLogger,
    "patched": Keep,
}
