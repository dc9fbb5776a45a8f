"""Environments that a program passes as Python objects: a class, a function or an instance.

A class or a function that can be imported goes by its name, `module:Name`, as on the command line. Any other object
gets a name of this process, `<MyEnv 1f3c9a20>`: a run folder holds that name, but no text can make the object
again. Whoever opens the run later passes the environment again (`flashdqn.load(run, env=…)`).
"""

from __future__ import annotations

import copy
import inspect
import re
import secrets
import sys
from dataclasses import dataclass
from typing import Any

from flashdqn.core.blame import describe_failure
from flashdqn.core.errors import ConfigError, EnvError

LIVE_NAME = re.compile(r"<(?:copy of )?(?P<shown>[\w.-]+) [0-9a-f]{8}>")
COPY = "copy of "


@dataclass
class LiveEnv:
    """An object that was passed, and whether it is an environment itself or makes one."""

    name: str
    source: Any
    is_instance: bool
    lent: bool = False  # the instance is being trained on

    @property
    def shown(self) -> str:
        """The name that a user knows."""
        return shorten_live_name(self.name)

    def make(self, **kwargs: Any) -> Any:
        """The instance itself to train on, if it is free."""
        if self.lent:
            return self.make_copy(**kwargs)
        self._refuse_arguments(kwargs)
        from flashdqn.envs.gymnasium.kept_open import KeptOpen
        from flashdqn.envs.gymnasium.old_api import adopt_env

        return KeptOpen(adopt_env(self.source, self.shown), self)

    def make_copy(self, **kwargs: Any) -> Any:
        """A copy of the instance to evaluate on or to show."""
        self._refuse_arguments(kwargs)
        try:
            return copy.deepcopy(self.source)
        except Exception as error:  # whatever the environment holds
            reason = describe_failure(error).reason
            raise EnvError(
                f"{self.shown} cannot be copied ({reason}), and evaluation needs copies of it: pass a class or a "
                "function that makes the environment, not an instance."
            ) from error

    def _refuse_arguments(self, kwargs: dict[str, Any]) -> None:
        drawn = {"render_mode": getattr(self.source, "render_mode", None)}
        if kwargs and kwargs != drawn:
            raise EnvError(
                f"{self.shown} is an instance, which takes no arguments ({', '.join(kwargs)}): pass a class or a "
                "function."
            )


#: The objects of this process, by their names.
_LIVE: dict[str, LiveEnv] = {}


def is_live_name(name: str) -> bool:
    """Whether a name stands for an object of some process."""
    return LIVE_NAME.fullmatch(name) is not None


def shorten_live_name(name: str) -> str:
    """The part of such a name that a user knows: MyEnv."""
    found = LIVE_NAME.fullmatch(name)
    return found["shown"] if found else name


def name_env_object(source: Any, is_instance: bool) -> str:
    """The name of an object: `module:Name` if that leads to it, else a name of this process."""
    if not is_instance and (importable := find_import_name(source)):
        return importable
    for name, known in _LIVE.items():
        if known.source is source:
            return name
    name = f"<{describe_env_object(source, is_instance)} {secrets.token_hex(4)}>"
    register_live_env(name, source, is_instance)
    return name


def describe_env_object(source: Any, is_instance: bool) -> str:
    """A word for an object: the name that Gymnasium has made an instance by, or that of its class or function."""
    if is_instance:
        spec = getattr(source, "spec", None)
        shown = spec.id if spec is not None else type(getattr(source, "unwrapped", source)).__name__
    else:
        shown = getattr(source, "__name__", None) or type(source).__name__
    shown = re.sub(r"[^\w.-]+", "-", str(shown)).strip("-.")
    return "env" if shown in ("", "lambda") else shown


def find_import_name(source: Any) -> str | None:
    """`module:Name` of a class or a function; None if no other process would find it there."""
    module, name = getattr(source, "__module__", None), getattr(source, "__qualname__", "")
    if not isinstance(module, str) or module in ("__main__", "builtins") or not name.isidentifier():
        return None
    return f"{module}:{name}" if getattr(sys.modules.get(module), name, None) is source else None


def register_live_env(name: str, source: Any, is_instance: bool) -> None:
    """Let a name stand for an object: one that was made here, or one of a run that another process has written."""
    _LIVE[name] = LiveEnv(name, source, is_instance)


def lend_name(name: str, source: Any, is_instance: bool) -> bool:
    """Let the name in a run's settings stand for an object; False if it is already that of another object of this
    process, which other agents may be playing with."""
    if name not in _LIVE:
        register_live_env(name, source, is_instance)
    return _LIVE[name].source is source


def find_live_env(name: str) -> Any:
    """What makes the environments of a name."""
    known = _LIVE.get(name.replace(COPY, "", 1))
    if known is None:
        raise ConfigError(
            f"The environment {shorten_live_name(name)} was a Python object of the program that trained this run, "
            "and no name leads to it: open the run in Python and pass it again, as in "
            "flashdqn.load(RUN, env=MyEnv), flashdqn.train(resume=RUN, env=MyEnv)."
        )
    if not known.is_instance:
        return known.source
    return known.make_copy if COPY in name else known.make


def name_copies(name: str) -> str:
    """The name for evaluation, which must not touch an instance that is being trained on."""
    return f"<{COPY}{name[1:]}" if is_live_name(name) and COPY not in name else name


def is_instance_name(name: str) -> bool:
    """Whether a name stands for one instance, of which there is only one."""
    known = _LIVE.get(name)
    return known is not None and known.is_instance


def takes_argument(source: Any, argument: str) -> bool:
    """Whether a class or a function takes an argument of this name."""
    try:
        return argument in inspect.signature(source).parameters
    except (TypeError, ValueError):  # not callable, or built in
        return False
