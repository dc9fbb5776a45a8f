"""Watch one cell of a notebook, in the notebook's own process, and leave everything as it was.

A script is watched from its first line in a process of its own. A cell needs what the cells before it have made, so
here the stand-ins are put into modules that are there already, and taken out again afterwards.
"""

from __future__ import annotations

import builtins
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from . import classes, main_module
from .classes import watch_module_classes
from .counters import catch_failures
from .frames import is_plumbing
from .kinds import Ending
from .schema import WatchPlan
from .script import ScriptWatch, Stop, format_script_traceback
from .torch_hooks import methods


def watch_cell(plan: WatchPlan, source: bytes, names: dict[str, Any]) -> BaseException | None:
    """Run a cell's source with these names, and write the record; returns the cell's own error."""
    error: BaseException | None = None
    with restored():
        watch = ScriptWatch(plan)
        watch.begin()
        torch = sys.modules.get("torch")
        if torch is not None:
            watch.torch_imported(torch)
        watch_known_classes(names)
        try:
            exec(main_module.compile_with_callbacks(source, plan.script), names)
            watch.ended = Ending.FINISHED
        except Stop:
            watch.ended = Ending.STOPPED
        except KeyboardInterrupt:
            watch.ended = Ending.INTERRUPTED
        except BaseException as raised:
            watch.ended, watch.error, error = Ending.FAILED, format_script_traceback(raised), raised
        finally:
            watch.finish()
            watch.looks.stop()
    return error


@catch_failures
def watch_known_classes(names: dict[str, Any]) -> None:
    """Look at the classes that are there already: of the notebook, and of modules that are not plumbing."""
    for made in list(names.values()):
        if isinstance(made, type):
            classes.watch_class(made)
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        top = getattr(module, "__name__", "").partition(".")[0]
        if isinstance(file, str) and (top in ("gymnasium", "gym") or not is_plumbing(file)):
            watch_module_classes(module)


@contextmanager
def restored() -> Iterator[None]:
    """Put everything back that the watch replaces."""
    places: list[tuple[Any, str]] = [
        (builtins, "print"),
        (signal, "signal"),
        (signal, "setitimer"),
        (signal, "alarm"),
        (os, "execv"),
        (os, "execve"),
    ]
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        places += [(torch.Tensor, "backward"), (torch.nn.Module, "__call__")]
    before = [(owner, name, getattr(owner, name)) for owner, name in places]
    hooks = [(table, dict(table)) for table in find_optimizer_hooks()]
    finders, handler = list(sys.meta_path), signal.getsignal(signal.SIGALRM)
    put = before[1][2]
    try:
        yield
    finally:
        if methods.tensor is not None:
            methods.switch(on=False)
        for owner, name, value in before:
            setattr(owner, name, value)
        for table, content in hooks:
            table.clear()
            table.update(content)
        sys.meta_path[:] = finders
        put(signal.SIGALRM, handler)
        restore_classes()


def find_optimizer_hooks() -> list[Any]:
    """The tables of hooks that torch calls around every optimizer's step."""
    optimizer = sys.modules.get("torch.optim.optimizer")
    names = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
    return [getattr(optimizer, name) for name in names if hasattr(optimizer, name)]


def restore_classes() -> None:
    """Give classes their own methods back."""
    for made, name in classes.replaced:
        method: Callable[..., Any] = vars(made).get(name, None)
        original = getattr(method, "__wrapped__", None)
        if original is not None:
            setattr(made, name, original)
    classes.replaced.clear()
