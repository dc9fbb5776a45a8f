"""Prints, logs and sleeps that are left out of a script from outside."""

from __future__ import annotations

import builtins
import functools
import gc
import os
import sys
import time
from contextlib import suppress
from typing import Any

from .injection import Injection

FIRST_RESULT = "__doctor_keeps_first_result__"


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


class FirstResult(Injection):
    """A function that was marked in the replaced source runs once, and then gives its first result again."""

    modules = ()

    def begin(self) -> None:
        """Make the mark known to every module."""
        setattr(builtins, FIRST_RESULT, self.keep_first)

    def keep_first(self, function: Any) -> Any:
        """The function, which runs only once."""
        results: list[Any] = []

        @functools.wraps(function)
        def once(*args: Any, **kwargs: Any) -> Any:
            if not results:
                results.append(function(*args, **kwargs))
                self.note(f"{function.__name__}() runs once only")
            return results[0]

        return once


class RareCollector(Injection):
    """Python's garbage collector looks at new objects rarely, and never again at those of the start."""

    modules = ("torch",)

    def change(self, module: Any) -> None:
        """After torch was imported, whose many objects stay."""
        gc.freeze()
        gc.set_threshold(100_000, 20, 100)
        self.note("gc.freeze(); gc.set_threshold(100_000, 20, 100)")


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
