"""Environments and replays are recognized by their methods: every class with `step` and `reset`, or with `sample`
and a way to add, is watched, no matter who wrote it.

Only the outermost call counts: wrappers around wrappers are one step.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from types import FunctionType, ModuleType
from typing import Any

from .counters import catch_failures, local
from .env_step import is_step_result, note_reset, note_step
from .frames import HERE, stand_in_for
from .kinds import Phase

ADDERS = (
    "push",
    "add",
    "append",
    "store",
    "remember",
    "extend",
    "put",
    "insert",
    "store_transition",
    "add_batch",
)
STEPS = ("step", "play_step", "env_step", "take_action", "perform_action")
"""What people call the step of an environment."""
#: Their `step` is not an environment's, whatever else they have.
NO_ENVIRONMENT = {"Optimizer", "LRScheduler", "_LRScheduler", "GradScaler"}


class Watchers:
    """Who else wants to see results of steps, and replays: nobody, unless learning is looked at."""

    outer: Callable[[Any], None] | None = None
    inner: Callable[[Any], None] | None = None
    replay: Callable[[Any], None] | None = None


watchers = Watchers()


@catch_failures
def watch_module_classes(module: ModuleType) -> None:
    """Look at the classes that a module defines."""
    for made in list(vars(module).values()):
        if issubclass(type(made), type) and vars(made).get("__module__") == module.__name__:
            watch_class(made)


@catch_failures
def watch_class(made: Any) -> None:
    """Replace the methods of a class that is an environment or a replay."""
    if not issubclass(type(made), type):
        return  # a decorator or a metaclass may have made something else of it
    own = vars(made)
    for name in STEPS:
        if takes_action(own.get(name)) and defines_callable(made, "reset") and not is_excluded_class(made):
            replace_method(made, name, counted_step(own[name]))
            if is_plain_function(vars(made).get("reset")):
                replace_method(made, "reset", noted_reset(own["reset"]))
    if not defines_callable(made, "sample"):
        return
    if is_plain_function(own.get("sample")) and any(defines_callable(made, name) for name in ADDERS):
        replace_method(made, "sample", named_replay(own["sample"]))
    for name in ADDERS:
        if is_plain_function(own.get(name)):
            replace_method(made, name, named_replay(own[name]))


replaced: list[tuple[type, str]] = []
"""Classes, and the names of the methods that were replaced in each."""


def replace_method(made: type, name: str, method: Callable[..., Any]) -> None:
    """Set a method; a class that cannot be changed stays as it is."""
    with suppress(AttributeError, TypeError):
        setattr(made, name, method)
        replaced.append((made, name))


def defines_callable(made: type, name: str) -> bool:
    """Whether a class or one of its bases defines a callable, without asking a metaclass."""
    return any(callable(vars(base).get(name)) for base in type.mro(made))


def is_plain_function(method: object) -> bool:
    """Whether this is a Python function, and not one of the watch's."""
    return isinstance(method, FunctionType) and not method.__code__.co_filename.startswith(HERE)


def is_excluded_class(made: type) -> bool:
    """Whether it descends from something that is known not to be an environment."""
    return any(base.__name__ in NO_ENVIRONMENT for base in type.mro(made))


def takes_action(step: object) -> bool:
    """Whether this is a plain method with at least one argument besides self."""
    if not is_plain_function(step):
        return False
    code = step.__code__  # type: ignore[attr-defined]
    return code.co_argcount >= 2 or bool(code.co_flags & 4)


def counted_step(original: Callable[..., Any]) -> Callable[..., Any]:
    """The same step, with its time and its result noted."""
    note = StepNote()

    @stand_in_for(Phase.ENVIRONMENT)
    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        return note(original, self, args, kwargs)

    return step


def named_replay(original: Callable[..., Any]) -> Callable[..., Any]:
    """The same method, in a frame that marks its time as replay. It is not counted: it may come a million times."""

    @stand_in_for(Phase.REPLAY)
    @functools.wraps(original)
    def replay(self: Any, *args: Any, **kwargs: Any) -> Any:
        if watchers.replay is not None:
            watchers.replay(self)
        return original(self, *args, **kwargs)

    return replay


def noted_reset(original: Callable[..., Any]) -> Callable[..., Any]:
    """The same reset, in a frame that marks its time as the environment's."""
    note = ResetNote()

    @stand_in_for(Phase.ENVIRONMENT)
    @functools.wraps(original)
    def reset(self: Any, *args: Any, **kwargs: Any) -> Any:
        return note(original, self, args, kwargs)

    return reset


class ResetNote:
    """Notes an environment's reset, and calls it. It is pickled as a `StepNote` is."""

    def __reduce__(self) -> tuple[Any, ...]:
        return StepNote.__reduce__(StepNote())

    def __call__(self, original: Callable[..., Any], env: Any, args: Any, kwargs: Any) -> Any:
        """Note it, and call it."""
        note_reset(env, bool(local.in_env))
        return original(env, *args, **kwargs)


class StepNote:
    """Calls an environment's step and notes it. Its pickle is a plain call: cloudpickle sends or saves classes by
    value, and there is no watch where they are loaded.
    """

    known = False
    stranger = False
    """Whether its `step` returns something else: then it is called without notes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, ("lambda original, self, args, kwargs: original(self, *args, **kwargs)",)

    def __call__(self, original: Callable[..., Any], env: Any, args: Any, kwargs: Any) -> Any:
        """Call the step; note it if it is the outermost one."""
        if local.in_env or self.stranger:
            result = original(env, *args, **kwargs)
            if watchers.inner is not None and not self.stranger:
                watchers.inner(result)
            return result
        local.in_env = 1
        start = perf_counter()
        try:
            result = original(env, *args, **kwargs)
        finally:
            local.in_env = 0
        if is_step_result(result):
            self.known = True
            if watchers.outer is not None:
                watchers.outer(result)
            note_step(env, result, perf_counter() - start, sys._getframe(2))
        else:
            self.stranger = not self.known
        return result
